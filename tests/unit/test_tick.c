/* SPDX-License-Identifier: BSD-3-Clause */
/* Durations by the processor's counter against the clock: what was measured inside of an interval
 * is not longer than the interval, and the other way round. */
#include "base/tick.h"

#include "../tap.h"

#define SPAN 2000000u	    /* ns measured */
#define PATIENCE 200000000u /* ns in which the counter's pace is known, four readings and more */

static void spend(uint64_t ns)
{
	for (uint64_t end = gm_clock_ns() + ns; gm_clock_ns() < end;)
		;
}

/* Up to a hundredth of it, for the counter's pace is measured. */
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
	TAP_OK(is_within(ns, after - before), "%s: not longer than what is around it", what);
	TAP_OK(is_within(last - first, ns), "%s: not shorter than what is in it", what);
	TAP_IS(gm_tick_ns(to, from), 0, "%s: never less than nothing", what);
}

/* A call that the clock saw begin, and the counter end. */
static void mixed(void)
{
	uint64_t before = gm_clock_ns() & ~(uint64_t)1;
	spend(SPAN);
	uint64_t inner = gm_clock_ns(), to = gm_tick(), after = gm_clock_ns();
	uint64_t ns = gm_tick_ns(before, to);
	TAP_OK(is_within(inner - before, ns) && is_within(ns, after - before),
	       "from a moment of the clock to one of the counter");
	before = gm_clock_ns();
	uint64_t from = gm_tick();
	inner = gm_clock_ns();
	spend(SPAN);
	uint64_t end = gm_clock_ns() & ~(uint64_t)1;
	ns = gm_tick_ns(from, end);
	TAP_OK(is_within(end - inner, ns) && is_within(ns, end - before),
	       "and the other way round");
}

int main(void)
{
	uint64_t moment = gm_tick(), end = gm_clock_ns() + PATIENCE;
	TAP_OK(gm_tick_is_clock(moment), "at first moments are the clock's");
	TAP_OK(moment <= gm_clock_ns() && gm_clock_ns() - moment < end, "which they say");
	compare("the clock");
	gm_tick_calibrate();
	TAP_OK(gm_tick_is_clock(gm_tick()), "so they stay unless the counter is asked for");
	gm_tick_start();
	gm_tick_calibrate();
	TAP_OK(gm_tick_is_clock(gm_tick()), "nor is its pace known at once");
	while (!atomic_load(&gm_tick_scale) && gm_clock_ns() < end) {
		spend(1000000);
		gm_tick_calibrate();
	}
	if (!atomic_load(&gm_tick_scale)) {
		printf("# the clock of this machine is not made of the counter\n");
		return tap_done();
	}
	moment = gm_tick();
	TAP_OK(!gm_tick_is_clock(moment), "then they are the counter's");
	uint64_t ns = gm_tick_ns(moment, moment + (gm_tick_of_ns(SPAN) & ~(uint64_t)1));
	TAP_OK(ns <= SPAN && ns + 4 >= SPAN, "and nanoseconds are told in ticks");
	compare("the counter");
	mixed();
	for (unsigned i = 0; i < 3; i++) {
		spend(11000000);
		gm_tick_calibrate();
	}
	compare("the counter, looked at again");
	return tap_done();
}
