/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Green contexts: contexts with streams of their own. Their memory belongs to the primary context,
 * and outlives them (as measured on driver 580). The division of multiprocessors is not simulated.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/internal.h"

#if CUDA_VERSION >= 12040

struct green {
	struct sim_node node;
	struct sim_context *derived;
};
static struct sim_list greens;
static char the_description;

CUresult sim_cuDeviceGetDevResource(CUdevice device, CUdevResource *out, CUdevResourceType type)
{
	if (!out || type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	memset(out, 0, sizeof *out);
	out->type = type;
	out->sm.smCount = 132;
	return CUDA_SUCCESS;
}

/* In groups of 8, the least of an H100. */
CUresult sim_cuDevSmResourceSplitByCount(CUdevResource *out, unsigned *count,
					 const CUdevResource *input, CUdevResource *rest,
					 unsigned flags, unsigned least)
{
	if (!count || !input || input->type != CU_DEV_RESOURCE_TYPE_SM || flags > 3 ||
	    least > input->sm.smCount)
		return CUDA_ERROR_INVALID_VALUE;
	unsigned each = least ? (least + 7) / 8 * 8 : 8, most = input->sm.smCount / each;
	unsigned made = out && *count < most ? *count : most;
	for (unsigned i = 0; out && i < made; i++) {
		out[i] = *input;
		out[i].sm.smCount = each;
	}
	if (rest) {
		*rest = *input;
		rest->sm.smCount -= made * each;
	}
	*count = made;
	return CUDA_SUCCESS;
}

CUresult sim_cuDevResourceGenerateDesc(CUdevResourceDesc *out, CUdevResource *resources,
				       unsigned count)
{
	if (!out || !resources || !count)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUdevResourceDesc)&the_description;
	return CUDA_SUCCESS;
}

CUresult sim_cuGreenCtxCreate(CUgreenCtx *out, CUdevResourceDesc desc, CUdevice device,
			      unsigned flags)
{
	CUcontext primary;
	if (!out || desc != (CUdevResourceDesc)&the_description ||
	    flags != CU_GREEN_CTX_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = sim_cuDevicePrimaryCtxRetain(&primary, device);
	if (result != CUDA_SUCCESS)
		return result;
	struct green *green = calloc(1, sizeof *green);
	if (green)
		green->derived = sim_context_derive((struct sim_context *)primary);
	if (!green || !green->derived) {
		free(green);
		sim_cuDevicePrimaryCtxRelease(device);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	sim_list_add(&greens, &green->node);
	*out = (CUgreenCtx)green;
	return CUDA_SUCCESS;
}

static CUresult green_find(CUgreenCtx handle, struct green **out)
{
	*out = (struct green *)handle;
	return handle && sim_list_has(&greens, *out) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuCtxFromGreenCtx(CUcontext *out, CUgreenCtx handle)
{
	struct green *green;
	CUresult result = green_find(handle, &green);
	if (result == CUDA_SUCCESS && !out)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*out = sim_context_handle(green->derived);
	return result;
}

CUresult sim_cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource *out, CUdevResourceType type)
{
	struct green *green;
	CUresult result = green_find(handle, &green);
	return result == CUDA_SUCCESS
		       ? sim_cuDeviceGetDevResource((CUdevice)green->derived->device, out, type)
		       : result;
}

/* The event may be of any context of the same device. */
CUresult sim_cuGreenCtxRecordEvent(CUgreenCtx handle, CUevent event)
{
	struct green *green;
	CUresult result = green_find(handle, &green);
	return result == CUDA_SUCCESS ? sim_event_record_context(green->derived, event) : result;
}

CUresult sim_cuGreenCtxWaitEvent(CUgreenCtx handle, CUevent event)
{
	struct green *green;
	CUresult result = green_find(handle, &green);
	return result == CUDA_SUCCESS
		       ? sim_cuCtxWaitEvent(sim_context_handle(green->derived), event)
		       : result;
}

CUresult sim_cuStreamGetGreenCtx(CUstream handle, CUgreenCtx *out)
{
	struct sim_stream *s;
	CUresult result = sim_stream_of(handle, &s);
	if (result == CUDA_SUCCESS && !out)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	*out = NULL;
	for (struct sim_node *n = greens.first; n; n = n->next)
		if (((struct green *)n)->derived == s->ctx)
			*out = (CUgreenCtx)n;
	return CUDA_SUCCESS;
}

CUresult sim_cuGreenCtxStreamCreate(CUstream *out, CUgreenCtx handle, unsigned flags, int priority)
{
	struct green *green;
	CUresult result = green_find(handle, &green);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out || flags != CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_stream *s = sim_stream_make(green->derived, flags, priority);
	*out = (CUstream)s;
	return s ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuGreenCtxDestroy(CUgreenCtx handle)
{
	struct green *green;
	CUresult result = green_find(handle, &green);
	if (result != CUDA_SUCCESS)
		return result;
	CUdevice device = (CUdevice)green->derived->device;
	sim_context_die(green->derived);
	sim_list_remove(&green->node);
	free(green);
	return sim_cuDevicePrimaryCtxRelease(device);
}

#else

/* This toolkit does not declare green contexts. */
CUresult sim_cuDeviceGetDevResource(CUdevice device, CUdevResource *out, CUdevResourceType type)
{
	(void)device, (void)out, (void)type;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuDevResourceGenerateDesc(CUdevResourceDesc *out, CUdevResource *resources,
				       unsigned count)
{
	(void)out, (void)resources, (void)count;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuGreenCtxCreate(CUgreenCtx *out, CUdevResourceDesc desc, CUdevice device,
			      unsigned flags)
{
	(void)out, (void)desc, (void)device, (void)flags;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuCtxFromGreenCtx(CUcontext *out, CUgreenCtx handle)
{
	(void)out, (void)handle;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuGreenCtxStreamCreate(CUstream *out, CUgreenCtx handle, unsigned flags, int priority)
{
	(void)out, (void)handle, (void)flags, (void)priority;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuGreenCtxDestroy(CUgreenCtx handle)
{
	(void)handle;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuDevSmResourceSplitByCount(CUdevResource *out, unsigned *count,
					 const CUdevResource *input, CUdevResource *rest,
					 unsigned flags, unsigned least)
{
	(void)out, (void)count, (void)input, (void)rest, (void)flags, (void)least;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuGreenCtxGetDevResource(CUgreenCtx handle, CUdevResource *out, CUdevResourceType type)
{
	(void)handle, (void)out, (void)type;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuGreenCtxRecordEvent(CUgreenCtx handle, CUevent event)
{
	(void)handle, (void)event;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuGreenCtxWaitEvent(CUgreenCtx handle, CUevent event)
{
	(void)handle, (void)event;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuStreamGetGreenCtx(CUstream handle, CUgreenCtx *out)
{
	(void)handle, (void)out;
	return CUDA_ERROR_NOT_SUPPORTED;
}

#endif
