/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/log/samples.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/tick.h"
#include "log/log.h"
#include "shim/memory/device.h"

/* No pool needs a sample before this time: asking each pool would more than double the cost of a
 * call. The first sample of a pool that is made while another thread polls may be one pause late.
 */
static _Atomic uint64_t next_sample;

static void pool_sample(unsigned ordinal, const struct gm_pool *pool, uint64_t now)
{
	struct gm_sample sample;
	struct gm_record record = {
		.time = now,
		.device = (uint8_t)ordinal,
		.kind = GM_RECORD_SAMPLE,
	};
	gm_pool_sample(pool, &sample);
	gm_log_put_sample(&record, &sample);
}

static __attribute__((noinline)) void pools_sample(uint64_t now, bool last)
{
	uint64_t seen = atomic_load_explicit(&next_sample, memory_order_relaxed), next = UINT64_MAX;
	gm_tick_calibrate();
	for (unsigned i = 0; i < gm_shim_n_devices; i++) {
		struct gm_pool *pool = gm_shim_pool_if_any(i);
		if (!pool)
			continue;
		if (last || gm_log_sample_due(i, now))
			pool_sample(i, pool, now);
		uint64_t due = gm_log_sample_next(i);
		next = due < next ? due : next;
	}
	atomic_compare_exchange_strong_explicit(&next_sample, &seen, next, memory_order_relaxed,
						memory_order_relaxed);
}

void gm_samples_write(uint64_t now, bool last)
{
	if (GM_UNLIKELY(last || now >= atomic_load_explicit(&next_sample, memory_order_relaxed)))
		pools_sample(now, last);
}

void gm_samples_leave(uint64_t now)
{
	if (now)
		gm_samples_write(now, false);
}

void gm_samples_pool_made(unsigned ordinal)
{
	(void)ordinal;
	atomic_store_explicit(&next_sample, 0, memory_order_relaxed);
}

void gm_samples_report(void)
{
	gm_samples_write(gm_clock_ns(), true);
}

void gm_samples_forget(void)
{
	atomic_store_explicit(&next_sample, 0, memory_order_relaxed);
}
