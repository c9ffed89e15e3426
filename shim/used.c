/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much of a device is used, as the driver says, beside what we can account for at that moment:
 * the difference is what driver, contexts and other processes take (gpumem-log(5), OVERHEAD).
 */
#include "handlers.h"
#include "knob/knob.h"

static _Atomic uint64_t next_look;		      /* when any device may be due */
static _Atomic uint64_t next_ask[GM_COUNTER_DEVICES]; /* when each is */

void gm_used_note(unsigned ordinal, uint64_t used)
{
	uint64_t accounted = gm_counter_get(ordinal, GM_C_mapped) +
			     gm_counter_get(ordinal, GM_C_lent) +
			     gm_counter_get(ordinal, GM_C_foreign);
	gm_counter_set(ordinal, GM_C_device_used, used);
	gm_counter_set(ordinal, GM_C_device_accounted, accounted);
	gm_counter_set(ordinal, GM_C_device_asked_time, gm_clock_ns());
	gm_counter_add(ordinal, GM_C_device_asked, 1);
}

static void ask(const struct gm_context *context)
{
	size_t available, total;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(&gm_shim_driver);
	CUresult result = gm_shim_driver.cuMemGetInfo_v2(&available, &total);
	gm_driver_quiet_end(&gm_shim_driver, mode);
	if (result == CUDA_SUCCESS && available <= total)
		gm_used_note(context->ordinal, total - available);
}

/* Of several threads one gets it. */
static bool is_due(_Atomic uint64_t *when, uint64_t now, uint64_t pause)
{
	uint64_t at = atomic_load_explicit(when, memory_order_relaxed);
	return now >= at &&
	       atomic_compare_exchange_strong_explicit(when, &at, now + pause, memory_order_relaxed,
						       memory_order_relaxed);
}

/* It takes some 4 us. Only the device of the current context can be asked, so the threads of a
 * process that uses several get to look in turn. */
static __attribute__((noinline)) void look(uint64_t now)
{
	CUresult ignored;
	uint64_t pause = gm_knob_get()->sample.ns;
	if (!gm_shim_n_devices || !is_due(&next_look, now, pause / gm_shim_n_devices))
		return;
	const struct gm_context *context = gm_context_current(&gm_shim_driver, &ignored);
	if (context && context->ordinal < GM_COUNTER_DEVICES &&
	    is_due(&next_ask[context->ordinal], now, pause))
		ask(context);
}

void gm_used_look(uint64_t now)
{
	if (GM_UNLIKELY(now >= atomic_load_explicit(&next_look, memory_order_relaxed)))
		look(now);
}

void gm_used_forget(void)
{
	atomic_store(&next_look, 0);
	for (unsigned i = 0; i < GM_COUNTER_DEVICES; i++)
		atomic_store(&next_ask[i], 0);
}
