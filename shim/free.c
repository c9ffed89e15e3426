/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/array.h"
#include "foreign.h"
#include "inkernel.h"
#include "knob/knob.h"

static struct gm_record free_record(enum gm_hook_id hook, uint64_t start, uint64_t end,
				    CUdeviceptr base, size_t size, size_t held, uint64_t id,
				    uint64_t context, unsigned ordinal, unsigned flags)
{
	struct gm_record record =
		gm_shim_record(GM_RECORD_FREE, hook, NULL, start, end, CUDA_SUCCESS);
	record.address = base;
	record.size = size;
	record.held = held;
	record.id = id;
	record.context = (uint32_t)context;
	record.device = (uint8_t)ordinal;
	record.flags = (uint16_t)flags;
	return record;
}

static void put(const struct gm_record *record)
{
	if (gm_log_wants(GM_RECORD_FREE))
		gm_log_put(record);
}

/* A timed call has ended. */
static void took(const struct gm_block *b, struct gm_timing call, uint64_t end)
{
	gm_shim_happened_at(end);
	gm_counter_add(b->ordinal, GM_C_free_ns, gm_timing_ns(call, end));
}

void gm_shim_freed(enum gm_hook_id hook, const struct gm_block *b, struct gm_timing call)
{
	call = gm_timing_of(call, b->since);
	uint64_t end = b->waited; /* what follows takes no time */
	if (GM_UNLIKELY(call.start)) {
		end = end ? end : gm_tick();
		took(b, call, end);
	}
	gm_memops_freed(b->id);
	_Atomic uint64_t *parts = gm_count_device(b->ordinal);
	gm_count_in(parts, b->ordinal, GM_C_free_calls, 1);
	gm_count_in(parts, b->ordinal, GM_C_free_bytes, b->size);
	if (!gm_log_wants(GM_RECORD_FREE))
		return;
	struct gm_record record = free_record(hook, call.start, end, b->base, b->size, b->held,
					      b->id, b->context, b->ordinal, 0);
	gm_log_put(&record);
}

/* What still uses a block that is freed. */
enum use {
	BY_OWNER, /* work of the context that owns it, as far as cuMemFree knows */
	BY_OTHER, /* work of the context given; only where reuse is deferred */
	BY_NONE
};

static CUresult give_to_pool(struct gm_pool *pool, CUdeviceptr address, struct gm_timing call,
			     enum use use, uint64_t context, struct gm_block *b)
{
	if (use == BY_NONE)
		return gm_pool_free_done(pool, address, b);
	return use == BY_OTHER ? gm_pool_free_behind(pool, address, context, b)
			       : gm_pool_free_since(pool, address, call, b);
}

/* A block of ours, whatever the address is in it. */
static CUresult free_ours(enum gm_hook_id hook, struct gm_pool *pool, CUdeviceptr address,
			  struct gm_timing call, enum use use, uint64_t context)
{
	struct gm_block b;
	CUresult result = give_to_pool(pool, address, call, use, context, &b);
	gm_fence_suspect(result);
	if (GM_UNLIKELY(result != CUDA_SUCCESS)) {
		gm_pool_find(pool, address, &b);
		gm_counter_add(b.ordinal, GM_C_free_failed, 1);
		/* Of what is no block the driver knows best what is wrong: the current context may
		 * be gone, and the block with it. */
		return b.live ? result : GM_PASS(real.cuMemFree_v2(GM_NOWHERE));
	}
	gm_shim_freed(hook, &b, call);
	return result;
}

/* Memory that the driver gave, by whatever call. Of it only what cuMemAlloc might have had from the
 * pool is in the log's events. */
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
	struct gm_record record = free_record(hook, start, gm_tick(), address, f.size, f.size, f.id,
					      f.context, f.ordinal, GM_RECORD_DRIVER);
	put(&record);
	return result;
}

CUresult on_cuMemFree_v2(CUdeviceptr dptr)
{
	if (!gm_shim_enter())
		return real.cuMemFree_v2(dptr);
	struct gm_pool *pool = gm_shim_pool_at(dptr);
	CUresult result =
		pool ? free_ours(GM_HOOK_cuMemFree_v2, pool, dptr, gm_shim_call(), BY_OWNER, 0)
		     : free_foreign(GM_HOOK_cuMemFree_v2, dptr, NULL, NULL, gm_tick());
	gm_shim_leave();
	return result;
}

/*
 * Natively the free is queued on the stream; a block of ours is freed when the stream is empty,
 * which is all that the program has promised to have ordered before. In a stream that is being
 * captured, memory of cuMemAlloc cannot be freed natively either.
 */
static CUresult stream_done(CUstream stream, CUresult (*look)(CUstream stream))
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(&gm_shim_driver);
	CUresult result = gm_shim_driver.cuStreamIsCapturing(stream, &status);
	if (result == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = look(stream);
	gm_driver_quiet_end(&gm_shim_driver, mode);
	gm_fence_suspect(result);
	return result;
}

static CUresult free_async(enum gm_hook_id hook, CUdeviceptr address, CUstream stream,
			   CUstream order, CUresult (*native)(CUdeviceptr, CUstream))
{
	struct gm_timing call = gm_timing_since(gm_tick());
	struct gm_pool *pool = gm_shim_pool_at(address);
	if (!pool)
		return free_foreign(hook, address, stream, native, call.start);
	/* A fence of the stream's context covers the stream. */
	struct gm_context *context = NULL;
	if (gm_knob_get()->free.choice == GM_FREE_DEFER)
		context = gm_shim_context_of_stream(order);
	CUresult result = stream_done(order, context ? gm_shim_driver.cuStreamQuery
						     : gm_shim_driver.cuStreamSynchronize);
	if (context && result == CUDA_ERROR_NOT_READY)
		return free_ours(hook, pool, address, call, BY_OTHER, context->key);
	return result == CUDA_SUCCESS ? free_ours(hook, pool, address, call, BY_NONE, 0) : result;
}

CUresult on_cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
	if (!gm_shim_enter())
		return real.cuMemFreeAsync(dptr, hStream);
	CUresult result =
		free_async(GM_HOOK_cuMemFreeAsync, dptr, hStream, hStream, real.cuMemFreeAsync);
	gm_shim_leave();
	return result;
}

CUresult on_cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream)
{
	if (!gm_shim_enter())
		return real.cuMemFreeAsync_ptsz(dptr, hStream);
	CUresult result =
		free_async(GM_HOOK_cuMemFreeAsync_ptsz, dptr, hStream,
			   hStream ? hStream : CU_STREAM_PER_THREAD, real.cuMemFreeAsync_ptsz);
	gm_shim_leave();
	return result;
}

/* --- blocks that go with their context --- */

struct owned {
	uint64_t key;
	GM_ARRAY(struct gm_block) blocks;
};

static void collect(void *arg, const struct gm_block *block)
{
	struct owned *o = arg;
	if (block->context == o->key)
		(void)gm_array_push(&o->blocks, *block);
}

static void foreign_gone(const struct gm_foreign *f)
{
	uint64_t now = gm_clock_ns();
	if (f->kind != GM_FOREIGN_DRIVER)
		return;
	struct gm_record record =
		free_record(GM_HOOK_NONE, now, now, f->key, f->size, f->size, f->id, f->context,
			    f->ordinal, GM_RECORD_DRIVER | GM_RECORD_CONTEXT_GONE);
	gm_counter_add(f->ordinal, GM_C_free_driver, 1);
	put(&record);
}

static void pool_gone(struct gm_pool *pool, uint64_t key)
{
	struct owned o = {.key = key};
	uint64_t now = gm_clock_ns();
	gm_pool_walk(pool, collect, &o);
	gm_pool_context_gone(pool, key);
	for (size_t i = 0; i < o.blocks.n; i++) {
		const struct gm_block *b = &o.blocks.at[i];
		struct gm_record record =
			free_record(GM_HOOK_NONE, now, now, b->base, b->size, b->held, b->id,
				    b->context, b->ordinal, GM_RECORD_CONTEXT_GONE);
		gm_memops_freed(b->id);
		gm_counter_add(b->ordinal, GM_C_free_bytes, b->size);
		put(&record);
	}
	gm_array_free(&o.blocks);
}

void gm_shim_context_gone(uint64_t key)
{
	struct gm_context *context = gm_context_find(key);
	if (!context)
		return;
	gm_inkernel_context_gone(context);
	for (unsigned i = 0; i < gm_shim_n_devices; i++) {
		struct gm_pool *pool = gm_shim_pool_if_any(i);
		if (!pool)
			continue;
		gm_core_context_gone(i, key);
		pool_gone(pool, key);
	}
	gm_foreign_context_gone(key, foreign_gone);
	gm_capture_context_gone(context);
	gm_peer_context_gone(key);
}
