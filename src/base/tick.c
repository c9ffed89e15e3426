/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/tick.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"

#define CLOCK_SOURCE "/sys/devices/system/clocksource/clocksource0/current_clocksource"
#define LEAST_NS 10000000u /* between two readings, each exact to some 100 ns */
#define CLOSE 4096u	   /* most ticks for a reading of clock and counter together */
#define TRIES 5

_Atomic uint64_t gm_tick_scale;

struct reading {
	uint64_t clock, tick;
};

static atomic_bool usable, busy;
static struct reading last;  /* owned, with `measured`, by the thread that set `busy` */
static uint64_t measured;    /* the scale by the last two readings */
static struct reading first; /* written once, before the scale is published */

#ifdef __x86_64__

/* False: the thread was preempted between the readings. */
static bool reading_take(struct reading *r)
{
	for (unsigned i = 0; i < TRIES; i++) {
		uint64_t before = __builtin_ia32_rdtsc();
		r->clock = gm_clock_ns();
		uint64_t took = __builtin_ia32_rdtsc() - before;
		r->tick = before + took / 2;
		if (took < CLOSE)
			return true;
	}
	return false;
}

static bool clock_is_counter(void)
{
	char source[8] = "";
	int fd = gm_sys_open(CLOCK_SOURCE, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return false;
	ssize_t n = gm_sys_read(fd, source, sizeof source);
	gm_sys_close(fd);
	return n == 4 && memcmp(source, "tsc\n", 4) == 0;
}

#else

static bool reading_take(struct reading *r)
{
	(void)r;
	return false;
}

static bool clock_is_counter(void)
{
	return false;
}

#endif

static bool scale_is_near(uint64_t a, uint64_t b)
{
	return (a > b ? a - b : b - a) < b / 256;
}

/* A scale that differs from the one before is not published: between the two readings the machine
 * was suspended, or the virtual machine migrated. */
static void scale_update(const struct reading *now)
{
	uint64_t ticks = now->tick - last.tick, ns = now->clock - last.clock;
	uint64_t before = measured;
	if (!last.clock)
		first = *now;
	else if (ns < LEAST_NS)
		return;
	else
		measured = ticks ? (uint64_t)(((unsigned __int128)ns << 32) / ticks) : 0;
	last = *now;
	if (measured && (!before || scale_is_near(before, measured)))
		atomic_store_explicit(&gm_tick_scale, measured, memory_order_release);
}

void gm_tick_calibrate(void)
{
	struct reading now;
	if (!atomic_load_explicit(&usable, memory_order_relaxed) || atomic_exchange(&busy, true))
		return;
	if (reading_take(&now))
		scale_update(&now);
	atomic_store(&busy, false);
}

void gm_tick_start(void)
{
	if (!clock_is_counter())
		return;
	/* In a forked child, a thread of the parent may have set it. */
	atomic_store(&busy, false);
	atomic_store(&usable, true);
	gm_tick_calibrate();
}

static uint64_t moment_to_clock(uint64_t moment, uint64_t scale)
{
	if (gm_tick_is_clock(moment))
		return moment;
	return first.clock + (uint64_t)((unsigned __int128)(moment - first.tick) * scale >> 32);
}

uint64_t gm_tick_mixed_ns(uint64_t from, uint64_t to)
{
	uint64_t scale = atomic_load_explicit(&gm_tick_scale, memory_order_acquire);
	from = moment_to_clock(from, scale);
	to = moment_to_clock(to, scale);
	return to < from ? 0 : to - from;
}
