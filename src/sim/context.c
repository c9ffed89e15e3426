/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts: the stack of each thread, primary contexts, limits, peers. */
#include <stdlib.h>
#include <string.h>

#include "sim/internal.h"

/* --- context of a handle --- */

struct sim_context *sim_current(void)
{
	return sim_me.depth ? sim_me.stack[sim_me.depth - 1] : NULL;
}

static CUresult context_state(const struct sim_context *ctx)
{
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	return ctx->alive ? ctx->broken : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult sim_check_current(void)
{
	if (sim_me.hosting) /* its thread has no context, and can have none */
		return CUDA_ERROR_NOT_PERMITTED;
	return context_state(sim_current());
}

CUresult sim_context_of(CUcontext handle, struct sim_context **out)
{
	*out = handle ? (struct sim_context *)handle : sim_current();
	if (!sim_list_has(&sim.contexts, *out))
		*out = NULL;
	return context_state(*out);
}

CUcontext sim_context_handle(struct sim_context *ctx)
{
	return (CUcontext)ctx;
}

static CUresult context_push(struct sim_context *ctx)
{
	if (sim_me.depth == sizeof sim_me.stack / sizeof *sim_me.stack)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_me.stack[sim_me.depth++] = ctx;
	return CUDA_SUCCESS;
}

/* --- begin and end --- */

static CUresult context_start(struct sim_context *ctx, unsigned device, bool primary,
			      unsigned flags)
{
	static const size_t stack_size = 1024, fifo_size = 1 << 20, heap_size = 8 << 20;
	ctx->device = device;
	ctx->primary = primary;
	ctx->flags = flags;
	ctx->id = sim_new_id();
	ctx->broken = CUDA_SUCCESS;
	ctx->peers = 1u << device;
	memset(ctx->limits, 0, sizeof ctx->limits);
	ctx->limits[CU_LIMIT_STACK_SIZE] = stack_size;
	ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = fifo_size;
	ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = heap_size;
	ctx->legacy = sim_stream_make(ctx, CU_STREAM_DEFAULT, 0);
	if (!ctx->legacy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ctx->legacy->legacy = true;
	ctx->alive = true;
	return CUDA_SUCCESS;
}

/* Wait for the context's work, then release all its objects. */
void sim_context_die(struct sim_context *ctx)
{
	sim_wait_context(ctx);
	if (!ctx->alive) /* another thread ended it during the wait */
		return;
	ctx->alive = false;
	sim_memory_of_context_gone(ctx);
	sim_modules_of_context_gone(ctx);
	sim_events_of_context_gone(ctx);
	sim_streams_of_context_gone(ctx);
	sim_uncharge(ctx->device, ctx->taken);
	ctx->taken = ctx->local = 0;
}

struct sim_context *sim_context_derive(struct sim_context *primary)
{
	struct sim_context *ctx = calloc(1, sizeof *ctx);
	if (!ctx || context_start(ctx, primary->device, false, 0) != CUDA_SUCCESS) {
		free(ctx);
		return NULL;
	}
	ctx->origin = primary;
	sim_list_add(&sim.contexts, &ctx->node);
	return ctx;
}

static CUresult context_create(CUcontext *out, unsigned flags, CUdevice device)
{
	if (!out || flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	struct sim_context *ctx = calloc(1, sizeof *ctx);
	if (!ctx || context_start(ctx, (unsigned)device, false, flags) != CUDA_SUCCESS) {
		free(ctx);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	sim_list_add(&sim.contexts, &ctx->node);
	*out = (CUcontext)ctx;
	return context_push(ctx);
}

CUresult sim_cuCtxCreate_v2(CUcontext *out, unsigned flags, CUdevice device)
{
	return context_create(out, flags, device);
}

CUresult sim_cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *affinity, int count,
			    unsigned flags, CUdevice device)
{
	if (affinity || count)
		return CUDA_ERROR_NOT_SUPPORTED;
	return context_create(out, flags, device);
}

CUresult sim_cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned flags,
			    CUdevice device)
{
	(void)params; /* execution affinity and graphics: nothing to simulate */
	return context_create(out, flags, device);
}

CUresult sim_cuCtxDestroy_v2(CUcontext handle)
{
	struct sim_context *ctx = (struct sim_context *)handle;
	if (!handle || !sim_list_has(&sim.contexts, ctx) || ctx->primary || ctx->origin)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!ctx->alive)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	sim_context_die(ctx);
	if (sim_current() == ctx)
		sim_me.depth--;
	return CUDA_SUCCESS; /* stays in the list: it may be current in other threads (709) */
}

/* --- primary contexts --- */

CUresult sim_cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	struct sim_device *d = &sim.devices[device];
	if (!d->primary.alive) {
		CUresult result =
			context_start(&d->primary, (unsigned)device, true, d->primary_flags);
		if (result != CUDA_SUCCESS)
			return result;
	}
	if (!d->primary_listed)
		sim_list_add(&sim.contexts, &d->primary.node);
	d->primary_listed = true;
	d->primary.retains++;
	*out = (CUcontext)&d->primary;
	return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxRelease(CUdevice device)
{
	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	struct sim_context *ctx = &sim.devices[device].primary;
	if (!ctx->alive || !ctx->retains)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (--ctx->retains == 0)
		sim_context_die(ctx);
	return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	return sim_cuDevicePrimaryCtxRelease(device);
}

/* The context ends, but the program's retains stay: the next retain starts it again. */
CUresult sim_cuDevicePrimaryCtxReset(CUdevice device)
{
	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (sim.devices[device].primary.alive)
		sim_context_die(&sim.devices[device].primary);
	sim.devices[device].primary.retains = 0;
	return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxReset_v2(CUdevice device)
{
	return sim_cuDevicePrimaryCtxReset(device);
}

CUresult sim_cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	*flags = sim.devices[device].primary_flags;
	*active = sim.devices[device].primary.alive;
	return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags)
{
	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	sim.devices[device].primary_flags = flags;
	if (sim.devices[device].primary.alive)
		sim.devices[device].primary.flags = flags;
	return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags)
{
	return sim_cuDevicePrimaryCtxSetFlags(device, flags);
}

/* --- current --- */

CUresult sim_cuCtxSetCurrent(CUcontext handle)
{
	struct sim_context *ctx = (struct sim_context *)handle;
	if (ctx && !sim_list_has(&sim.contexts, ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (ctx && !ctx->alive)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (sim_me.depth)
		sim_me.depth--;
	return ctx ? context_push(ctx) : CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCurrent(CUcontext *out)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUcontext)sim_current();
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxPushCurrent_v2(CUcontext handle)
{
	struct sim_context *ctx;
	if (!handle)
		return CUDA_ERROR_INVALID_CONTEXT;
	CUresult result = sim_context_of(handle, &ctx);
	return ctx && ctx->alive ? context_push(ctx) : result;
}

CUresult sim_cuCtxPopCurrent_v2(CUcontext *out)
{
	if (!sim_me.depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (out)
		*out = (CUcontext)sim_current();
	sim_me.depth--;
	return CUDA_SUCCESS;
}

/* --- queries --- */

CUresult sim_cuCtxGetDevice(CUdevice *device)
{
	return sim_cuCtxGetDevice_v2(device, NULL);
}

CUresult sim_cuCtxGetDevice_v2(CUdevice *device, CUcontext handle)
{
	struct sim_context *ctx;
	CUresult result = sim_context_of(handle, &ctx);
	if (result != CUDA_SUCCESS)
		return result;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = (CUdevice)ctx->device;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetFlags(unsigned *flags)
{
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = sim_current()->flags;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetId(CUcontext handle, unsigned long long *id)
{
	struct sim_context *ctx;
	CUresult result = sim_context_of(handle, &ctx);
	/* a broken context still has an id (measured on driver 580) */
	if (result != CUDA_SUCCESS && !(ctx && ctx->alive))
		return result;
	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	*id = ctx->id;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetApiVersion(CUcontext handle, unsigned *version)
{
	struct sim_context *ctx;
	CUresult result = sim_context_of(handle, &ctx);
	if (result != CUDA_SUCCESS)
		return result;
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = 3020;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return CUDA_SUCCESS;
}

/* Limit of the heap of kernels, as measured on driver 580; the maximum is the H200's. */
static size_t heap_round(size_t value)
{
	static const size_t least = (size_t)4 << 20, most = 17681179680u;
	if (value >= most)
		return most;
	return value <= least ? least : gm_round_up(value, 65536);
}

CUresult sim_cuCtxSetLimit(CUlimit limit, size_t value)
{
	if ((unsigned)limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (limit == CU_LIMIT_MALLOC_HEAP_SIZE)
		value = heap_round(value);
	sim_current()->limits[limit] = value;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetLimit(size_t *value, CUlimit limit)
{
	if (!value || (unsigned)limit >= CU_LIMIT_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	*value = sim_current()->limits[limit];
	return CUDA_SUCCESS;
}

/* --- waiting for a context --- */

CUresult sim_cuCtxSynchronize(void)
{
	return sim_cuCtxSynchronize_v2(NULL);
}

CUresult sim_cuCtxSynchronize_v2(CUcontext handle)
{
	struct sim_context *ctx;
	CUresult result = sim_context_of(handle, &ctx);
	if (result == CUDA_SUCCESS)
		result = sim_capture_context(ctx);
	return result == CUDA_SUCCESS ? sim_wait_context(ctx) : result;
}

/* Every call in a broken context returns its error, as after a fault of a kernel. */
void gm_sim_break(CUcontext handle, CUresult error)
{
	struct sim_context *ctx;
	sim_lock_driver();
	sim_context_of(handle, &ctx);
	if (ctx)
		ctx->broken = error;
	sim_unlock_driver();
}

/* --- peers --- */

CUresult sim_cuCtxEnablePeerAccess(CUcontext handle, unsigned flags)
{
	struct sim_context *me = sim_current(), *peer;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!handle || sim_context_of(handle, &peer) != CUDA_SUCCESS || peer->device == me->device)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!sim.settings.peer)
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	if (me->peers & 1u << peer->device)
		return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	me->peers |= 1u << peer->device;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxDisablePeerAccess(CUcontext handle)
{
	struct sim_context *me = sim_current(), *peer;
	if (!handle || sim_context_of(handle, &peer) != CUDA_SUCCESS || peer->device == me->device)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!(me->peers & 1u << peer->device))
		return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	me->peers &= ~(1u << peer->device);
	return CUDA_SUCCESS;
}
