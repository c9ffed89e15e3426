/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/counters.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/debug.h"
#include "base/msg.h"
#include "log/live.h"

const struct gm_counter_info gm_counter_table[GM_COUNTER_COUNT] = {
#define GM_COUNTER(scope, kind, name, unit, help)                                                  \
	{#name, help, GM_SCOPE_##scope, GM_KIND_##kind, GM_UNIT_##unit},
#include "log/counters.def"
#undef GM_COUNTER
};

static struct gm_live private_page; /* until gm_counters_open, and in a fresh fork */
static struct gm_live *page = &private_page;

static _Atomic uint64_t *slot(unsigned device, enum gm_counter counter)
{
	GM_ASSERT(counter < GM_COUNTER_COUNT);
	if (gm_counter_table[counter].scope == GM_SCOPE_PROCESS)
		return &page->process[counter];
	return &page->device[device < GM_COUNTER_DEVICES ? device : GM_COUNTER_DEVICES - 1][counter];
}

void gm_counter_add(unsigned device, enum gm_counter counter, uint64_t n)
{
	atomic_fetch_add_explicit(slot(device, counter), n, memory_order_relaxed);
}

void gm_counter_set(unsigned device, enum gm_counter counter, uint64_t value)
{
	atomic_store_explicit(slot(device, counter), value, memory_order_relaxed);
}

bool gm_counter_raise(unsigned device, enum gm_counter counter, uint64_t value)
{
	_Atomic uint64_t *at = slot(device, counter);
	uint64_t now = atomic_load_explicit(at, memory_order_relaxed);
	while (value > now)
		if (atomic_compare_exchange_weak_explicit(at, &now, value, memory_order_relaxed,
							  memory_order_relaxed))
			return true;
	return false;
}

uint64_t gm_counter_get(unsigned device, enum gm_counter counter)
{
	return atomic_load_explicit(slot(device, counter), memory_order_relaxed);
}

bool gm_counters_open(void)
{
	if (page != &private_page)
		return true;
	int fd = memfd_create(GM_LIVE_NAME, MFD_CLOEXEC);
	void *at = MAP_FAILED;
	if (fd >= 0 && ftruncate(fd, sizeof *page) == 0)
		at = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) {
		if (fd >= 0)
			close(fd);
		gm_msg(GM_MSG_WARN, "no memory for the live counters: they cannot be watched");
		return false;
	}
	/* Nothing has been counted yet: counting starts after this call, in the same cuInit. */
	struct gm_live *fresh = at;
	fresh->version = GM_LIVE_VERSION;
	fresh->counters = GM_COUNTER_COUNT;
	fresh->devices = GM_COUNTER_DEVICES;
	memcpy(fresh->magic, GM_LIVE_MAGIC, sizeof fresh->magic);
	page = fresh; /* the descriptor stays open: it is how others find the page */
	return true;
}

void gm_counters_forget(void)
{
	page = &private_page;
	memset(&private_page, 0, sizeof private_page);
}
