/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Begin and end of contexts. The memory of a context returns to the pools after the driver's call
 * has succeeded: only then is the context's work over.
 */
#include "base/clock.h"
#include "shim/call.h"
#include "shim/idle/neighbour.h"
#include "shim/kernel/inkernel.h"
#include "shim/log/samples.h"
#include "shim/memory/device.h"
#include "shim/memory/overhead.h"
#include "shim/memory/retry.h"
#include "shim/modules.h"

/* Before a call that may end the context; `surely`: it ends it unless the call fails. */
static struct gm_context *context_end_begin(struct gm_context *context, bool surely)
{
	gm_inkernel_context_ending(context, surely);
	return context;
}

static void context_end_finish(struct gm_context *context)
{
	if (context && !atomic_load_explicit(&context->gone, memory_order_acquire))
		gm_inkernel_context_stays(context);
	gm_context_ended(context);
}

static CUresult context_destroyed(CUcontext handle, CUresult result)
{
	uint64_t key = result == CUDA_SUCCESS ? gm_context_gone(handle) : 0;
	if (key)
		gm_modules_context_gone(key);
	return result;
}

static CUresult context_reset(CUdevice device, CUresult result)
{
	uint64_t key = result == CUDA_SUCCESS ? gm_context_primary_gone(device) : 0;
	if (key)
		gm_modules_context_gone(key);
	return result;
}

/* Only the last release of a primary context ends it. */
static CUresult context_released(CUdevice device, CUresult result)
{
	unsigned flags;
	int active = 1;
	if (result != CUDA_SUCCESS)
		return result;
	gm_shim_driver.cuDevicePrimaryCtxGetState(device, &flags, &active);
	return active ? result : context_reset(device, result);
}

/* `ending` finds the context that the call may end; `ended` handles the call's result. */
#define ENDS(symbol, type, ending, ended, surely)                                          \
	GM_HANDLER(symbol, (type handle), (handle), ({                                     \
			   struct gm_context *context =                                    \
				   context_end_begin(gm_context_##ending(handle), surely); \
			   CUresult done = ended(handle, GM_PASS(real.symbol(handle)));    \
			   context_end_finish(context);                                    \
			   done;                                                           \
		   }))

ENDS(cuCtxDestroy, CUcontext, ending, context_destroyed, true)
ENDS(cuCtxDestroy_v2, CUcontext, ending, context_destroyed, true)
ENDS(cuDevicePrimaryCtxReset, CUdevice, primary_ending, context_reset, true)
ENDS(cuDevicePrimaryCtxReset_v2, CUdevice, primary_ending, context_reset, true)
ENDS(cuDevicePrimaryCtxRelease, CUdevice, primary_ending, context_released, false)
ENDS(cuDevicePrimaryCtxRelease_v2, CUdevice, primary_ending, context_released, false)

/* --- green contexts: their memory belongs to the primary context, and outlives them --- */

static void green_remember(CUgreenCtx green, CUdevice device)
{
	CUcontext derived, primary;
	if (!gm_shim_driver.cuCtxFromGreenCtx ||
	    gm_shim_driver.cuCtxFromGreenCtx(&derived, green) != CUDA_SUCCESS ||
	    real.cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS)
		return;
	gm_context_remember_green(derived, primary, device);
	gm_context_remember_primary(device, primary);
	real.cuDevicePrimaryCtxRelease_v2(device); /* the green context keeps it alive */
}

GM_TAKES(cuGreenCtxCreate, device, 0,
	 (CUgreenCtx * out, CUdevResourceDesc desc, CUdevice device, unsigned flags),
	 (out, desc, device, flags), green_remember(*out, device))

/* The primary context may end with its last green one. */
static CUresult green_destroy(CUgreenCtx green)
{
	CUcontext derived = NULL;
	CUdevice device = -1;
	if (gm_shim_driver.cuCtxFromGreenCtx)
		gm_shim_driver.cuCtxFromGreenCtx(&derived, green);
	struct gm_context *primary = context_end_begin(gm_context_ending(derived), false);
	CUresult result = GM_PASS(real.cuGreenCtxDestroy(green));
	if (result == CUDA_SUCCESS && derived && gm_context_green_gone(derived, &device))
		result = context_released(device, result);
	context_end_finish(primary);
	return result;
}

GM_HANDLER(cuGreenCtxDestroy, (CUgreenCtx green), (green), green_destroy(green))

/* --- begin of contexts --- */

static void context_sample_first(CUcontext handle, unsigned ordinal)
{
	CUcontext popped;
	if (gm_shim_driver.cuCtxPushCurrent_v2(handle) != CUDA_SUCCESS)
		return;
	uint64_t now = gm_clock_ns();
	gm_samples_write(now, false);
	gm_overhead_sample(now);
	gm_neighbour_begin(ordinal);
	gm_shim_driver.cuCtxPopCurrent_v2(&popped);
}

/* The driver takes a hundred milliseconds or more to make a context, so the slow parts of the first
 * allocation are done here: the pool, the first sample with the first page of the log, and the
 * first query of the device's used memory. */
static void context_made(CUcontext handle)
{
	CUresult ignored;
	struct gm_context *context = gm_context_of(&gm_shim_driver, handle, &ignored);
	if (!context)
		return;
	bool first = !gm_shim_pool_if_any(context->ordinal);
	if (gm_shim_pool(context->ordinal) && first)
		context_sample_first(handle, context->ordinal);
}

GM_TAKES(cuCtxCreate_v2, device, 0, (CUcontext * out, unsigned flags, CUdevice device),
	 (out, flags, device), context_made(*out))
GM_TAKES(cuCtxCreate_v3, device, 0,
	 (CUcontext * out, CUexecAffinityParam *affinity, int n, unsigned flags, CUdevice device),
	 (out, affinity, n, flags, device), context_made(*out))
GM_TAKES(cuCtxCreate_v4, device, 0,
	 (CUcontext * out, CUctxCreateParams *params, unsigned flags, CUdevice device),
	 (out, params, flags, device), context_made(*out))
GM_TAKES(cuDevicePrimaryCtxRetain, device, 0, (CUcontext * out, CUdevice device), (out, device), ({
		 gm_context_remember_primary(device, *out);
		 context_made(*out);
	 }))
