/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/block/free.h"

#include "base/array.h"
#include "knob/knob.h"
#include "log/count.h"
#include "log/log.h"
#include "shim/block/memops.h"
#include "shim/call.h"
#include "shim/context/capture.h"
#include "shim/foreign/foreign.h"
#include "shim/memory/device.h"
#include "shim/torch/lend.h"
#include "stack/held.h"

/* The record of a free between the moments `start` and `end`. */
static struct gm_record free_record(enum gm_hook_id hook, uint64_t start, uint64_t end,
				    const struct gm_block *b, unsigned flags)
{
	struct gm_record record = gm_shim_record(GM_RECORD_FREE, hook, NULL, gm_shim_time(start),
						 gm_tick_ns(start, end), CUDA_SUCCESS);
	record.address = b->base;
	record.size = b->size;
	record.held = b->held;
	record.id = b->id;
	record.context = (uint32_t)b->context;
	record.device = (uint8_t)b->ordinal;
	record.flags = (uint16_t)flags;
	return record;
}

static void free_log(const struct gm_record *record)
{
	if (!gm_log_wants(GM_RECORD_FREE))
		return;
	if (gm_held_may(record->size))
		gm_held_drop(record->id);
	gm_log_put(record);
}

/* End a timed call, at `end` (gm_tick). */
static void free_timed(const struct gm_block *b, struct gm_timing call, uint64_t end)
{
	gm_shim_happened_at(end);
	gm_counter_add(b->ordinal, GM_C_free_ns, gm_timing_ns(call, end));
}

void gm_shim_freed(enum gm_hook_id hook, const struct gm_block *b, struct gm_timing call)
{
	call = gm_timing_of(call, b->since);
	uint64_t end = b->waited; /* the remainder of the free takes no time */
	if (GM_UNLIKELY(call.start)) {
		end = end ? end : gm_tick();
		free_timed(b, call, end);
	}
	gm_memops_freed(b->id);
	_Atomic uint64_t *parts = gm_count_device(b->ordinal);
	gm_count_in(parts, b->ordinal, GM_C_free_calls, 1);
	gm_count_in(parts, b->ordinal, GM_C_free_bytes, b->size);
	if (!gm_log_wants(GM_RECORD_FREE)) /* else no record is made */
		return;
	/* A recording may have begun during a call that is not timed. */
	struct gm_record record = free_record(hook, call.start, call.start ? end : 0, b, 0);
	free_log(&record);
}

/* pre: `address` is in the range of the pool. */
static CUresult free_block(enum gm_hook_id hook, struct gm_pool *pool, CUdeviceptr address,
			   const struct gm_free *how)
{
	struct gm_block b;
	struct gm_lent lent =
		gm_lend_is_on() ? gm_lend_free_begin(pool, address) : (struct gm_lent){0};
	CUresult result = gm_pool_free(pool, address, how, &b);
	gm_lend_free_end(lent, result == CUDA_SUCCESS);
	gm_fence_suspect(result);
	if (GM_UNLIKELY(result != CUDA_SUCCESS)) {
		gm_pool_find(pool, address, &b);
		gm_counter_add(b.ordinal, GM_C_free_failed, 1);
		/* An invalid free: the driver knows which error is native, for a capture may forbid
		 * frees, or the current context may be gone, and the block with it. */
		return b.live && b.base == address ? result
						   : GM_PASS(real.cuMemFree_v2(GM_NOWHERE));
	}
	gm_shim_freed(hook, &b, how->call);
	return result;
}

/* Free memory that any call of the driver returned. The log has events only of memory from
 * cuMemAlloc. */
static CUresult free_foreign(enum gm_hook_id hook, CUdeviceptr address, CUstream stream,
			     CUresult (*async)(CUdeviceptr, CUstream), uint64_t start)
{
	struct gm_foreign f;
	bool known = gm_foreign_take(GM_SPACE_DEVICE, address, &f);
	CUresult result =
		async ? GM_PASS(async(address, stream)) : GM_PASS(real.cuMemFree_v2(address));
	gm_foreign_took(&f, known, result);
	if (result != CUDA_SUCCESS || f.kind != GM_FOREIGN_DRIVER)
		return result;
	gm_counter_add(f.ordinal, GM_C_free_driver, 1);
	uint64_t end = gm_tick();
	gm_shim_happened(gm_tick_clock(end));
	const struct gm_block block = gm_foreign_block(&f);
	struct gm_record record = free_record(hook, start, end, &block, GM_RECORD_DRIVER);
	free_log(&record);
	return result;
}

/* Natively a free needs no current context, but fails if the current one has ended. */
static __attribute__((noinline)) CUresult free_in_ended_context(void)
{
	CUresult result;
	if (gm_context_current(&gm_shim_driver, &result) || result == CUDA_ERROR_INVALID_CONTEXT)
		return CUDA_SUCCESS;
	result = GM_PASS(real.cuMemFree_v2(GM_NOWHERE));
	return result == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : result;
}

static CUresult free_any(CUdeviceptr address)
{
	struct gm_pool *pool = gm_shim_pool_at(address);
	if (!pool)
		return free_foreign(GM_HOOK_cuMemFree_v2, address, NULL, NULL, gm_tick());
	CUresult refused = gm_context_refuses(&gm_shim_driver);
	if (GM_UNLIKELY(refused == CUDA_SUCCESS && gm_context_has_ended()))
		refused = free_in_ended_context();
	if (refused != CUDA_SUCCESS)
		return refused;
	const struct gm_free how = {.after = GM_FREE_AFTER_OWNER, .call = gm_shim_call()};
	return free_block(GM_HOOK_cuMemFree_v2, pool, address, &how);
}

GM_HANDLER(cuMemFree_v2, (CUdeviceptr address), (address), free_any(address))

/*
 * Is the work on a stream complete, by the result of `ask` (cuStreamQuery or cuStreamSynchronize)?
 * Natively cuMemFreeAsync is queued on its stream. A block of ours is freed when the stream is
 * empty, for the program has ordered all uses of the block before that. As natively, memory of
 * cuMemAlloc cannot be freed in a stream that is being captured.
 */
static CUresult stream_poll(CUstream stream, CUresult (*ask)(CUstream stream))
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(&gm_shim_driver);
	CUresult result = gm_shim_driver.cuStreamIsCapturing(stream, &status);
	if (result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = ask(stream);
	gm_driver_quiet_end(&gm_shim_driver, mode);
	gm_fence_suspect(result);
	return result;
}

/* `order`: the stream whose work must complete first. */
static CUresult free_async(enum gm_hook_id hook, CUdeviceptr address, CUstream stream,
			   CUstream order, CUresult (*native)(CUdeviceptr, CUstream))
{
	struct gm_timing call = gm_timing_since(gm_tick());
	struct gm_pool *pool = gm_shim_pool_at(address);
	if (!pool)
		return free_foreign(hook, address, stream, native, call.start);
	CUresult result = gm_context_refuses(&gm_shim_driver);
	if (result != CUDA_SUCCESS)
		return result;
	/* If frees do not wait: a fence of the stream's context covers the stream. */
	struct gm_context *context = NULL;
	if (gm_knob_get()->free.choice != GM_FREE_SYNC)
		context = gm_shim_context_of_stream(order);
	result = stream_poll(order, context ? gm_shim_driver.cuStreamQuery
					    : gm_shim_driver.cuStreamSynchronize);
	struct gm_free how = {.after = GM_FREE_AFTER_NOTHING, .call = call};
	if (context && result == CUDA_ERROR_NOT_READY) {
		how.after = GM_FREE_AFTER_USERS;
		how.users = context->key;
	} else if (result != CUDA_SUCCESS) {
		return result;
	}
	return free_block(hook, pool, address, &how);
}

GM_HANDLER(cuMemFreeAsync, (CUdeviceptr address, CUstream stream), (address, stream),
	   free_async(GM_HOOK_cuMemFreeAsync, address, stream, stream, real.cuMemFreeAsync))
GM_HANDLER(cuMemFreeAsync_ptsz, (CUdeviceptr address, CUstream stream), (address, stream),
	   free_async(GM_HOOK_cuMemFreeAsync_ptsz, address, stream,
		      stream ? stream : CU_STREAM_PER_THREAD, real.cuMemFreeAsync_ptsz))

/* --- blocks that end with their context --- */

struct owned {
	uint64_t key;
	GM_ARRAY(struct gm_block) blocks;
};

static void owned_collect(void *arg, const struct gm_block *block)
{
	struct owned *o = arg;
	if (block->context == o->key)
		(void)gm_array_push(&o->blocks, *block);
}

static void owned_driver_gone(const struct gm_foreign *f)
{
	uint64_t now = gm_tick();
	if (f->kind != GM_FOREIGN_DRIVER)
		return;
	const struct gm_block block = gm_foreign_block(f);
	struct gm_record record = free_record(GM_HOOK_NONE, now, now, &block,
					      GM_RECORD_DRIVER | GM_RECORD_CONTEXT_GONE);
	gm_counter_add(f->ordinal, GM_C_free_driver, 1);
	free_log(&record);
}

static void owned_pool_gone(struct gm_pool *pool, uint64_t key)
{
	struct owned o = {.key = key};
	uint64_t now = gm_tick();
	gm_pool_walk(pool, owned_collect, &o);
	gm_pool_context_gone(pool, key);
	for (size_t i = 0; i < o.blocks.n; i++) {
		const struct gm_block *b = &o.blocks.at[i];
		struct gm_record record =
			free_record(GM_HOOK_NONE, now, now, b, GM_RECORD_CONTEXT_GONE);
		gm_memops_freed(b->id);
		gm_counter_add(b->ordinal, GM_C_free_bytes, b->size);
		free_log(&record);
	}
	gm_array_free(&o.blocks);
}

void gm_block_context_gone(struct gm_context *context)
{
	for (unsigned i = 0; i < gm_shim_n_devices; i++) {
		struct gm_pool *pool = gm_shim_pool_if_any(i);
		if (pool)
			owned_pool_gone(pool, context->key);
	}
	gm_foreign_context_gone(context->key, owned_driver_gone);
}
