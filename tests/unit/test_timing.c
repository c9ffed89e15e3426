/* SPDX-License-Identifier: BSD-3-Clause */
/* The timed calls of a thread, and the number of calls that each one stands for. */
#include "base/timing.h"

#include "../tap.h"

#define LEAST 1000 /* least ticks between timed calls at a low rate */
#define CALLS (100 * GM_PACE)

/* The times of the calls are made up: no clock is read. */
struct thread {
	struct gm_pace pace;
	uint64_t least, now, calls, counted, timed;
};

static struct gm_timing call(struct thread *t, uint64_t later)
{
	struct gm_timing timing = gm_pace_call(&t->pace);
	t->now += later;
	t->calls++;
	t->counted += timing.calls;
	t->timed += timing.start != 0;
	if (timing.start)
		gm_pace_ended(&t->pace, t->now, t->least);
	return timing;
}

static void few(void)
{
	struct thread t = {.least = LEAST, .now = 10 * LEAST};
	for (unsigned i = 0; i < CALLS; i++)
		call(&t, LEAST);
	TAP_IS(t.timed, CALLS, "calls that are far apart are all timed");
	TAP_IS(t.counted, CALLS, "each of these calls counts for itself");
	t = (struct thread){.least = 0};
	for (unsigned i = 0; i < CALLS; i++)
		call(&t, 1);
	TAP_IS(t.timed, CALLS, "if none may be left out, all calls are timed");
}

static void many(void)
{
	struct thread t = {.least = LEAST, .now = 10 * LEAST};
	TAP_OK(call(&t, 1).start && call(&t, 1).start, "a thread's first two calls are timed");
	for (unsigned i = 0; i < CALLS; i++)
		call(&t, 1);
	TAP_IS(t.timed, 2 + CALLS / GM_PACE, "one of GM_PACE calls is timed");
	TAP_IS(t.counted, t.calls, "a timed call counts for GM_PACE calls");
	while (!call(&t, 1).start)
		;
	call(&t, LEAST); /* not timed, so its length is unknown */
	while (!call(&t, 1).start)
		;
	TAP_IS(call(&t, 1).calls, 1, "after a pause each call is timed again");
}

/* Each call of a loop is timed equally often. */
static void loops(void)
{
	for (unsigned length = 1; length < GM_PACE; length++) {
		uint64_t seen[GM_PACE] = {0}, least = UINT64_MAX;
		struct thread t = {.least = LEAST, .now = 10 * LEAST};
		for (unsigned i = 0; i < CALLS * length; i++)
			seen[i % length] += call(&t, 1).start != 0;
		for (unsigned i = 0; i < length; i++)
			least = seen[i] < least ? seen[i] : least;
		TAP_OK(least >= CALLS / GM_PACE, "each of a loop of %u calls has its turn", length);
	}
}

static void longer(void)
{
	struct gm_timing timed = {100, GM_PACE}, not = {0};
	struct gm_timing call = gm_timing_of(timed, 0);
	TAP_OK(call.start == 100 && call.calls == GM_PACE, "a timed call counts for all others");
	TAP_IS(gm_timing_of(not, 0).start, 0, "a call that is not timed has no start");
	call = gm_timing_of(timed, 150);
	TAP_OK(call.start == 100 && call.calls == 1,
	       "a timed call that takes longer counts for itself");
	call = gm_timing_of(not, 150);
	TAP_OK(call.start == 150 && call.calls == 1,
	       "a call that takes longer is timed from there on");
	TAP_IS(gm_timing_ns((struct gm_timing){2, GM_PACE}, 102), 100 * GM_PACE,
	       "the time of a call is multiplied by its count");
}

int main(void)
{
	few();
	many();
	loops();
	longer();
	return tap_done();
}
