/* SPDX-License-Identifier: BSD-3-Clause */
#include "residency/move.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/sys.h"
#include "context/fence.h"
#include "residency/window.h"

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

bool gm_move_copy(const struct gm_move *move, bool to_device, char *host, CUdeviceptr device,
		  uint64_t size)
{
	const struct gm_driver *driver = move->driver;
	CUstream stream = CU_STREAM_LEGACY;
	if (!size)
		return true;
	if (!driver->cuMemcpyHtoDAsync_v2 || !driver->cuMemcpyDtoHAsync_v2)
		return false;
	CUresult result = to_device ? driver->cuMemcpyHtoDAsync_v2(device, host, size, stream)
				    : driver->cuMemcpyDtoHAsync_v2(host, device, size, stream);
	return result == CUDA_SUCCESS && driver->cuStreamSynchronize(stream) == CUDA_SUCCESS;
}

/* Take the ring for the caller; NULL: there is none, or another thread uses it. */
static struct gm_ring *ring_take(const struct gm_move *move)
{
	struct gm_ring *ring = move->ring ? move->ring() : NULL;
	return ring && gm_ring_take(ring) ? ring : NULL;
}

static bool copy_staged(const struct gm_move *move, const struct gm_ring_copy *copy)
{
	struct gm_ring *ring = ring_take(move);
	bool done = ring && gm_ring_copy(ring, move->context, copy);
	if (ring)
		gm_ring_leave(ring);
	return done;
}

/* Begin to submit DMA of a part. False: it is not registered. */
static bool part_enter(const struct gm_stored *part)
{
	struct gm_context *registrar = part->bank->registrar;
	return registrar && !context_is_gone(registrar) && gm_context_enter(registrar);
}

/* After part_enter. A refusal is a failure: each parcel in flight has entered for all registered
 * parts. */
static bool part_submit(const struct gm_move *move, bool to_device, const struct gm_stored *part,
			CUdeviceptr device, CUstream stream)
{
	const struct gm_driver *driver = move->driver;
	CUresult result =
		to_device ? driver->cuMemcpyHtoDAsync_v2(device, part->host, part->size, stream)
			  : driver->cuMemcpyDtoHAsync_v2(part->host, device, part->size, stream);
	part->bank->flights += result == CUDA_SUCCESS;
	if (result != CUDA_SUCCESS)
		gm_context_leave(part->bank->registrar);
	return result == CUDA_SUCCESS;
}

/* Copy a part, and wait. */
static bool part_copy(const struct gm_move *move, bool to_device, const struct gm_stored *part,
		      CUdeviceptr device)
{
	const struct gm_ring_copy copy = {.to_device = to_device,
					  .host = part->host,
					  .own = true,
					  .device = device,
					  .width = part->size,
					  .rows = 1,
					  .behind = CU_STREAM_LEGACY};
	return copy_staged(move, &copy) ||
	       gm_move_copy(move, to_device, part->host, device, part->size);
}

/* Wait for the DMA of the parcel. False: it failed. */
static bool parcel_finish(const struct gm_move *move, struct gm_parcel *parcel)
{
	struct gm_stored part = {0};
	CUresult result = CUDA_SUCCESS;
	if (!parcel->stream)
		return true;
	result = move->driver->cuStreamSynchronize(parcel->stream);
	parcel->stream = NULL;
	while (gm_store_part(parcel, &part)) {
		if (!part.bank->flights)
			continue;
		part.bank->flights--;
		gm_context_leave(part.bank->registrar);
	}
	return result == CUDA_SUCCESS;
}

/* Begin to copy. False: failure, and nothing is in flight. */
static bool parcel_copy(struct gm_move *move, bool to_device, struct gm_parcel *parcel,
			CUdeviceptr at)
{
	struct gm_stored part = {0};
	CUstream stream = move->streams[move->turn++ % 2];
	while (move->context && gm_store_part(parcel, &part)) {
		if (!to_device)
			gm_store_ready(&move->store, part.bank, move->context);
		const bool dma = part_enter(&part);
		const bool done = dma ? part_submit(move, to_device, &part, at + part.begin, stream)
				      : part_copy(move, to_device, &part, at + part.begin);
		if (dma && done)
			parcel->stream = stream;
		if (!done) {
			parcel_finish(move, parcel);
			return false;
		}
	}
	return move->context;
}

static void refuse(struct gm_move *move, enum gm_refusal refusal, const char *name)
{
	move->refusal = refusal;
	snprintf(move->refused_for, sizeof move->refused_for, "%s", name);
}

void gm_move_refuse_folder(struct gm_move *move)
{
	refuse(move,
	       move->folder.fault == GM_FOLDER_DIFFERS ? GM_REFUSAL_CONTENTS : GM_REFUSAL_FOLDER,
	       move->folder.why);
}

static struct gm_parcel *parcel_out(struct gm_move *move, CUdeviceptr at, uint64_t size)
{
	struct gm_parcel *parcel = gm_store_take(&move->store, size);
	if (!parcel) {
		refuse(move, GM_REFUSAL_HOST_MEMORY, "");
		return NULL;
	}
	if (parcel_copy(move, false, parcel, at))
		return parcel;
	gm_store_give(&move->store, parcel);
	return NULL;
}

/* Returns the store of a chunk: a parcel, or a place in the folder. */
static void *contents_out(void *arg, CUdeviceptr at, uint64_t size)
{
	struct gm_move *move = arg;
	if (move->is_over && move->is_over()) {
		refuse(move, GM_REFUSAL_EXIT, "");
		return NULL;
	}
	if (move->folder.path)
		return gm_window_out(move, at, size);
	return parcel_out(move, at, size);
}

static bool contents_in(void *arg, CUdeviceptr at, uint64_t size, void *store)
{
	struct gm_move *move = arg;
	(void)size;
	return move->folder.path ? gm_window_in(move, at, store)
				 : parcel_copy(move, true, store, at);
}

static bool contents_finish(void *arg, void *store)
{
	struct gm_move *move = arg;
	return move->folder.path || parcel_finish(move, store);
}

static void contents_drop(void *arg, void *store, uint64_t size)
{
	struct gm_move *move = arg;
	(void)size;
	if (move->folder.path)
		gm_folder_give(&move->folder, store);
	else
		gm_store_give(&move->store, store);
}

/* --- one pool --- */

struct gm_move_need gm_move_need(const struct gm_pool *pool)
{
	struct gm_pool_stats stats;
	gm_pool_stats(pool, &stats);
	uint64_t stays = stats.pinned + stats.away, all = stats.mapped - stats.vacant + stats.lent;
	return (struct gm_move_need){
		.moves = all > stays ? all - stays : 0,
		.pinned = stats.pinned,
	};
}

enum gm_refusal gm_move_find_room(struct gm_move *move, uint64_t bytes)
{
	uint64_t room = gm_store_room(&move->store);
	bool filed = move->folder.path;
	move->store.promised = 0; /* of an earlier sleep */
	*move->refused_for = '\0';
	if (filed && !gm_folder_has_room(&move->folder, bytes)) {
		gm_move_refuse_folder(move);
		return move->refusal;
	}
	return (filed ? GM_WINDOW : bytes) <= room ? GM_REFUSAL_NONE : GM_REFUSAL_HOST_MEMORY;
}

/* Enter a context of the device that has not ended; the caller leaves it. */
static struct gm_context *context_enter(unsigned device)
{
	for (struct gm_context *context = gm_context_newest(); context; context = context->next)
		if (context->ordinal == device && !context_is_gone(context) &&
		    gm_context_enter(context))
			return context;
	return NULL;
}

/* False: no host memory for the window. */
static bool window_take(struct gm_move *move)
{
	if (!move->folder.path)
		return true;
	move->store.expected = GM_WINDOW;
	move->window = gm_store_take(&move->store, GM_WINDOW);
	if (!move->window) {
		refuse(move, GM_REFUSAL_HOST_MEMORY, "");
		return false;
	}
	gm_store_ready(&move->store, move->window->bank, move->context);
	return true;
}

static void window_give(struct gm_move *move)
{
	if (move->window)
		gm_store_give(&move->store, move->window);
	move->window = NULL;
}

/* Without streams of its own DMA goes to the legacy stream. */
static void streams_make(struct gm_move *move)
{
	for (unsigned i = 0; i < 2; i++)
		if (!move->context ||
		    move->driver->cuStreamCreate(&move->streams[i], CU_STREAM_NON_BLOCKING) !=
			    CUDA_SUCCESS)
			move->streams[i] = CU_STREAM_LEGACY;
}

static void streams_end(struct gm_move *move)
{
	for (unsigned i = 0; i < 2; i++)
		if (move->streams[i] != CU_STREAM_LEGACY)
			move->driver->cuStreamDestroy_v2(move->streams[i]);
}

/* pre: the context is current, if there is one. */
static struct gm_moved contents_move(struct gm_move *move, bool out,
				     struct gm_moved (*run)(void *, const struct gm_mover *),
				     void *arg)
{
	const struct gm_mover mover = {contents_out, contents_in, contents_finish, contents_drop,
				       move};
	struct gm_moved moved = {.result = CUDA_ERROR_UNKNOWN};
	if (!window_take(move))
		return moved;
	streams_make(move);
	if (out && !move->folder.path)
		gm_store_begin(&move->store);
	moved = run(arg, &mover);
	gm_store_stop(&move->store);
	streams_end(move);
	window_give(move);
	return moved;
}

struct gm_moved gm_move_run(struct gm_move *move, unsigned device, bool out,
			    struct gm_moved (*run)(void *, const struct gm_mover *), void *arg)
{
	struct gm_moved moved = {.result = CUDA_SUCCESS};
	CUcontext popped;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(move->driver);
	refuse(move, GM_REFUSAL_NONE, "");
	move->context = context_enter(device);
	if (move->context)
		moved.result = move->driver->cuCtxPushCurrent_v2(move->context->handle);
	if (moved.result == CUDA_SUCCESS) {
		moved = contents_move(move, out, run, arg);
		if (move->context)
			move->driver->cuCtxPopCurrent_v2(&popped);
	}
	if (move->context)
		gm_context_leave(move->context);
	gm_driver_quiet_end(move->driver, mode);
	return moved;
}

static struct gm_moved pool_send(void *pool, const struct gm_mover *mover)
{
	return gm_pool_send(pool, mover);
}

static struct gm_moved pool_fetch(void *pool, const struct gm_mover *mover)
{
	return gm_pool_fetch(pool, mover);
}

struct gm_moved gm_move_out(struct gm_move *move, struct gm_pool *pool, unsigned device)
{
	return gm_move_run(move, device, true, pool_send, pool);
}

struct gm_moved gm_move_in(struct gm_move *move, struct gm_pool *pool, unsigned device)
{
	return gm_move_run(move, device, false, pool_fetch, pool);
}
