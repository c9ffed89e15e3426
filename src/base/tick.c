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
static struct reading last; /* owned, with `measured`, by the thread that set `busy` */
static uint64_t measured;   /* the scale by the last two readings */

/* Moments become times of the clock by the reading at `version` % 2. The thread that set `busy`
 * writes the other one. */
static struct {
	_Atomic uint64_t clock, tick;
} lines[2];
static _Atomic uint64_t version;

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

static void line_write(const struct reading *now)
{
	uint64_t next = atomic_load_explicit(&version, memory_order_relaxed) + 1;
	atomic_store_explicit(&lines[next % 2].clock, now->clock, memory_order_release);
	atomic_store_explicit(&lines[next % 2].tick, now->tick, memory_order_release);
	atomic_store_explicit(&version, next, memory_order_release);
}

/* Read again if another line was written meanwhile; wait for no thread. */
static struct reading line_read(void)
{
	struct reading r;
	uint64_t before;
	do {
		before = atomic_load_explicit(&version, memory_order_acquire);
		r.clock = atomic_load_explicit(&lines[before % 2].clock, memory_order_acquire);
		r.tick = atomic_load_explicit(&lines[before % 2].tick, memory_order_acquire);
	} while (GM_UNLIKELY(atomic_load_explicit(&version, memory_order_relaxed) != before));
	return r;
}

/* A scale that differs from the one before is not published: between the two readings the machine
 * was suspended, or the virtual machine migrated. */
static void scale_update(const struct reading *now)
{
	uint64_t ticks = now->tick - last.tick, ns = now->clock - last.clock;
	uint64_t before = measured;
	if (last.clock && ns < LEAST_NS)
		return;
	if (last.clock)
		measured = ticks ? (uint64_t)(((unsigned __int128)ns << 32) / ticks) : 0;
	last = *now;
	line_write(now);
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
	/* In a forked child, a thread of the parent may have set `busy`. */
	atomic_store(&busy, false);
	atomic_store(&usable, true);
	gm_tick_calibrate();
}

/* The moment may lie before the reading. */
static uint64_t moment_to_clock(uint64_t moment, struct reading r, uint64_t scale)
{
	uint64_t ticks = moment > r.tick ? moment - r.tick : r.tick - moment;
	uint64_t ns = (uint64_t)((unsigned __int128)ticks * scale >> 32);
	if (moment > r.tick)
		return r.clock + ns;
	return ns < r.clock ? r.clock - ns : 0; /* else the counter was set back */
}

uint64_t gm_tick_clock(uint64_t moment)
{
	if (gm_tick_is_clock(moment))
		return moment;
	uint64_t scale = atomic_load_explicit(&gm_tick_scale, memory_order_acquire);
	struct reading r = line_read();
	uint64_t clock = moment_to_clock(moment, r, scale);
	if (GM_LIKELY(clock < r.clock + LEAST_NS))
		return clock;
	gm_tick_calibrate();
	clock = moment_to_clock(moment, line_read(), scale);
	uint64_t now = gm_clock_ns(); /* an upper bound, in case the counter was set ahead */
	return clock < now ? clock : now;
}

uint64_t gm_tick_mixed_ns(uint64_t from, uint64_t to)
{
	from = gm_tick_clock(from);
	to = gm_tick_clock(to);
	return to < from ? 0 : to - from;
}
