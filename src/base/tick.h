/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a call took, for a third of what two readings of the clock cost: by the processor's
 * counter, once its pace is known, where the kernel makes CLOCK_MONOTONIC of that counter itself. A
 * moment of the counter is odd, one of the clock (in nanoseconds) even.
 */
#ifndef GM_BASE_TICK_H
#define GM_BASE_TICK_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/debug.h"

/* Nanoseconds a tick, in 2^-32; 0: moments are the clock's. */
extern _Atomic uint64_t gm_tick_scale;

/* Use the counter from when it is known, if it can be. Opens a file of the kernel. */
void gm_tick_start(void);

/* Now and then: how fast the counter goes. What is asked within 10 ms of the last time is not
 * looked at. Any thread; two at once do no harm. */
void gm_tick_calibrate(void);

/* Between two moments of which one is the clock's. */
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
	/* The counters of two processors may be some ticks apart. */
	return to < from ? 0 : (uint64_t)((unsigned __int128)(to - from) * scale >> 32);
}

/* Ticks in so many nanoseconds, while moments are the counter's. */
static inline uint64_t gm_tick_of_ns(uint64_t ns)
{
	return (ns << 32) / atomic_load_explicit(&gm_tick_scale, memory_order_relaxed);
}

#endif
