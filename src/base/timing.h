/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time of frequent calls. Reading the clock before and after each would take a tenth of the call's
 * time. So while a thread makes many calls, one in GM_PACE is timed and counts for GM_PACE calls. A
 * call that turns out to be slow is timed from that point on and counts for itself.
 */
#ifndef GM_BASE_TIMING_H
#define GM_BASE_TIMING_H

#include "base/tick.h"

#define GM_PACE 17 /* a prime: in a loop, each call is timed in its turn */

/* A call that has begun. */
struct gm_timing {
	uint64_t start; /* gm_tick; 0: it is not timed */
	unsigned calls; /* calls that its time counts for */
};

/* A call that is timed in any case. */
static inline struct gm_timing gm_timing_since(uint64_t start)
{
	return (struct gm_timing){start, 1};
}

/* `since`: the moment at which the call turned out to be slow; 0: it is not slow. */
static inline struct gm_timing gm_timing_of(struct gm_timing call, uint64_t since)
{
	return since ? gm_timing_since(call.start ? call.start : since) : call;
}

/* The time that a timed call that ended at `end` adds to its counter. */
static inline uint64_t gm_timing_ns(struct gm_timing call, uint64_t end)
{
	return gm_tick_ns(call.start, end) * call.calls;
}

/* A thread's calls. All zeros: none yet. */
struct gm_pace {
	unsigned untimed; /* next calls, not to be timed */
	unsigned calls;	  /* calls that the next timed one counts for; 0: itself alone */
	uint64_t last;	  /* when the last timed one ended */
};

/* The thread's next call begins. */
static inline struct gm_timing gm_pace_call(struct gm_pace *pace)
{
	if (GM_LIKELY(pace->untimed)) {
		pace->untimed--;
		return (struct gm_timing){0};
	}
	return (struct gm_timing){gm_tick(), pace->calls ? pace->calls : 1};
}

/* A timed call ended at `end`, a moment of the processor's counter. Calls are frequent if the timed
 * one before ended less than `least` ticks earlier; `least` 0: time all calls. */
static inline void gm_pace_ended(struct gm_pace *pace, uint64_t end, uint64_t least)
{
	bool many = end - pace->last < least;
	pace->untimed = many ? GM_PACE - 1 : 0;
	pace->calls = many ? GM_PACE : 1;
	pace->last = end;
}

#endif
