/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/memory/overhead.h"

#include "knob/knob.h"
#include "log/count.h"
#include "shim/call.h"
#include "shim/memory/device.h"

static _Atomic uint64_t next_poll;		      /* time at which any device may be due */
static _Atomic uint64_t next_ask[GM_COUNTER_DEVICES]; /* time at which each is due */

uint64_t gm_overhead_accounted(unsigned ordinal)
{
	const uint64_t sum = gm_counter_get(ordinal, GM_C_mapped) +
			     gm_counter_get(ordinal, GM_C_lent) +
			     gm_counter_get(ordinal, GM_C_foreign);
	const uint64_t vacant = gm_counter_get(ordinal, GM_C_lend_vacant);
	return sum > vacant ? sum - vacant : 0;
}

void gm_overhead_record(unsigned ordinal, uint64_t used)
{
	const uint64_t accounted = gm_overhead_accounted(ordinal);
	gm_counter_set(ordinal, GM_C_device_used, used);
	gm_counter_set(ordinal, GM_C_device_accounted, accounted);
	gm_counter_set(ordinal, GM_C_device_asked_time, gm_clock_ns());
	gm_counter_add(ordinal, GM_C_device_asked, 1);
}

/* Of the current context's device. */
static bool used_read(uint64_t *free, uint64_t *used)
{
	size_t available, total;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(&gm_shim_driver);
	CUresult result = gm_shim_driver.cuMemGetInfo_v2(&available, &total);
	gm_driver_quiet_end(&gm_shim_driver, mode);
	*free = available;
	*used = total - available;
	return result == CUDA_SUCCESS && available <= total;
}

static bool used_read_in(struct gm_context *context, uint64_t *out)
{
	CUcontext popped;
	uint64_t used;
	bool known = false;
	if (!gm_context_enter(context))
		return false;
	if (gm_shim_driver.cuCtxPushCurrent_v2(context->handle) == CUDA_SUCCESS) {
		known = used_read(out, &used);
		gm_shim_driver.cuCtxPopCurrent_v2(&popped);
	}
	gm_context_leave(context);
	return known;
}

bool gm_overhead_read(unsigned ordinal, const struct gm_context *current, uint64_t *out)
{
	uint64_t used;
	if (current && current->ordinal == ordinal)
		return used_read(out, &used);
	for (struct gm_context *c = gm_context_newest(); c; c = c->next)
		if (c->ordinal == ordinal && used_read_in(c, out))
			return true;
	return false;
}

/* Of several threads one gets true. */
static bool used_is_due(_Atomic uint64_t *when, uint64_t now, uint64_t pause)
{
	uint64_t at = atomic_load_explicit(when, memory_order_relaxed);
	return now >= at &&
	       atomic_compare_exchange_strong_explicit(when, &at, now + pause, memory_order_relaxed,
						       memory_order_relaxed);
}

/* A query takes some 4 us. Only the current context's device can be queried, so in a process with
 * several devices the threads query in turn. */
static __attribute__((noinline)) void used_poll(uint64_t now)
{
	CUresult ignored;
	uint64_t pause = gm_knob_get()->log.level.sample, available, used;
	if (!gm_shim_n_devices || !used_is_due(&next_poll, now, pause / gm_shim_n_devices))
		return;
	const struct gm_context *context = gm_context_current(&gm_shim_driver, &ignored);
	if (context && context->ordinal < GM_COUNTER_DEVICES &&
	    used_is_due(&next_ask[context->ordinal], now, pause) && used_read(&available, &used))
		gm_overhead_record(context->ordinal, used);
}

void gm_overhead_sample(uint64_t now)
{
	if (GM_UNLIKELY(now >= atomic_load_explicit(&next_poll, memory_order_relaxed)))
		used_poll(now);
}

void gm_overhead_leave(uint64_t now)
{
	if (now)
		gm_overhead_sample(now);
}

void gm_overhead_forget(void)
{
	atomic_store(&next_poll, 0);
	for (unsigned i = 0; i < GM_COUNTER_DEVICES; i++)
		atomic_store(&next_ask[i], 0);
}
