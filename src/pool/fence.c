/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/fence.h"

#include "base/debug.h"

/* Captures open in any context: one relaxed load while there are none. */
static atomic_uint captures_open;

/* An error that stays was seen in some context. */
static atomic_bool suspect;

/* Errors after which the driver answers the same to every call in the context. */
static bool is_sticky(CUresult error)
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
	if (is_sticky(error))
		atomic_store_explicit(&suspect, true, memory_order_relaxed);
}

/*
 * What the driver answers to a call that open captures may forbid. Asking has the very effect of
 * the native call: where cudaMalloc and cudaFree would invalidate a capture, so does this.
 */
static CUresult ask_native(const struct gm_driver *driver, struct gm_context *context)
{
	if (GM_LIKELY(atomic_load_explicit(&captures_open, memory_order_relaxed) == 0 &&
		      !atomic_load_explicit(&suspect, memory_order_relaxed)))
		return CUDA_SUCCESS;
	if (!context->probe)
		return CUDA_SUCCESS;
	CUresult result = driver->cuEventQuery(context->probe);
	return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

CUresult gm_fence_may_allocate(const struct gm_driver *driver, struct gm_context *context)
{
	return ask_native(driver, context);
}

/* A spare event of the context, or a new one. */
static CUresult take_event(const struct gm_driver *driver, struct gm_context *context,
			   CUevent *event)
{
	CUcontext popped;
	for (unsigned i = 0; i < GM_CONTEXT_EVENTS; i++) {
		if (!atomic_load_explicit(&context->events[i], memory_order_relaxed))
			continue;
		*event = atomic_exchange_explicit(&context->events[i], NULL, memory_order_acquire);
		if (*event)
			return CUDA_SUCCESS;
	}
	CUresult result = driver->cuCtxPushCurrent_v2(context->handle);
	if (result != CUDA_SUCCESS)
		return result;
	result = driver->cuEventCreate(event, CU_EVENT_DISABLE_TIMING);
	driver->cuCtxPopCurrent_v2(&popped);
	return result;
}

static void put_event(const struct gm_driver *driver, struct gm_context *context, CUevent event)
{
	for (unsigned i = 0; i < GM_CONTEXT_EVENTS; i++) {
		CUevent empty = NULL;
		if (atomic_compare_exchange_strong_explicit(&context->events[i], &empty, event,
							    memory_order_release,
							    memory_order_relaxed))
			return;
	}
	driver->cuEventDestroy_v2(event);
}

/* Run `record` unless a capture is open in the context, which it would invalidate. */
static CUresult unless_capturing(struct gm_context *context, enum gm_fenced *fenced,
				 CUresult (*record)(void *arg), void *arg)
{
	CUresult result = CUDA_SUCCESS;
	gm_rwlock_read(&context->capture);
	if (atomic_load_explicit(&context->captures, memory_order_relaxed))
		*fenced = GM_FENCED_LATER;
	else
		result = record(arg);
	gm_rwlock_release(&context->capture);
	return result;
}

struct recording {
	const struct gm_driver *driver;
	struct gm_context *context;
	CUevent event;
};

static CUresult record_event(void *arg)
{
	struct recording *r = arg;
	return r->driver->cuCtxRecordEvent(r->context->handle, r->event);
}

/* Before driver 12.5. It waits for the GPU under the shared capture lock: a capture that begins in
 * this context meanwhile waits too, as the driver's own lock would have it. */
static CUresult synchronize(void *arg)
{
	struct recording *r = arg;
	CUcontext popped;
	CUresult result = r->driver->cuCtxPushCurrent_v2(r->context->handle);
	if (result != CUDA_SUCCESS)
		return result;
	result = r->driver->cuCtxSynchronize();
	r->driver->cuCtxPopCurrent_v2(&popped);
	return result;
}

static CUresult wait_for(struct recording *r, enum gm_fenced *fenced)
{
	if (!r->driver->cuCtxRecordEvent)
		return unless_capturing(r->context, fenced, synchronize, r);
	CUresult result = take_event(r->driver, r->context, &r->event);
	if (result != CUDA_SUCCESS)
		return result;
	result = unless_capturing(r->context, fenced, record_event, r);
	if (result == CUDA_SUCCESS && *fenced == GM_FENCED_PASSED)
		result = r->driver->cuEventSynchronize(r->event);
	put_event(r->driver, r->context, r->event);
	return result;
}

CUresult gm_fence(void *arg, uint64_t key, bool native, enum gm_fenced *fenced)
{
	const struct gm_driver *driver = arg;
	struct gm_context *context = gm_context_find(key);
	*fenced = GM_FENCED_PASSED;
	/* What is left of a context that is gone has nothing running. */
	if (!context || atomic_load_explicit(&context->gone, memory_order_acquire))
		return CUDA_SUCCESS;
	if (native) {
		CUresult answer = ask_native(driver, context);
		if (answer != CUDA_SUCCESS)
			return answer;
	}
	struct recording r = {.driver = driver, .context = context};
	CUstreamCaptureMode mode = gm_driver_quiet_begin(driver);
	CUresult result = wait_for(&r, fenced);
	gm_driver_quiet_end(driver, mode);
	return result;
}

void gm_fence_capture_begin(struct gm_context *context)
{
	gm_rwlock_write(&context->capture);
}

void gm_fence_capture_begun(struct gm_context *context, bool success)
{
	if (success) {
		atomic_fetch_add_explicit(&context->captures, 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&captures_open, 1, memory_order_relaxed);
	}
	gm_rwlock_release(&context->capture);
}

void gm_fence_capture_ended(struct gm_context *context)
{
	atomic_fetch_sub_explicit(&context->captures, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&captures_open, 1, memory_order_relaxed);
}

void gm_fence_forget_all(void)
{
	atomic_store_explicit(&captures_open, 0, memory_order_relaxed);
	atomic_store_explicit(&suspect, false, memory_order_relaxed);
}
