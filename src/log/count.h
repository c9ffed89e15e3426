/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The short path of nearly every count, inlined at each caller: an addition to the thread's own row
 * of parts (page.h), which no other thread writes. Any thread; no lock.
 */
#ifndef GM_LOG_COUNT_H
#define GM_LOG_COUNT_H

#include "base/debug.h"
#include "log/page.h"

/* The calling thread's row of parts for each row of the page: 1 + its index; 0: none yet; SHARED:
 * all rows were taken. */
extern GM_TLS uint16_t gm_count_mine[GM_PAGE_ROWS];
#define GM_COUNT_SHARED (GM_PART_ROWS + 1)

/* The counters in use. */
extern GM_HIDDEN _Atomic(struct gm_counter_live *) gm_count_shown;

/* 1 + the place of a counter in rows of parts; 0: it is in the page alone. */
static inline unsigned gm_count_place(enum gm_counter counter)
{
	switch (counter) {
#define GM_SPLIT(scope, place, name) \
	case GM_C_##name:            \
		return 1 + (place);
#include "log/split.def"
#undef GM_SPLIT
	default:
		return 0;
	}
}

/* The row of the page that a counter is in. */
static inline unsigned gm_count_row(unsigned device, enum gm_counter counter)
{
	static const uint8_t of_device[GM_COUNTER_COUNT] = {
#define GM_COUNTER(scope, kind, name, unit, help) GM_SCOPE_##scope == GM_SCOPE_DEVICE,
#include "log/counters.def"
#undef GM_COUNTER
	};
	if (!of_device[counter])
		return 0;
	return 1 + (device < GM_COUNTER_DEVICES ? device : GM_COUNTER_DEVICES - 1);
}

/* The slow path: count in the page, or take a row of parts first. Takes GM_LOCK_RANK_COUNTER. */
void gm_count_elsewhere(unsigned device, enum gm_counter counter, uint64_t n);

/* The calling thread's parts of the counters in a row of the page; NULL: it has none. */
static inline _Atomic uint64_t *gm_count_parts(unsigned row)
{
	unsigned which = gm_count_mine[row];
	if (GM_UNLIKELY(!which || which == GM_COUNT_SHARED))
		return NULL;
	return atomic_load_explicit(&gm_count_shown, memory_order_acquire)
		->parts.of[which - 1]
		.part;
}

static inline void gm_count_in(_Atomic uint64_t *parts, unsigned device, enum gm_counter counter,
			       uint64_t n)
{
	unsigned place = gm_count_place(counter);
	if (GM_UNLIKELY(!place || !parts)) {
		gm_count_elsewhere(device, counter, n);
		return;
	}
	uint64_t before = atomic_load_explicit(&parts[place - 1], memory_order_relaxed);
	atomic_store_explicit(&parts[place - 1], before + n, memory_order_relaxed);
}

/* Count with `parts` found before, for several counts of a device:
 * gm_count_in(gm_count_device(D), D, ...). */
static inline _Atomic uint64_t *gm_count_device(unsigned device)
{
	return gm_count_parts(gm_count_row(device, GM_C_allocate_calls));
}

/* Add `n` to a counter. Process counters ignore `device`. Before gm_counters_open the page is
 * private. Any thread; async-signal-safe but for the first count of a thread. */
static inline void gm_counter_add(unsigned device, enum gm_counter counter, uint64_t n)
{
	gm_count_in(gm_count_parts(gm_count_row(device, counter)), device, counter, n);
}

#endif
