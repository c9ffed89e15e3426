/* SPDX-License-Identifier: BSD-3-Clause */
#include "log/sample.h"

#include <stdatomic.h>
#include <string.h>

#include "log/count.h"
#include "log/frag.h"
#include "log/log.h"

#define SECOND 1000000000u
#define FIGURES 6

/* The six figures that are summed over time, and their peaks. */
static const struct {
	enum gm_counter seconds, peak; /* peak GM_COUNTER_COUNT: the pool counts this peak itself */
} figures[FIGURES] = {
	{GM_C_requested_seconds, GM_COUNTER_COUNT},
	{GM_C_mapped_seconds, GM_COUNTER_COUNT},
	{GM_C_internal_seconds, GM_C_internal_peak},
	{GM_C_unreclaimable_seconds, GM_C_unreclaimable_peak},
	{GM_C_external_seconds, GM_C_external_peak},
	{GM_C_external_remap_seconds, GM_C_external_remap_peak},
};

/* The previous sample of each device: its figures count until the next one. Under
 * GM_LOCK_RANK_LOG. */
static struct {
	uint64_t time; /* 0: none yet */
	uint64_t value[FIGURES];
	uint64_t rest[FIGURES]; /* remainder below one unit times second, in 1e-9 */
} before[GM_COUNTER_DEVICES];

static _Atomic uint64_t due[GM_COUNTER_DEVICES];
static _Atomic uint64_t pause_ns;
static atomic_bool started;

static void figures_read(const struct gm_sample *sample, uint64_t value[FIGURES])
{
	uint64_t held = sample->handed_out, asked = sample->requested;
	value[0] = asked;
	value[1] = sample->mapped;
	value[2] = held > asked ? held - asked : 0;
	value[3] = sample->unreclaimable;
	value[4] = gm_frag_external_ppm(sample->idle, sample->largest_idle);
	value[5] = gm_frag_external_ppm(sample->idle, sample->largest_after_remap);
}

void gm_sample_count(unsigned device, uint64_t time, const struct gm_sample *sample)
{
	unsigned row = device < GM_COUNTER_DEVICES ? device : GM_COUNTER_DEVICES - 1;
	uint64_t value[FIGURES];
	figures_read(sample, value);
	if (before[row].time && time < before[row].time)
		time = before[row].time;
	uint64_t passed = before[row].time ? time - before[row].time : 0;
	for (unsigned i = 0; i < FIGURES; i++) {
		unsigned __int128 sum =
			(unsigned __int128)before[row].value[i] * passed + before[row].rest[i];
		gm_counter_add(device, figures[i].seconds, (uint64_t)(sum / SECOND));
		before[row].rest[i] = (uint64_t)(sum % SECOND);
		if (figures[i].peak != GM_COUNTER_COUNT)
			gm_counter_raise(device, figures[i].peak, value[i]);
	}
	gm_counter_add(device, GM_C_samples, 1);
	gm_counter_add(device, GM_C_sampled_ns, passed);
	memcpy(before[row].value, value, sizeof value);
	before[row].time = time;
}

void gm_sample_start(uint64_t interval)
{
	atomic_store_explicit(&pause_ns, interval, memory_order_relaxed);
	atomic_store_explicit(&started, true, memory_order_release);
}

void gm_sample_stop(void)
{
	atomic_store_explicit(&started, false, memory_order_release);
	memset(before, 0, sizeof before);
	for (unsigned i = 0; i < GM_COUNTER_DEVICES; i++)
		atomic_store_explicit(&due[i], 0, memory_order_relaxed);
}

static unsigned device_row(unsigned device)
{
	return device < GM_COUNTER_DEVICES ? device : GM_COUNTER_DEVICES - 1;
}

uint64_t gm_log_sample_next(unsigned device)
{
	return atomic_load_explicit(&due[device_row(device)], memory_order_relaxed);
}

bool gm_log_sample_due(unsigned device, uint64_t now)
{
	if (!atomic_load_explicit(&started, memory_order_acquire))
		return false;
	unsigned row = device_row(device);
	uint64_t when = atomic_load_explicit(&due[row], memory_order_relaxed);
	uint64_t next = now + atomic_load_explicit(&pause_ns, memory_order_relaxed);
	next = next < now ? UINT64_MAX : next;
	/* One of several callers succeeds; with an interval of 0, each does. */
	return now >= when &&
	       (atomic_compare_exchange_strong_explicit(
			&due[row], &when, next, memory_order_relaxed, memory_order_relaxed) ||
		next == now);
}
