/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Duration of calls at a third of the cost of two clock readings: by the processor's counter, once
 * its rate is known, where the kernel derives CLOCK_MONOTONIC from the same counter. A moment of
 * the counter is odd; a moment of the clock, in nanoseconds, is even.
 */
#ifndef GM_BASE_TICK_H
#define GM_BASE_TICK_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/debug.h"

/* Nanoseconds a tick, in units of 2^-32; 0: moments are the clock's. */
extern _Atomic uint64_t gm_tick_scale;

/* Use the counter, where it can be used, as soon as its rate is known. Opens a file of the
 * kernel. */
void gm_tick_start(void);

/* Measure the counter's rate; to be called now and then. A call within 10 ms of the last one does
 * nothing. Any thread; of two at a time, one returns at once. */
void gm_tick_calibrate(void);

/* Nanoseconds from one moment to another, if one of them at least is the clock's. */
uint64_t gm_tick_mixed_ns(uint64_t from, uint64_t to);

/* The present moment. */
static inline uint64_t gm_tick(void)
{
#ifdef __x86_64__
	if (GM_LIKELY(atomic_load_explicit(&gm_tick_scale, memory_order_relaxed)))
		return __builtin_ia32_rdtsc() | 1;
#endif
	return gm_clock_ns() & ~(uint64_t)1;
}

static inline bool gm_tick_is_clock(uint64_t moment)
{
	return moment % 2 == 0;
}

/* Nanoseconds from one moment to another. */
static inline uint64_t gm_tick_ns(uint64_t from, uint64_t to)
{
	if (GM_UNLIKELY(gm_tick_is_clock(from & to)))
		return gm_tick_mixed_ns(from, to);
	uint64_t scale = atomic_load_explicit(&gm_tick_scale, memory_order_relaxed);
	/* The counters of two processors may differ by some ticks. */
	return to < from ? 0 : (uint64_t)((unsigned __int128)(to - from) * scale >> 32);
}

/* Ticks in `ns` nanoseconds. pre: moments are the counter's (gm_tick_scale is not 0). */
static inline uint64_t gm_tick_of_ns(uint64_t ns)
{
	return (ns << 32) / atomic_load_explicit(&gm_tick_scale, memory_order_relaxed);
}

#endif
