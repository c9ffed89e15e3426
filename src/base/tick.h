/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Durations of calls, at a third of the cost of two clock readings. They come from the processor's
 * counter, once its rate is known, if the kernel derives CLOCK_MONOTONIC from the same counter. A
 * moment of the counter is odd; a moment of the clock, in nanoseconds, is even.
 */
#ifndef GM_BASE_TICK_H
#define GM_BASE_TICK_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/debug.h"

/* Nanoseconds a tick, in units of 2^-32; 0: moments are of the clock. */
extern GM_HIDDEN _Atomic uint64_t gm_tick_scale;

/* Use the counter, if it is usable, once its rate is known. Opens a file of the kernel. */
void gm_tick_start(void);

/* Measure the counter's rate; to be called now and then. A call within 10 ms of the last one does
 * nothing. Any thread; of two at a time, one returns at once. */
void gm_tick_calibrate(void);

/* Nanoseconds from one moment to another, at least one of which is of the clock. */
uint64_t gm_tick_mixed_ns(uint64_t from, uint64_t to);

/* CLOCK_MONOTONIC at a moment of the last hours, to some 100 ns; of an older moment, to 1e-5 of its
 * age. Reads the clock once in 10 ms. Any thread. Two moments closer than that error may change
 * their order. */
uint64_t gm_tick_clock(uint64_t moment);

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

/* Ticks in `ns` nanoseconds. pre: moments are of the counter (gm_tick_scale is not 0). */
static inline uint64_t gm_tick_of_ns(uint64_t ns)
{
	return (ns << 32) / atomic_load_explicit(&gm_tick_scale, memory_order_relaxed);
}

#endif
