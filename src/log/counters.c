/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/counters.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/debug.h"
#include "base/lock.h"
#include "base/msg.h"
#include "log/fd.h"
#include "log/page.h"
#include "log/parts.h"

const struct gm_counter_info gm_counter_table[GM_COUNTER_COUNT] = {
#define GM_COUNTER(scope, kind, name, unit, help) \
	{#name, help, GM_SCOPE_##scope, GM_KIND_##kind, GM_UNIT_##unit},
#include "log/counters.def"
#undef GM_COUNTER
};

/* By counter: is it a device's, and 1 + its place in rows of parts; 0: it is in the page alone. */
static const uint8_t of_device[GM_COUNTER_COUNT] = {
#define GM_COUNTER(scope, kind, name, unit, help) GM_SCOPE_##scope == GM_SCOPE_DEVICE,
#include "log/counters.def"
#undef GM_COUNTER
};
static const uint8_t place_of[GM_COUNTER_COUNT] = {
#define GM_SPLIT(scope, place, name) [GM_C_##name] = 1 + (place),
#include "log/split.def"
#undef GM_SPLIT
};

static struct gm_counter_live own; /* counted in while nothing is shared */
static _Atomic(struct gm_counter_live *) shown = &own;
static struct gm_lock parts_lock = GM_LOCK_INIT(GM_RANK_COUNTER); /* of who takes or moves rows */
static int memfd = -1;
static struct gm_fd_identity memfd_identity;
static struct gm_counter_live *memfd_live;

/* The calling thread's rows of parts, by row of the page: 1 + which; SHARED: none was left. */
static GM_TLS uint16_t mine[GM_PAGE_ROWS];
#define SHARED (GM_PART_ROWS + 1)

static inline struct gm_counter_live *live(void)
{
	return atomic_load_explicit(&shown, memory_order_acquire);
}

static inline unsigned row_of(unsigned device, enum gm_counter counter)
{
	if (!of_device[counter])
		return 0;
	return 1 + (device < GM_COUNTER_DEVICES ? device : GM_COUNTER_DEVICES - 1);
}

static inline _Atomic uint64_t *at(unsigned device, enum gm_counter counter)
{
	return &live()->page.value[row_of(device, counter)][counter];
}

static void take_parts(unsigned row)
{
	gm_lock_take(&parts_lock);
	mine[row] = (uint16_t)(1 + gm_parts_take(&live()->parts, row));
	gm_lock_release(&parts_lock);
}

/* In the page, or for the first time in a row of parts. Apart, so that the other way is short. */
static __attribute__((noinline)) void add_elsewhere(unsigned device, enum gm_counter counter,
						    uint64_t n)
{
	unsigned row = row_of(device, counter);
	if (place_of[counter] && !mine[row]) {
		take_parts(row);
		gm_counter_add(device, counter, n);
		return;
	}
	atomic_fetch_add_explicit(at(device, counter), n, memory_order_relaxed);
}

void gm_counter_add(unsigned device, enum gm_counter counter, uint64_t n)
{
	unsigned place = place_of[counter], which = mine[row_of(device, counter)];
	if (GM_UNLIKELY(!place || !which || which == SHARED)) {
		add_elsewhere(device, counter, n);
		return;
	}
	/* Nobody else writes it. */
	_Atomic uint64_t *part = &live()->parts.of[which - 1].part[place - 1];
	uint64_t before = atomic_load_explicit(part, memory_order_relaxed);
	atomic_store_explicit(part, before + n, memory_order_relaxed);
}

uint64_t gm_counter_change(unsigned device, enum gm_counter counter, uint64_t n)
{
	GM_ASSERT(!place_of[counter] && "the sum of a split counter is not known");
	return atomic_fetch_add_explicit(at(device, counter), n, memory_order_relaxed) + n;
}

void gm_counter_set(unsigned device, enum gm_counter counter, uint64_t value)
{
	uint64_t parts[GM_COUNTER_COUNT] = {0};
	if (place_of[counter])
		gm_parts_sum(&live()->parts, row_of(device, counter), parts);
	atomic_store_explicit(at(device, counter), value - parts[counter], memory_order_relaxed);
}

bool gm_counter_raise(unsigned device, enum gm_counter counter, uint64_t value)
{
	_Atomic uint64_t *peak = at(device, counter);
	uint64_t before = atomic_load_explicit(peak, memory_order_relaxed);
	while (before < value)
		if (atomic_compare_exchange_weak_explicit(
			    peak, &before, value, memory_order_relaxed, memory_order_relaxed))
			return true;
	return false;
}

/* A row of the page, parts added. */
static void sum_row(const struct gm_counter_live *from, unsigned row,
		    uint64_t value[GM_COUNTER_COUNT])
{
	for (unsigned i = 0; i < GM_COUNTER_COUNT; i++)
		value[i] = atomic_load_explicit(&from->page.value[row][i], memory_order_relaxed);
	gm_parts_sum(&from->parts, row, value);
}

uint64_t gm_counter_get(unsigned device, enum gm_counter counter)
{
	uint64_t value[GM_COUNTER_COUNT];
	if (!place_of[counter])
		return atomic_load_explicit(at(device, counter), memory_order_relaxed);
	sum_row(live(), row_of(device, counter), value);
	return value[counter];
}

void gm_counters_describe(struct gm_page_head *head, uint32_t version)
{
	memcpy(head->magic, GM_PAGE_MAGIC, sizeof head->magic);
	head->version = version;
	head->counters = GM_COUNTER_COUNT;
	head->stride = GM_PAGE_STRIDE;
	head->rows = GM_PAGE_ROWS;
	head->pid = (uint32_t)getpid();
	head->start = head->last = gm_clock_ns();
}

struct gm_page_head *gm_counters_head(void)
{
	return &live()->page.head;
}

/* The memfd goes as soon as nobody should find it; its mapping stays for a count in flight. */
static void drop_memfd(void)
{
	if (memfd >= 0 && gm_fd_is(memfd, &memfd_identity))
		close(memfd);
	memfd = -1;
	if (memfd_live)
		mmap(memfd_live, sizeof *memfd_live, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	memfd_live = NULL;
}

void gm_counters_copy(struct gm_counter_page *to)
{
	uint64_t value[GM_COUNTER_COUNT];
	for (unsigned row = 0; row < GM_PAGE_ROWS; row++) {
		sum_row(live(), row, value);
		for (unsigned i = 0; i < GM_COUNTER_COUNT; i++)
			atomic_store_explicit(&to->value[row][i], value[i], memory_order_relaxed);
	}
}

static void copy_page(const struct gm_counter_page *from, struct gm_counter_page *to)
{
	for (unsigned row = 0; row < GM_PAGE_ROWS; row++)
		for (unsigned i = 0; i < GM_COUNTER_COUNT; i++)
			atomic_store_explicit(
				&to->value[row][i],
				atomic_load_explicit(&from->value[row][i], memory_order_relaxed),
				memory_order_relaxed);
}

void gm_counters_move(struct gm_counter_live *to)
{
	int saved = errno;
	struct gm_counter_live *from = live();
	if (!to)
		to = &own;
	if (to == from)
		return;
	gm_lock_take(&parts_lock);
	copy_page(&from->page, &to->page);
	gm_parts_describe(&to->parts);
	gm_parts_copy(&from->parts, &to->parts);
	atomic_store_explicit(&shown, to, memory_order_release);
	gm_lock_release(&parts_lock);
	if (from == memfd_live)
		drop_memfd();
	errno = saved;
}

static bool open_failed(const char *what, int saved)
{
	gm_msg(GM_MSG_WARN, "live counters: %s: %s; gpumemstat top will not see this process", what,
	       strerror(errno));
	errno = saved;
	return false;
}

bool gm_counters_open(void)
{
	if (live() != &own)
		return true;
	int saved = errno;
	int fd = memfd_create("gpumem", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return open_failed("memfd_create", saved);
	fd = gm_fd_raise(fd);
	if (fd < 0)
		return open_failed("memfd_create", saved);
	struct gm_counter_live *to = MAP_FAILED;
	errno = gm_fd_extend(fd, sizeof *to);
	if (!errno)
		to = mmap(NULL, sizeof *to, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (to == MAP_FAILED || !gm_fd_identify(fd, &memfd_identity)) {
		open_failed("mmap", saved);
		close(fd);
		return false;
	}
	/* Whoever opens it through /proc must not be able to shorten it under our feet. */
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	gm_counters_describe(&to->page.head, GM_PAGE_SPLIT);
	gm_counters_move(to);
	memfd = fd;
	memfd_live = to;
	errno = saved;
	return true;
}

void gm_counters_forget(void)
{
	int saved = errno;
	memset(&own.page, 0, sizeof own.page);
	memset(mine, 0, sizeof mine);
	gm_parts_forget(&own.parts);
	gm_lock_init(&parts_lock, GM_RANK_COUNTER);
	atomic_store_explicit(&shown, &own, memory_order_release);
	drop_memfd();
	errno = saved;
}
