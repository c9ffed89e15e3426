/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/counters.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/debug.h"
#include "base/fd.h"
#include "base/lock.h"
#include "base/msg.h"
#include "base/sys.h"
#include "log/count.h"
#include "log/page.h"
#include "log/parts.h"

const struct gm_counter_info gm_counter_table[GM_COUNTER_COUNT] = {
#define GM_COUNTER(scope, kind, name, unit, help) \
	{#name, help, GM_SCOPE_##scope, GM_KIND_##kind, GM_UNIT_##unit},
#include "log/counters.def"
#undef GM_COUNTER
};

static struct gm_counter_live own; /* used while neither log nor memfd is mapped */
_Atomic(struct gm_counter_live *) gm_count_shown = &own;
static struct gm_lock parts_lock =
	GM_LOCK_INIT(GM_LOCK_RANK_COUNTER); /* held to take rows of parts, and to move them */
static int memfd = -1;
static struct gm_fd_identity memfd_identity;
static struct gm_counter_live *memfd_live;

GM_TLS uint16_t gm_count_mine[GM_PAGE_ROWS];

static inline struct gm_counter_live *live_place(void)
{
	return atomic_load_explicit(&gm_count_shown, memory_order_acquire);
}

static inline _Atomic uint64_t *counter_place(unsigned device, enum gm_counter counter)
{
	return &live_place()->page.value[gm_count_row(device, counter)][counter];
}

static void parts_take(unsigned row)
{
	gm_lock_take(&parts_lock);
	gm_count_mine[row] = (uint16_t)(1 + gm_parts_take(&live_place()->parts, row));
	gm_lock_release(&parts_lock);
}

void gm_count_elsewhere(unsigned device, enum gm_counter counter, uint64_t n)
{
	unsigned row = gm_count_row(device, counter);
	if (gm_count_place(counter) && !gm_count_mine[row]) {
		parts_take(row);
		gm_counter_add(device, counter, n);
		return;
	}
	atomic_fetch_add_explicit(counter_place(device, counter), n, memory_order_relaxed);
}

uint64_t gm_counter_change(unsigned device, enum gm_counter counter, uint64_t n)
{
	GM_ASSERT(!gm_count_place(counter) && "the sum of a split counter is not known");
	return atomic_fetch_add_explicit(counter_place(device, counter), n, memory_order_relaxed) +
	       n;
}

void gm_counter_set(unsigned device, enum gm_counter counter, uint64_t value)
{
	uint64_t parts[GM_COUNTER_COUNT] = {0};
	if (gm_count_place(counter))
		gm_parts_sum(&live_place()->parts, gm_count_row(device, counter), parts);
	atomic_store_explicit(counter_place(device, counter), value - parts[counter],
			      memory_order_relaxed);
}

bool gm_counter_raise(unsigned device, enum gm_counter counter, uint64_t value)
{
	_Atomic uint64_t *peak = counter_place(device, counter);
	uint64_t before = atomic_load_explicit(peak, memory_order_relaxed);
	while (before < value)
		if (atomic_compare_exchange_weak_explicit(
			    peak, &before, value, memory_order_relaxed, memory_order_relaxed))
			return true;
	return false;
}

/* The values of a row of the page, with its parts. */
static void row_sum(const struct gm_counter_live *from, unsigned row,
		    uint64_t value[GM_COUNTER_COUNT])
{
	for (unsigned i = 0; i < GM_COUNTER_COUNT; i++)
		value[i] = atomic_load_explicit(&from->page.value[row][i], memory_order_relaxed);
	gm_parts_sum(&from->parts, row, value);
}

uint64_t gm_counter_get(unsigned device, enum gm_counter counter)
{
	uint64_t value[GM_COUNTER_COUNT];
	if (!gm_count_place(counter))
		return atomic_load_explicit(counter_place(device, counter), memory_order_relaxed);
	row_sum(live_place(), gm_count_row(device, counter), value);
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
	return &live_place()->page.head;
}

/* Close the memfd, so that no process finds it; its addresses stay mapped, for a count in
 * progress. */
static void memfd_drop(void)
{
	if (memfd >= 0 && gm_fd_is(memfd, &memfd_identity))
		gm_sys_close(memfd);
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
		row_sum(live_place(), row, value);
		for (unsigned i = 0; i < GM_COUNTER_COUNT; i++)
			atomic_store_explicit(&to->value[row][i], value[i], memory_order_relaxed);
	}
}

static void page_copy(const struct gm_counter_page *from, struct gm_counter_page *to)
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
	struct gm_counter_live *from = live_place();
	if (!to)
		to = &own;
	if (to == from)
		return;
	gm_lock_take(&parts_lock);
	page_copy(&from->page, &to->page);
	gm_parts_describe(&to->parts);
	gm_parts_copy(&from->parts, &to->parts);
	atomic_store_explicit(&gm_count_shown, to, memory_order_release);
	gm_lock_release(&parts_lock);
	if (from == memfd_live)
		memfd_drop();
	errno = saved;
}

static bool memfd_failed(const char *call, int saved)
{
	gm_msg(GM_MSG_WARN, "live counters: %s: %s; gpumemstat top will not see this process", call,
	       strerror(errno));
	errno = saved;
	return false;
}

/* Returns the call that failed; NULL: none. */
static const char *memfd_map(int fd, struct gm_counter_live **to)
{
	errno = gm_fd_extend(fd, sizeof **to);
	if (errno)
		return "ftruncate";
	*to = mmap(NULL, sizeof **to, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*to == MAP_FAILED)
		return "mmap";
	if (gm_fd_identify(fd, &memfd_identity))
		return NULL;
	int error = errno;
	munmap(*to, sizeof **to);
	errno = error;
	return "fstat";
}

bool gm_counters_open(void)
{
	if (live_place() != &own)
		return true;
	int saved = errno;
	int fd = memfd_create("gpumem", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return memfd_failed("memfd_create", saved);
	fd = gm_fd_raise(fd);
	if (fd < 0)
		return memfd_failed("memfd_create", saved);
	struct gm_counter_live *to;
	const char *failed = memfd_map(fd, &to);
	if (failed) {
		memfd_failed(failed, saved);
		gm_sys_close(fd);
		return false;
	}
	/* A process that opens the memfd through /proc must not be able to shorten it. */
	gm_sys_fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
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
	memset(gm_count_mine, 0, sizeof gm_count_mine);
	gm_parts_forget(&own.parts);
	gm_lock_init(&parts_lock, GM_LOCK_RANK_COUNTER);
	atomic_store_explicit(&gm_count_shown, &own, memory_order_release);
	memfd_drop();
	errno = saved;
}
