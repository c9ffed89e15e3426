/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/call.h"

#include "base/clock.h"
#include "base/tick.h"
#include "knob/knob.h"
#include "log/log.h"
#include "shim/modules.h"

#define SAMPLE_POLL_NS 1000000u /* from one poll for due samples to the next, of all threads */

GM_TLS unsigned gm_shim_inside;
GM_TLS struct gm_pace gm_shim_pace;
struct gm_driver gm_shim_driver;

/* gm_tick when this thread's last timed call ended; 0: none since its last gm_shim_leave. */
static GM_TLS uint64_t call_ended;

/* Where moments are the counter's: the last poll for due samples, and how long until the next. */
static _Atomic uint64_t sample_polled, sample_pause;

void gm_shim_happened(uint64_t now)
{
	call_ended = now & ~(uint64_t)1;
}

void gm_shim_happened_at(uint64_t moment)
{
	call_ended = moment;
}

/* Returns the time, of the clock. */
static __attribute__((noinline)) uint64_t sample_poll(uint64_t moment)
{
	uint64_t sample = gm_knob_get()->sample.ns;
	uint64_t pause = sample < SAMPLE_POLL_NS ? 0 : gm_tick_of_ns(SAMPLE_POLL_NS);
	atomic_store_explicit(&sample_pause, pause, memory_order_relaxed);
	atomic_store_explicit(&sample_polled, moment, memory_order_relaxed);
	return gm_clock_ns();
}

struct gm_record gm_shim_record(enum gm_record_kind kind, enum gm_hook_id hook,
				const struct gm_context *context, uint64_t start, uint64_t end,
				CUresult result)
{
	uint64_t duration = end - start;
	gm_shim_happened(end);
	return (struct gm_record){
		.time = kind == GM_RECORD_FREE ? start : end,
		.context = context ? (uint32_t)context->key : 0,
		.duration = duration < UINT32_MAX ? (uint32_t)duration : UINT32_MAX,
		.hook = (uint16_t)hook,
		.status = (uint16_t)result,
		.device = context ? (uint8_t)context->ordinal : 255,
		.kind = (uint8_t)kind,
	};
}

CUresult gm_shim_context_state(void)
{
	CUresult result;
	struct gm_context *context = gm_context_current(&gm_shim_driver, &result);
	if (!context)
		return result;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(&gm_shim_driver);
	result = gm_fence_may_allocate(&gm_shim_driver, context);
	gm_driver_quiet_end(&gm_shim_driver, mode);
	return result;
}

void gm_shim_leave(void)
{
	uint64_t now = 0; /* of the clock; 0: no sample can be due */
	if (!gm_tick_is_clock(call_ended)) {
		/* Should the counter ever be set back, this is a long time. */
		uint64_t passed =
			call_ended - atomic_load_explicit(&sample_polled, memory_order_relaxed);
		uint64_t pause = atomic_load_explicit(&sample_pause, memory_order_relaxed);
		gm_pace_ended(&gm_shim_pace, call_ended, pause);
		if (passed >= pause)
			now = sample_poll(call_ended);
	} else {
		now = call_ended;
	}
	call_ended = 0;
	if (GM_UNLIKELY(now || gm_modules_due()))
		gm_modules_leave(now);
	gm_log_poll();
	gm_shim_inside = 0;
}

void gm_call_forget(void)
{
	gm_shim_inside = 0;
	call_ended = 0;
}
