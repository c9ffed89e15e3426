/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Contexts come and go. What a context owned goes back to the pools after the driver's call has
 * succeeded: the context's work is over then, and no sooner.
 */
#include "handlers.h"
#include "inkernel.h"

/* Around a call that may end a context; `surely`: unless it is refused. */
static struct gm_context *begin_end(struct gm_context *context, bool surely)
{
	gm_inkernel_context_ending(context, surely);
	return context;
}

static void finish_end(struct gm_context *context)
{
	if (context && !atomic_load_explicit(&context->gone, memory_order_acquire))
		gm_inkernel_context_stays(context);
	gm_context_ended(context);
}

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
#define ENDS(symbol, type, ending, what, surely)                                            \
	CUresult on_##symbol(type which)                                                    \
	{                                                                                   \
		if (!gm_shim_enter())                                                       \
			return real.symbol(which);                                          \
		struct gm_context *context = begin_end(gm_context_##ending(which), surely); \
		CUresult result = GM_PASS(real.symbol(which));                              \
		result = what(which, result);                                               \
		finish_end(context);                                                        \
		gm_shim_leave();                                                            \
		return result;                                                              \
	}

ENDS(cuCtxDestroy, CUcontext, ending, destroyed, true)
ENDS(cuCtxDestroy_v2, CUcontext, ending, destroyed, true)
ENDS(cuDevicePrimaryCtxReset, CUdevice, primary_ending, reset, true)
ENDS(cuDevicePrimaryCtxReset_v2, CUdevice, primary_ending, reset, true)
ENDS(cuDevicePrimaryCtxRelease, CUdevice, primary_ending, released, false)
ENDS(cuDevicePrimaryCtxRelease_v2, CUdevice, primary_ending, released, false)

/* --- green contexts: what is allocated there is the primary context's, and stays --- */

static void note_green(CUgreenCtx green, CUdevice device)
{
	CUcontext derived, primary;
	if (!gm_shim_driver.cuCtxFromGreenCtx ||
	    gm_shim_driver.cuCtxFromGreenCtx(&derived, green) != CUDA_SUCCESS ||
	    real.cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS)
		return;
	gm_context_note_green(derived, primary, device);
	gm_context_note_primary(device, primary);
	real.cuDevicePrimaryCtxRelease_v2(device); /* the green one keeps it */
}

CUresult on_cuGreenCtxCreate(CUgreenCtx *out, CUdevResourceDesc desc, CUdevice device,
			     unsigned flags)
{
	if (!gm_shim_enter())
		return real.cuGreenCtxCreate(out, desc, device, flags);
	CUresult result = GM_PASS(real.cuGreenCtxCreate(out, desc, device, flags));
	if (gm_retry(result))
		result = GM_PASS(real.cuGreenCtxCreate(out, desc, device, flags));
	if (result == CUDA_SUCCESS)
		note_green(*out, device);
	gm_shim_leave();
	return result;
}

/* With the last one its primary context may end as well. */
CUresult on_cuGreenCtxDestroy(CUgreenCtx green)
{
	CUcontext derived = NULL;
	CUdevice device = -1;
	if (!gm_shim_enter())
		return real.cuGreenCtxDestroy(green);
	if (gm_shim_driver.cuCtxFromGreenCtx)
		gm_shim_driver.cuCtxFromGreenCtx(&derived, green);
	struct gm_context *primary = begin_end(gm_context_ending(derived), false);
	CUresult result = GM_PASS(real.cuGreenCtxDestroy(green));
	if (result == CUDA_SUCCESS && derived && gm_context_green_gone(derived, &device))
		result = released(device, result);
	finish_end(primary);
	gm_shim_leave();
	return result;
}

/* --- contexts begin --- */

static void look_first(CUcontext handle)
{
	CUcontext popped;
	if (gm_shim_driver.cuCtxPushCurrent_v2(handle) != CUDA_SUCCESS)
		return;
	gm_shim_look(gm_clock_ns());
	gm_shim_driver.cuCtxPopCurrent_v2(&popped);
}

/* What the first allocation would wait for is done here, where the driver takes a hundred
 * milliseconds or more: also the first sample, with the first page of the log, and the first
 * question how much of the device is used. */
static void made(CUcontext handle)
{
	CUresult ignored;
	struct gm_context *context = gm_context_of(&gm_shim_driver, handle, &ignored);
	if (!context)
		return;
	bool first = !gm_shim_pool_if_any(context->ordinal);
	if (gm_shim_pool(context->ordinal) && first)
		look_first(handle);
}

/* Parameters, the arguments that they are, and what is to be done after success. */
#define BEGINS(symbol, parameters, arguments, after)              \
	CUresult on_##symbol parameters                           \
	{                                                         \
		if (!gm_shim_enter())                             \
			return real.symbol arguments;             \
		CUresult result = GM_PASS(real.symbol arguments); \
		if (gm_retry(result))                             \
			result = GM_PASS(real.symbol arguments);  \
		if (result == CUDA_SUCCESS) {                     \
			after;                                    \
			made(*out);                               \
		}                                                 \
		gm_shim_leave();                                  \
		return result;                                    \
	}

BEGINS(cuCtxCreate_v2, (CUcontext * out, unsigned flags, CUdevice device), (out, flags, device), )
BEGINS(cuCtxCreate_v3,
       (CUcontext * out, CUexecAffinityParam *affinity, int n, unsigned flags, CUdevice device),
       (out, affinity, n, flags, device), )
BEGINS(cuCtxCreate_v4,
       (CUcontext * out, CUctxCreateParams *params, unsigned flags, CUdevice device),
       (out, params, flags, device), )
BEGINS(cuDevicePrimaryCtxRetain, (CUcontext * out, CUdevice device), (out, device),
       gm_context_note_primary(device, *out))
