/* SPDX-License-Identifier: BSD-3-Clause */
/* Durations by the processor's counter, compared with the clock: a duration measured inside an
 * interval is not longer than the interval, in either combination. */
#include "base/tick.h"

#include "../tap.h"

#define SPAN 2000000u	    /* duration measured, in ns */
#define NEAR 5000u	    /* tolerance of a time, in ns */
#define PATIENCE 200000000u /* ns until the counter's pace is known, four readings and more */

static void spend(uint64_t ns)
{
	for (uint64_t end = gm_clock_ns() + ns; gm_clock_ns() < end;)
		;
}

/* With a tolerance of one hundredth, since the counter's pace is measured. */
static bool is_within(uint64_t inner, uint64_t outer)
{
	return inner <= outer + outer / 100;
}

static void compare(const char *what)
{
	uint64_t before = gm_clock_ns(), from = gm_tick(), first = gm_clock_ns();
	spend(SPAN);
	uint64_t last = gm_clock_ns(), to = gm_tick(), after = gm_clock_ns();
	uint64_t ns = gm_tick_ns(from, to);
	TAP_OK(is_within(ns, after - before),
	       "%s: a time is not longer than the interval around it", what);
	TAP_OK(is_within(last - first, ns), "%s: a time is not shorter than the interval inside it",
	       what);
	TAP_IS(gm_tick_ns(to, from), 0, "%s: no duration is negative", what);
}

/* An interval that begins by the clock and ends by the counter, and the other way round. */
static void mixed(void)
{
	uint64_t before = gm_clock_ns() & ~(uint64_t)1;
	spend(SPAN);
	uint64_t inner = gm_clock_ns(), to = gm_tick(), after = gm_clock_ns();
	uint64_t ns = gm_tick_ns(before, to);
	TAP_OK(is_within(inner - before, ns) && is_within(ns, after - before),
	       "the time from the clock to the counter is right");
	before = gm_clock_ns();
	uint64_t from = gm_tick();
	inner = gm_clock_ns();
	spend(SPAN);
	uint64_t end = gm_clock_ns() & ~(uint64_t)1;
	ns = gm_tick_ns(from, end);
	TAP_OK(is_within(end - inner, ns) && is_within(ns, end - before),
	       "the time from the counter to the clock is right");
}

/* The clock time of a moment lies between two readings around it. Tolerance: the accuracy of a
 * reading, and the error of the pace times the moment's age. */
static void told(const char *when, uint64_t before, uint64_t moment, uint64_t after)
{
	uint64_t clock = gm_tick_clock(moment), near = NEAR + (gm_clock_ns() - before) / 256;
	TAP_OK(clock + near >= before && clock <= after + near,
	       "%s: the time of a moment is the clock's", when);
}

static void times(void)
{
	uint64_t before = gm_clock_ns(), moment = gm_tick(), after = gm_clock_ns();
	told("at once", before, moment, after);
	spend(SPAN);
	told("later", before, moment, after);
	spend(30000000);
	told("after another reading", before, moment, after);
	before = gm_clock_ns();
	moment = gm_tick();
	after = gm_clock_ns();
	told("now", before, moment, after);
	TAP_IS(gm_tick_clock(4000), 4000, "a moment of the clock is its own time");
	TAP_OK(gm_tick_clock(UINT64_MAX) <= gm_clock_ns(), "no time is in the future");
	TAP_OK(gm_tick_clock(1) <= gm_clock_ns(),
	       "no time is in the future after the counter was set back");
}

int main(void)
{
	uint64_t moment = gm_tick(), end = gm_clock_ns() + PATIENCE;
	TAP_OK(gm_tick_is_clock(moment), "moments are the clock's at first");
	TAP_OK(moment <= gm_clock_ns() && gm_clock_ns() - moment < end,
	       "moments of the clock are its time");
	compare("the clock");
	gm_tick_calibrate();
	TAP_OK(gm_tick_is_clock(gm_tick()),
	       "moments stay the clock's unless the counter is asked for");
	gm_tick_start();
	gm_tick_calibrate();
	TAP_OK(gm_tick_is_clock(gm_tick()), "the pace of the counter is not known at once");
	while (!atomic_load(&gm_tick_scale) && gm_clock_ns() < end) {
		spend(1000000);
		gm_tick_calibrate();
	}
	if (!atomic_load(&gm_tick_scale)) {
		printf("# the clock of this machine is not made of the counter\n");
		return tap_done();
	}
	moment = gm_tick();
	TAP_OK(!gm_tick_is_clock(moment), "later moments are the counter's");
	uint64_t ns = gm_tick_ns(moment, moment + (gm_tick_of_ns(SPAN) & ~(uint64_t)1));
	TAP_OK(ns <= SPAN && ns + 4 >= SPAN, "nanoseconds are converted to ticks");
	compare("the counter");
	mixed();
	for (unsigned i = 0; i < 3; i++) {
		spend(11000000);
		gm_tick_calibrate();
	}
	compare("the counter, looked at again");
	times();
	return tap_done();
}
