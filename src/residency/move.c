/* SPDX-License-Identifier: BSD-3-Clause */
#include "residency/move.h"

#include "base/clock.h"
#include "base/sys.h"
#include "context/fence.h"

#define NAP 200000u /* ns between two queries of a fence */

const char *gm_refusal_text(enum gm_refusal refusal)
{
	static const char *const texts[] = {
#define GM_REFUSAL(name, text) text,
#include "residency/refusal.def"
#undef GM_REFUSAL
	};
	return refusal < GM_REFUSALS ? texts[refusal] : "this release does not know the reason";
}

/* --- drain --- */

static bool context_is_gone(const struct gm_context *context)
{
	return atomic_load_explicit(&context->gone, memory_order_acquire);
}

static enum gm_refusal fence_await(const struct gm_fence_ops *ops, void *arg, uint64_t key,
				   CUevent fence, uint64_t end)
{
	CUresult result;
	while ((result = ops->passed(arg, key, fence)) == CUDA_ERROR_NOT_READY) {
		if (gm_clock_ns() >= end)
			return GM_REFUSAL_BUSY;
		gm_sys_nap(NAP);
	}
	return result == CUDA_SUCCESS ? GM_REFUSAL_NONE : GM_REFUSAL_CONTEXT;
}

static enum gm_refusal context_drain(const struct gm_fence_ops *ops, void *arg,
				     const struct gm_context *context, uint64_t end)
{
	CUevent fence = NULL;
	CUresult result = ops->record(arg, context->key, &fence);
	if (result == CUDA_ERROR_NOT_READY)
		return GM_REFUSAL_CAPTURE;
	if (result != CUDA_SUCCESS)
		return GM_REFUSAL_CONTEXT;
	if (!fence)
		return GM_REFUSAL_NONE;
	enum gm_refusal refusal = fence_await(ops, arg, context->key, fence, end);
	ops->drop(arg, context->key, fence);
	return refusal;
}

enum gm_refusal gm_move_drain(const struct gm_driver *driver, uint64_t end)
{
	const struct gm_fence_ops *ops = gm_fence_ops(driver);
	enum gm_refusal refusal = ops->record ? GM_REFUSAL_NONE : GM_REFUSAL_DRIVER;
	for (struct gm_context *context = gm_context_newest();
	     context && refusal == GM_REFUSAL_NONE; context = context->next)
		if (!context_is_gone(context))
			refusal = context_drain(ops, (void *)driver, context, end);
	return refusal;
}

/* --- one chunk --- */

/* The driver's copy, where the ring has none. */
static bool copy_natively(const struct gm_move *move, const struct gm_ring_copy *copy)
{
	const struct gm_driver *driver = move->driver;
	if (!driver->cuMemcpyHtoDAsync_v2 || !driver->cuMemcpyDtoHAsync_v2)
		return false;
	CUresult result = copy->to_device ? driver->cuMemcpyHtoDAsync_v2(copy->device, copy->host,
									 copy->width, copy->behind)
					  : driver->cuMemcpyDtoHAsync_v2(copy->host, copy->device,
									 copy->width, copy->behind);
	return result == CUDA_SUCCESS && driver->cuStreamSynchronize(copy->behind) == CUDA_SUCCESS;
}

static bool contents_copy(const struct gm_move *move, bool to_device, void *host, CUdeviceptr at,
			  uint64_t size)
{
	const struct gm_ring_copy copy = {.to_device = to_device,
					  .host = host,
					  .device = at,
					  .width = size,
					  .rows = 1,
					  .behind = CU_STREAM_LEGACY};
	struct gm_ring *ring = move->ring ? move->ring() : NULL;
	bool done = false;
	if (!move->context)
		return false;
	if (ring && gm_ring_take(ring)) {
		done = gm_ring_copy(ring, move->context, &copy);
		gm_ring_leave(ring);
	}
	return done || copy_natively(move, &copy);
}

static void *contents_out(void *arg, CUdeviceptr at, uint64_t size)
{
	struct gm_move *move = arg;
	if (move->is_over && move->is_over())
		return NULL;
	void *store = gm_store_take(&move->store, size);
	if (store && !contents_copy(move, false, store, at, size)) {
		gm_store_give(&move->store, store, size);
		return NULL;
	}
	return store;
}

static bool contents_in(void *arg, CUdeviceptr at, uint64_t size, const void *store)
{
	return contents_copy(arg, true, (void *)store, at, size);
}

static void contents_drop(void *arg, void *store, uint64_t size)
{
	struct gm_move *move = arg;
	gm_store_give(&move->store, store, size);
}

/* --- one pool --- */

struct gm_move_need gm_move_need(const struct gm_pool *pool)
{
	struct gm_pool_stats stats;
	gm_pool_stats(pool, &stats);
	uint64_t stays = stats.pinned + stats.away;
	return (struct gm_move_need){
		.moves = stats.mapped > stays ? stats.mapped - stays : 0,
		.pinned = stats.pinned,
		.lent = stats.lent,
	};
}

/* A context of the device that has not ended; the caller leaves it. */
static struct gm_context *context_enter(unsigned device)
{
	for (struct gm_context *context = gm_context_newest(); context; context = context->next)
		if (context->ordinal == device && !context_is_gone(context) &&
		    gm_context_enter(context))
			return context;
	return NULL;
}

static struct gm_moved pool_move(struct gm_move *move, struct gm_pool *pool, unsigned device,
				 struct gm_moved (*call)(struct gm_pool *, const struct gm_mover *))
{
	const struct gm_mover mover = {contents_out, contents_in, contents_drop, move};
	struct gm_moved moved = {.result = CUDA_SUCCESS};
	CUcontext popped;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(move->driver);
	move->context = context_enter(device);
	if (move->context)
		moved.result = move->driver->cuCtxPushCurrent_v2(move->context->handle);
	if (moved.result == CUDA_SUCCESS) {
		moved = call(pool, &mover);
		if (move->context)
			move->driver->cuCtxPopCurrent_v2(&popped);
	}
	if (move->context)
		gm_context_leave(move->context);
	gm_driver_quiet_end(move->driver, mode);
	return moved;
}

struct gm_moved gm_move_out(struct gm_move *move, struct gm_pool *pool, unsigned device)
{
	return pool_move(move, pool, device, gm_pool_send);
}

struct gm_moved gm_move_in(struct gm_move *move, struct gm_pool *pool, unsigned device)
{
	return pool_move(move, pool, device, gm_pool_fetch);
}
