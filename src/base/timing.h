/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The time that calls take which are made again and again. Reading the clock before and after each
 * would be a tenth of what they take: while a thread makes many, one in GM_PACE of them is timed,
 * and its time counts for as many. A call that turns out to take longer is timed from there on, and
 * counts for itself.
 */
#ifndef GM_BASE_TIMING_H
#define GM_BASE_TIMING_H

#include "base/tick.h"

#define GM_PACE 17 /* a prime, so that each call of a loop gets its turn */

/* A call that has begun. */
struct gm_timing {
	uint64_t start; /* gm_tick; 0: it is not timed */
	unsigned calls; /* that its time counts for */
};

/* One that is timed whatever it is. */
static inline struct gm_timing gm_timing_since(uint64_t start)
{
	return (struct gm_timing){start, 1};
}

/* `since`: when it was found that the call takes longer; 0: it does not. */
static inline struct gm_timing gm_timing_of(struct gm_timing call, uint64_t since)
{
	return since ? gm_timing_since(call.start ? call.start : since) : call;
}

/* What a timed call that ended at `end` adds to the time of its kind. */
static inline uint64_t gm_timing_ns(struct gm_timing call, uint64_t end)
{
	return gm_tick_ns(call.start, end) * call.calls;
}

/* A thread's calls. All zeros: none yet. */
struct gm_pace {
	unsigned untimed; /* calls to come that are not timed */
	unsigned calls;	  /* that the one after them counts for; 0: itself alone */
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

/* A timed call ended, by the processor's counter: if that is less than `least` ticks after the one
 * before, there are many. 0: all are timed. */
static inline void gm_pace_ended(struct gm_pace *pace, uint64_t end, uint64_t least)
{
	bool many = end - pace->last < least;
	pace->untimed = many ? GM_PACE - 1 : 0;
	pace->calls = many ? GM_PACE : 1;
	pace->last = end;
}

#endif
