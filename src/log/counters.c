/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/counters.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/debug.h"
#include "base/msg.h"
#include "log/fd.h"
#include "log/page.h"

const struct gm_counter_info gm_counter_table[GM_COUNTER_COUNT] = {
#define GM_COUNTER(scope, kind, name, unit, help) \
	{#name, help, GM_SCOPE_##scope, GM_KIND_##kind, GM_UNIT_##unit},
#include "log/counters.def"
#undef GM_COUNTER
};

static struct gm_counter_page own; /* counted in while nothing is shared */
static _Atomic(struct gm_counter_page *) shown = &own;
static int memfd = -1;
static struct gm_fd_identity memfd_identity;
static struct gm_counter_page *memfd_page;

static inline _Atomic uint64_t *at(unsigned device, enum gm_counter counter)
{
	struct gm_counter_page *page = atomic_load_explicit(&shown, memory_order_acquire);
	unsigned row = 0;
	if (gm_counter_table[counter].scope == GM_SCOPE_DEVICE)
		row = 1 + (device < GM_COUNTER_DEVICES ? device : GM_COUNTER_DEVICES - 1);
	return &page->value[row][counter];
}

uint64_t gm_counter_add(unsigned device, enum gm_counter counter, uint64_t n)
{
	return atomic_fetch_add_explicit(at(device, counter), n, memory_order_relaxed) + n;
}

void gm_counter_set(unsigned device, enum gm_counter counter, uint64_t value)
{
	atomic_store_explicit(at(device, counter), value, memory_order_relaxed);
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

uint64_t gm_counter_get(unsigned device, enum gm_counter counter)
{
	return atomic_load_explicit(at(device, counter), memory_order_relaxed);
}

void gm_counters_describe(struct gm_page_head *head)
{
	memcpy(head->magic, GM_PAGE_MAGIC, sizeof head->magic);
	head->version = GM_PAGE_VERSION;
	head->counters = GM_COUNTER_COUNT;
	head->stride = GM_PAGE_STRIDE;
	head->rows = GM_PAGE_ROWS;
	head->pid = (uint32_t)getpid();
	head->start = head->last = gm_clock_ns();
}

struct gm_counter_page *gm_counters_page(void)
{
	return atomic_load_explicit(&shown, memory_order_acquire);
}

/* The memfd goes as soon as nobody should find it; its mapping stays for a count in flight. */
static void drop_memfd(void)
{
	if (memfd >= 0 && gm_fd_is(memfd, &memfd_identity))
		close(memfd);
	memfd = -1;
	if (memfd_page)
		mmap(memfd_page, sizeof *memfd_page, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	memfd_page = NULL;
}

void gm_counters_copy(struct gm_counter_page *to)
{
	struct gm_counter_page *from = gm_counters_page();
	for (unsigned row = 0; row < GM_PAGE_ROWS; row++)
		for (unsigned i = 0; i < GM_COUNTER_COUNT; i++)
			atomic_store_explicit(
				&to->value[row][i],
				atomic_load_explicit(&from->value[row][i], memory_order_relaxed),
				memory_order_relaxed);
}

void gm_counters_move(struct gm_counter_page *page)
{
	int saved = errno;
	struct gm_counter_page *from = gm_counters_page();
	struct gm_counter_page *to = page ? page : &own;
	if (to == from)
		return;
	gm_counters_copy(to);
	atomic_store_explicit(&shown, to, memory_order_release);
	if (from == memfd_page)
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
	if (gm_counters_page() != &own)
		return true;
	int saved = errno;
	int fd = memfd_create("gpumem", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return open_failed("memfd_create", saved);
	fd = gm_fd_raise(fd);
	if (fd < 0)
		return open_failed("memfd_create", saved);
	struct gm_counter_page *page = MAP_FAILED;
	errno = gm_fd_extend(fd, sizeof *page);
	if (!errno)
		page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED || !gm_fd_identify(fd, &memfd_identity)) {
		open_failed("mmap", saved);
		close(fd);
		return false;
	}
	/* Whoever opens it through /proc must not be able to shorten it under our feet. */
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	gm_counters_describe(&page->head);
	gm_counters_move(page);
	memfd = fd;
	memfd_page = page;
	errno = saved;
	return true;
}

void gm_counters_forget(void)
{
	int saved = errno;
	memset(&own, 0, sizeof own);
	atomic_store_explicit(&shown, &own, memory_order_release);
	drop_memfd();
	errno = saved;
}
