/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/call.h"

#include "base/clock.h"
#include "base/tick.h"
#include "knob/knob.h"
#include "log/log.h"

#define SAMPLE_POLL_NS 1000000u /* between polls for due samples, over all threads */

GM_TLS unsigned gm_shim_inside;
GM_TLS struct gm_pace gm_shim_pace;
struct gm_driver gm_shim_driver;

GM_TLS uint64_t gm_call_ended;
GM_TLS bool gm_call_paced;

static GM_TLS uint64_t recorded; /* time of this thread's last record */

_Atomic uint64_t gm_call_sample_polled, gm_call_sample_pause, gm_call_timed_pause;

void gm_shim_happened(uint64_t now)
{
	gm_call_ended = now & ~(uint64_t)1;
}

void gm_shim_happened_at(uint64_t moment)
{
	gm_call_ended = moment;
	gm_call_paced = true;
}

void gm_shim_timed(uint64_t moment)
{
	gm_call_ended = moment;
	gm_call_paced = false;
}

uint64_t gm_call_sample_poll(uint64_t moment)
{
	uint64_t sample = gm_knob_get()->log.level.sample;
	uint64_t pause = sample < SAMPLE_POLL_NS ? 0 : gm_tick_of_ns(SAMPLE_POLL_NS);
	bool all = gm_log_wants(GM_RECORD_CONTEXT); /* a log of events */
	atomic_store_explicit(&gm_call_sample_pause, pause, memory_order_relaxed);
	atomic_store_explicit(&gm_call_timed_pause, all ? 0 : pause, memory_order_relaxed);
	atomic_store_explicit(&gm_call_sample_polled, moment, memory_order_relaxed);
	return gm_clock_ns();
}

void gm_shim_time_each(void)
{
	atomic_store_explicit(&gm_call_timed_pause, 0, memory_order_relaxed);
}

uint64_t gm_shim_time(uint64_t moment)
{
	uint64_t clock = moment ? gm_tick_clock(moment) : gm_clock_ns();
	recorded = clock > recorded ? clock : recorded;
	return recorded;
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

struct gm_context *gm_shim_context_of_stream(CUstream stream)
{
	CUcontext handle = NULL;
	CUresult result;
	if (gm_shim_driver.cuStreamGetCtx(stream, &handle) == CUDA_SUCCESS)
		return gm_context_of(&gm_shim_driver, handle, &result);
	return gm_context_current(&gm_shim_driver, &result);
}

void gm_call_forget(void)
{
	gm_shim_inside = 0;
	gm_call_ended = 0;
	recorded = 0;
}
