/* SPDX-License-Identifier: BSD-3-Clause */
#include "context/fence.h"

#include "base/debug.h"
#include "context/event.h"
#include "context/poll.h"

/* A sticky error was seen in some context. */
static atomic_bool suspect;

/* Errors that every later call in the context returns again. */
static bool error_is_sticky(CUresult error)
{
	static const CUresult sticky[] = {
		CUDA_ERROR_ECC_UNCORRECTABLE,
		CUDA_ERROR_NVLINK_UNCORRECTABLE,
		CUDA_ERROR_ILLEGAL_ADDRESS,
		CUDA_ERROR_LAUNCH_TIMEOUT,
		CUDA_ERROR_ASSERT,
		CUDA_ERROR_HARDWARE_STACK_ERROR,
		CUDA_ERROR_ILLEGAL_INSTRUCTION,
		CUDA_ERROR_MISALIGNED_ADDRESS,
		CUDA_ERROR_INVALID_ADDRESS_SPACE,
		CUDA_ERROR_INVALID_PC,
		CUDA_ERROR_LAUNCH_FAILED,
		CUDA_ERROR_EXTERNAL_DEVICE,
		CUDA_ERROR_MPS_CLIENT_TERMINATED,
	};
	for (size_t i = 0; i < sizeof sticky / sizeof *sticky; i++)
		if (error == sticky[i])
			return true;
	return false;
}

void gm_fence_suspect_error(CUresult error)
{
	if (error_is_sticky(error))
		atomic_store_explicit(&suspect, true, memory_order_relaxed);
}

static bool process_is_quiet(void)
{
	return !gm_poll_captures_are_open() &&
	       !atomic_load_explicit(&suspect, memory_order_relaxed);
}

/*
 * The driver's answer to a native call that open captures may forbid. The query has the effects of
 * that call: it invalidates a capture where cudaMalloc and cudaFree would.
 */
static CUresult probe_query(const struct gm_driver *driver, struct gm_context *context)
{
	if (GM_LIKELY(process_is_quiet()))
		return CUDA_SUCCESS;
	if (!context->probe)
		return CUDA_SUCCESS;
	CUresult result = driver->cuEventQuery(context->probe);
	return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

CUresult gm_fence_may_allocate(const struct gm_driver *driver, struct gm_context *context)
{
	return probe_query(driver, context);
}

static bool context_is_gone(const struct gm_context *context)
{
	return !context || atomic_load_explicit(&context->gone, memory_order_acquire);
}

/* Record an event in the context. CUDA_ERROR_NOT_READY: a capture is open there; a record would
 * invalidate it. */
static CUresult event_record(const struct gm_driver *driver, struct gm_context *context,
			     CUevent *event)
{
	CUresult result = gm_event_take(driver, context, event);
	if (result != CUDA_SUCCESS)
		return result;
	gm_rwlock_read(&context->capture);
	if (atomic_load_explicit(&context->captures, memory_order_relaxed))
		result = CUDA_ERROR_NOT_READY;
	else
		result = driver->cuCtxRecordEvent(context->handle, *event);
	gm_rwlock_release(&context->capture);
	if (result == CUDA_SUCCESS)
		return result;
	gm_event_put(driver, context, *event);
	*event = NULL;
	return result;
}

/* Before driver 12.5. Waits for the GPU under the shared capture lock: a capture that begins in
 * this context meanwhile waits too, as it would for the driver's own lock. */
static CUresult context_synchronize(const struct gm_driver *driver, struct gm_context *context)
{
	CUcontext popped;
	CUresult result = CUDA_ERROR_NOT_READY;
	gm_rwlock_read(&context->capture);
	if (!atomic_load_explicit(&context->captures, memory_order_relaxed))
		result = driver->cuCtxPushCurrent_v2(context->handle);
	if (result == CUDA_SUCCESS) {
		result = driver->cuCtxSynchronize();
		driver->cuCtxPopCurrent_v2(&popped);
	}
	gm_rwlock_release(&context->capture);
	return result;
}

static CUresult event_wait(const struct gm_driver *driver, CUevent event)
{
	CUstreamCaptureMode mode = gm_driver_quiet_begin(driver);
	CUresult result = driver->cuEventSynchronize(event);
	gm_driver_quiet_end(driver, mode);
	return result;
}

/* Poll, and wait for the event of the poll if work is pending. CUDA_ERROR_NOT_READY: no poll is
 * possible now. */
static CUresult context_poll_and_wait(const struct gm_driver *driver, struct gm_context *context)
{
	CUevent event = NULL;
	CUresult result = gm_poll_context(driver, context, &event);
	if (GM_UNLIKELY(event)) {
		result = event_wait(driver, event);
		gm_event_put(driver, context, event);
	}
	return result;
}

static CUresult context_wait(const struct gm_driver *driver, struct gm_context *context)
{
	CUevent event;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(driver);
	CUresult result;
	if (driver->cuCtxRecordEvent) {
		result = event_record(driver, context, &event);
		if (result == CUDA_SUCCESS) {
			result = driver->cuEventSynchronize(event);
			gm_event_put(driver, context, event);
		}
	} else {
		result = context_synchronize(driver, context);
	}
	gm_driver_quiet_end(driver, mode);
	return result;
}

CUresult gm_fence(void *arg, uint64_t key, bool native, enum gm_fenced *fenced)
{
	const struct gm_driver *driver = arg;
	struct gm_context *context = gm_context_find(key);
	*fenced = GM_FENCED_PASSED;
	if (context_is_gone(context)) /* its work has ended */
		return CUDA_SUCCESS;
	CUresult result = native ? probe_query(driver, context) : CUDA_SUCCESS;
	if (result != CUDA_SUCCESS)
		return result;
	if (native) {
		result = context_poll_and_wait(driver, context);
		if (result == CUDA_ERROR_NOT_READY)
			result = context_wait(driver, context);
	} else if (gm_context_enter(context)) {
		result = context_wait(driver, context);
		gm_context_leave(context);
	} else {
		result = CUDA_ERROR_NOT_READY;
	}
	if (result != CUDA_ERROR_NOT_READY)
		return result;
	*fenced = GM_FENCED_LATER;
	return CUDA_SUCCESS;
}

/* --- recorded fences, for deferred reuse --- */

static CUresult context_ask(void *arg, uint64_t key)
{
	struct gm_context *context = gm_context_find(key);
	return context_is_gone(context) ? CUDA_SUCCESS : probe_query(arg, context);
}

/* Enter the context of a fence. NULL: *result is the answer (SUCCESS if the context is gone). */
static struct gm_context *context_enter(uint64_t key, CUresult *result)
{
	struct gm_context *context = gm_context_find(key);
	*result = CUDA_ERROR_NOT_READY;
	if (!context_is_gone(context) && gm_context_enter(context))
		return context;
	if (context_is_gone(context))
		*result = CUDA_SUCCESS;
	return NULL;
}

static CUresult fence_record(void *arg, uint64_t key, CUevent *fence)
{
	CUresult result;
	struct gm_context *context = context_enter(key, &result);
	*fence = NULL;
	if (!context)
		return result;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(arg);
	result = event_record(arg, context, fence);
	gm_driver_quiet_end(arg, mode);
	gm_context_leave(context);
	gm_fence_suspect(result);
	return result;
}

static CUresult fence_query(const struct gm_driver *driver, uint64_t key, CUevent fence,
			    CUresult (*call)(CUevent event))
{
	CUresult result;
	struct gm_context *context = context_enter(key, &result);
	if (!context)
		return result;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(driver);
	result = call(fence);
	gm_driver_quiet_end(driver, mode);
	gm_context_leave(context);
	gm_fence_suspect(result);
	return result;
}

static CUresult fence_passed(void *arg, uint64_t key, CUevent fence)
{
	const struct gm_driver *driver = arg;
	return fence_query(driver, key, fence, driver->cuEventQuery);
}

static CUresult fence_wait(void *arg, uint64_t key, CUevent fence)
{
	const struct gm_driver *driver = arg;
	return fence_query(driver, key, fence, driver->cuEventSynchronize);
}

/* While a context ends, its events are not put back: they end with the context. */
static void fence_drop(void *arg, uint64_t key, CUevent fence)
{
	CUresult ignored;
	struct gm_context *context = context_enter(key, &ignored);
	if (!context)
		return;
	gm_event_put(arg, context, fence);
	gm_context_leave(context);
}

bool gm_fence_is_idle(void *arg, uint64_t key)
{
	struct gm_context *context = gm_context_find(key);
	if (context_is_gone(context))
		return false;
	CUresult result = gm_poll_context(arg, context, NULL);
	gm_fence_suspect(result);
	return result == CUDA_SUCCESS;
}

const struct gm_fence_ops *gm_fence_ops(const struct gm_driver *driver)
{
	static const struct gm_fence_ops with = {
		.ask = context_ask,
		.is_quiet = process_is_quiet,
		.is_idle = gm_fence_is_idle,
		.wait = gm_fence,
		.record = fence_record,
		.passed = fence_passed,
		.wait_for = fence_wait,
		.drop = fence_drop,
	};
	static const struct gm_fence_ops without = {.ask = context_ask,
						    .is_quiet = process_is_quiet,
						    .is_idle = gm_fence_is_idle,
						    .wait = gm_fence};
	return driver->cuCtxRecordEvent ? &with : &without;
}

void gm_fence_captures_counted(void)
{
	gm_poll_captures_counted(true);
}

void gm_fence_capture_missed(void)
{
	gm_poll_captures_counted(false);
}

void gm_fence_capture_begin(struct gm_context *context)
{
	gm_poll_capture_begin();
	gm_rwlock_write(&context->capture);
}

void gm_fence_capture_begun(struct gm_context *context, bool success)
{
	if (success)
		atomic_fetch_add_explicit(&context->captures, 1, memory_order_relaxed);
	else
		gm_poll_capture_end();
	gm_rwlock_release(&context->capture);
}

void gm_fence_capture_ended(struct gm_context *context)
{
	atomic_fetch_sub_explicit(&context->captures, 1, memory_order_relaxed);
	gm_poll_capture_end();
}

void gm_fence_forget_all(void)
{
	gm_poll_forget_all();
	atomic_store_explicit(&suspect, false, memory_order_relaxed);
}
