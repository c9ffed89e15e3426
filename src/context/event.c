/* SPDX-License-Identifier: BSD-3-Clause */
#include "context/event.h"

CUresult gm_event_take(const struct gm_driver *driver, struct gm_context *context, CUevent *event)
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

void gm_event_put(const struct gm_driver *driver, struct gm_context *context, CUevent event)
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
