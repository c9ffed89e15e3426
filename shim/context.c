/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts come and go. What a context owned goes back to the pools after the driver's call has
 * succeeded: the context's work is over then, and no sooner.
 */
#include "handlers.h"

static CUresult destroyed(CUcontext handle, CUresult result)
{
	uint64_t key = result == CUDA_SUCCESS ? gm_context_gone(handle) : 0;
	if (key)
		gm_shim_context_gone(key);
	return result;
}

static CUresult reset(CUdevice device, CUresult result)
{
	uint64_t key = result == CUDA_SUCCESS ? gm_context_primary_gone(device) : 0;
	if (key)
		gm_shim_context_gone(key);
	return result;
}

/* Only the last release of a primary context ends it. */
static CUresult released(CUdevice device, CUresult result)
{
	unsigned flags;
	int active = 1;
	if (result != CUDA_SUCCESS)
		return result;
	gm_shim_driver.cuDevicePrimaryCtxGetState(device, &flags, &active);
	return active ? result : reset(device, result);
}

/* One argument in, one kind of end. */
#define ENDS(symbol, type, what)                               \
	CUresult on_##symbol(type which)                       \
	{                                                      \
		if (!gm_shim_enter())                          \
			return real.symbol(which);             \
		CUresult result = GM_PASS(real.symbol(which)); \
		result = what(which, result);                  \
		gm_shim_leave();                               \
		return result;                                 \
	}

ENDS(cuCtxDestroy, CUcontext, destroyed)
ENDS(cuCtxDestroy_v2, CUcontext, destroyed)
ENDS(cuDevicePrimaryCtxReset, CUdevice, reset)
ENDS(cuDevicePrimaryCtxReset_v2, CUdevice, reset)
ENDS(cuDevicePrimaryCtxRelease, CUdevice, released)
ENDS(cuDevicePrimaryCtxRelease_v2, CUdevice, released)

CUresult on_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	if (!gm_shim_enter())
		return real.cuDevicePrimaryCtxRetain(pctx, dev);
	CUresult result = GM_PASS(real.cuDevicePrimaryCtxRetain(pctx, dev));
	if (gm_retry(result))
		result = GM_PASS(real.cuDevicePrimaryCtxRetain(pctx, dev));
	if (result == CUDA_SUCCESS)
		gm_context_note_primary(dev, *pctx);
	gm_shim_leave();
	return result;
}
