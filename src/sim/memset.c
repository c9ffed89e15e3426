/* SPDX-License-Identifier: BSD-3-Clause */
/* Every cuMemset*, and arrays. */
#include <stdlib.h>
#include <string.h>

#include "sim/copy.h"

struct fill {
	char *at;
	size_t pitch, width, height; /* bytes, bytes, rows */
	unsigned value, element;     /* bytes of an element */
};

static void fill_run(void *data)
{
	const struct fill *f = data;
	for (size_t y = 0; f->element == 1 && y < f->height; y++)
		memset(f->at + y * f->pitch, (int)f->value, f->width);
	for (size_t y = 0; f->element > 1 && y < f->height; y++)
		for (size_t x = 0; x < f->width; x += f->element)
			memcpy(f->at + y * f->pitch + x, &f->value, f->element);
}

CUresult sim_fill_work(CUdeviceptr address, size_t pitch, unsigned value, unsigned element,
		       size_t count, size_t height, struct sim_work **work, struct sim_reach *reach)
{
	size_t width;
	if (__builtin_mul_overflow(count, (size_t)element, &width) || address & (element - 1) ||
	    (height > 1 && pitch & (element - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	if (height <= 1)
		pitch = 0; /* unused */
	if (height > 1 && !pitch)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_end end = {SIM_END_DEVICE, (char *)address, pitch, 0, NULL};
	CUresult result = sim_check_end(&end, width, height, 1, reach);
	if (result != CUDA_SUCCESS)
		return result;
	*work = sim_work_make(fill_run, NULL, sizeof(struct fill));
	if (!*work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*(struct fill *)(*work)->data =
		(struct fill){(char *)address, pitch, width, height, value, element};
	return CUDA_SUCCESS;
}

/* The host waits only for fills of its own memory, synchronous or not. */
static CUresult fill_submit(CUdeviceptr address, size_t pitch, unsigned value, unsigned element,
			    size_t count, size_t height, CUstream stream, bool async)
{
	struct sim_stream *s;
	struct sim_reach reach;
	struct sim_work *work;
	CUresult result = sim_stream_of(stream, &s);
	if (result != CUDA_SUCCESS || !count || !height)
		return result;
	/* A capture does not check the address: the node would fault, so it is left out here. */
	if (s->capture && async && !sim_region_find(address) && sim_maybe_device(address))
		return s->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
	result = sim_fill_work(address, pitch, value, element, count, height, &work, &reach);
	if (result != CUDA_SUCCESS)
		return result;
	bool capturing = s->capture;
	result = sim_enqueue(s, work);
	return result == CUDA_SUCCESS && reach.host && !async && !capturing ? sim_wait_stream(s)
									    : result;
}

#define FILLS(bits, type)                                                                    \
	CUresult sim_cuMemsetD##bits##_v2(CUdeviceptr at, type value, size_t count)          \
	{                                                                                    \
		return fill_submit(at, 0, value, bits / 8, count, 1, NULL, false);           \
	}                                                                                    \
	CUresult sim_cuMemsetD##bits##Async(CUdeviceptr at, type value, size_t count,        \
					    CUstream stream)                                 \
	{                                                                                    \
		return fill_submit(at, 0, value, bits / 8, count, 1, stream, true);          \
	}                                                                                    \
	CUresult sim_cuMemsetD2D##bits##_v2(CUdeviceptr at, size_t pitch, type value,        \
					    size_t width, size_t height)                     \
	{                                                                                    \
		return fill_submit(at, pitch, value, bits / 8, width, height, NULL, false);  \
	}                                                                                    \
	CUresult sim_cuMemsetD2D##bits##Async(CUdeviceptr at, size_t pitch, type value,      \
					      size_t width, size_t height, CUstream stream)  \
	{                                                                                    \
		return fill_submit(at, pitch, value, bits / 8, width, height, stream, true); \
	}

FILLS(8, unsigned char)
FILLS(16, unsigned short)
FILLS(32, unsigned)

/* --- arrays: pitched memory of their own, outside the table of addresses --- */

CUresult sim_array_of(CUarray handle, struct sim_array **out)
{
	*out = (struct sim_array *)handle;
	return handle && sim_list_has(&sim.arrays, *out) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static void array_drop(struct sim_array *array)
{
	sim_uncharge(array->ctx->device, gm_round_up(array->bytes, SIM_PAGE));
	sim_list_remove(&array->node);
	free(array->at);
	free(array);
}

void sim_arrays_of_context_gone(struct sim_context *ctx)
{
	struct sim_node *next;
	for (struct sim_node *n = sim.arrays.first; n; n = next) {
		next = n->next;
		if (((struct sim_array *)n)->ctx == ctx)
			array_drop((struct sim_array *)n);
	}
}

static size_t element_size(CUarray_format format)
{
	switch (format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	default:
		return 0;
	}
}

CUresult sim_cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
	size_t row, plane, bytes;
	if (!out || !d || !d->Width)
		return CUDA_ERROR_INVALID_VALUE;
	size_t element = element_size(d->Format) * d->NumChannels;
	size_t height = d->Height ? d->Height : 1, depth = d->Depth ? d->Depth : 1;
	if (!element || d->NumChannels > 4 || __builtin_mul_overflow(d->Width, element, &row) ||
	    __builtin_mul_overflow(row, height, &plane) ||
	    __builtin_mul_overflow(plane, depth, &bytes) || bytes > SIZE_MAX / 2)
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_context *ctx = sim_current();
	CUresult result = sim_capture_unsafe();
	if (result == CUDA_SUCCESS)
		result = sim_charge(ctx->device, gm_round_up(bytes, SIM_PAGE));
	if (result != CUDA_SUCCESS)
		return result;
	struct sim_array *array = calloc(1, sizeof *array);
	char *at = calloc(1, bytes);
	if (!array || !at) {
		sim_uncharge(ctx->device, gm_round_up(bytes, SIM_PAGE));
		free(array);
		free(at);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*array = (struct sim_array){.ctx = ctx,
				    .pitch = row,
				    .height = height,
				    .depth = depth,
				    .bytes = bytes,
				    .element = element,
				    .at = at};
	sim_list_add(&sim.arrays, &array->node);
	*out = (CUarray)array;
	return CUDA_SUCCESS;
}

CUresult sim_cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *d)
{
	if (!d)
		return CUDA_ERROR_INVALID_VALUE;
	CUDA_ARRAY3D_DESCRIPTOR solid = {.Width = d->Width,
					 .Height = d->Height,
					 .Format = d->Format,
					 .NumChannels = d->NumChannels};
	return sim_cuArray3DCreate_v2(out, &solid);
}

CUresult sim_cuArrayDestroy(CUarray handle)
{
	struct sim_array *array;
	CUresult result = sim_array_of(handle, &array);
	if (result == CUDA_SUCCESS)
		result = sim_capture_unsafe();
	if (result == CUDA_SUCCESS)
		result = sim_wait_context(array->ctx);
	if (result == CUDA_SUCCESS)
		array_drop(array);
	return result;
}
