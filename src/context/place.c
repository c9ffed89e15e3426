/* SPDX-License-Identifier: BSD-3-Clause */
#include "context/place.h"

#define DEVICES 64

static _Atomic(CUcontext) retained[DEVICES];

static bool stream_was_created(CUstream stream)
{
	return stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD;
}

/* Once a device: a second reference, taken in a race, is released. */
static CUresult primary_retain(const struct gm_driver *driver, unsigned ordinal, CUcontext *out)
{
	CUdevice device;
	CUcontext none = NULL;
	*out = atomic_load_explicit(&retained[ordinal], memory_order_relaxed);
	if (*out)
		return CUDA_SUCCESS;
	CUresult result = driver->cuDeviceGet(&device, (int)ordinal);
	if (result == CUDA_SUCCESS)
		result = driver->cuDevicePrimaryCtxRetain(out, device);
	if (result != CUDA_SUCCESS)
		return result;
	gm_context_remember_primary(device, *out);
	if (!atomic_compare_exchange_strong(&retained[ordinal], &none, *out))
		driver->cuDevicePrimaryCtxRelease_v2(device);
	return CUDA_SUCCESS;
}

static CUresult place_find(struct gm_place *p, int ordinal, CUstream stream)
{
	CUcontext handle;
	CUresult result = CUDA_SUCCESS;
	if (ordinal < 0 || ordinal >= DEVICES)
		return CUDA_ERROR_INVALID_DEVICE;
	if (stream_was_created(stream)) {
		result = p->driver->cuStreamGetCtx(stream, &handle);
		if (result != CUDA_SUCCESS)
			return result;
	} else {
		p->context = gm_context_current(p->driver, &result);
		if (p->context && p->context->ordinal == (unsigned)ordinal)
			return CUDA_SUCCESS;
		result = primary_retain(p->driver, (unsigned)ordinal, &handle);
		if (result != CUDA_SUCCESS)
			return result;
	}
	p->context = gm_context_of(p->driver, handle, &result);
	if (!p->context)
		return result;
	return p->context->ordinal == (unsigned)ordinal ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult gm_place_enter(struct gm_place *p, const struct gm_driver *driver, int ordinal,
			CUstream stream)
{
	CUcontext current = NULL;
	*p = (struct gm_place){.driver = driver, .mode = gm_driver_quiet_begin(driver)};
	CUresult result = place_find(p, ordinal, stream);
	if (result == CUDA_SUCCESS)
		result = driver->cuCtxGetCurrent(&current);
	if (result == CUDA_SUCCESS && current != p->context->handle) {
		result = driver->cuCtxPushCurrent_v2(p->context->handle);
		p->pushed = result == CUDA_SUCCESS;
	}
	if (result != CUDA_SUCCESS)
		gm_driver_quiet_end(driver, p->mode);
	return result;
}

void gm_place_leave(const struct gm_place *p)
{
	CUcontext popped;
	if (p->pushed)
		p->driver->cuCtxPopCurrent_v2(&popped);
	gm_driver_quiet_end(p->driver, p->mode);
}

void gm_place_forget(void)
{
	for (unsigned i = 0; i < DEVICES; i++)
		atomic_store_explicit(&retained[i], NULL, memory_order_relaxed);
}
