/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libgpumem-core in a preloaded process. Its blocks are from the one pool of the device, and are
 * logged like those of cudaMalloc. A block kept for a stream counts as in use in pool and log. It
 * returns to the pool when the program trims, when memory is lacking, or with its context.
 */
#include "shim/library/library.h"

#include "api/core.h"

#include "context/place.h"
#include "knob/knob.h"
#include "library/heaps.h"
#include "library/stream.h"
#include "library/visit.h"
#include "log/log.h"
#include "shim/block/alloc.h"
#include "shim/block/free.h"
#include "shim/call.h"
#include "shim/idle/demand.h"
#include "shim/memory/device.h"
#include "shim/modules.h"
#include "shim/sleep/sleep.h"

static _Atomic(struct gm_streams *) kept[GM_COUNTER_DEVICES]; /* by device, made on first use */

static struct gm_streams *kept_if_any(unsigned ordinal)
{
	return atomic_load_explicit(&kept[ordinal], memory_order_acquire);
}

static CUresult core_take(void *unused, size_t size, struct gm_context *context,
			  struct gm_block *out)
{
	(void)unused;
	return gm_shim_serve(context, size, out);
}

static void core_freed(void *unused, const struct gm_block *block, uint64_t start)
{
	(void)unused;
	gm_shim_freed(GM_HOOK_NONE, block, gm_timing_since(start));
}

static struct gm_streams *streams_make(unsigned ordinal, struct gm_pool *pool)
{
	struct gm_streams_config config = {
		.driver = &gm_shim_driver,
		.pool = pool,
		.most = gm_shim_devices[ordinal].total / GM_STREAMS_MOST_SHARE,
		.take = core_take,
		.freed = core_freed,
	};
	struct gm_streams *made = gm_streams_create(&config), *there = NULL;
	if (!made || atomic_compare_exchange_strong(&kept[ordinal], &there, made))
		return made;
	gm_streams_destroy(made);
	return there;
}

static CUresult core_streams(const struct gm_context *context, struct gm_streams **out)
{
	struct gm_pool *pool = gm_shim_pool(context->ordinal);
	*out = pool ? kept_if_any(context->ordinal) : NULL;
	if (pool && !*out)
		*out = streams_make(context->ordinal, pool);
	if (*out)
		return CUDA_SUCCESS;
	return pool ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_NOT_SUPPORTED;
}

static void core_refused(struct gm_context *context, size_t size, uint64_t start, CUresult result)
{
	gm_shim_refused(context, size, start, result);
}

static const struct gm_visits visits = {
	.driver = &gm_shim_driver,
	.streams = core_streams,
	.refused = core_refused,
};

/* GPUMEM_FILL fills fresh blocks only, so with it no block is kept for a stream. */
static bool streams_are_kept(void)
{
	return gm_knob_get()->fill.choice == GM_FILL_OFF;
}

static CUresult core_alloc(size_t size, int ordinal, CUstream stream, bool known, CUdeviceptr *out)
{
	if (!gm_shim_enter())
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult result = gm_shim_gate();
	if (result == CUDA_SUCCESS) {
		result = gm_visit_alloc(&visits, size, ordinal, stream, known && streams_are_kept(),
					out);
		gm_door_leave();
	}
	gm_fence_suspect(result);
	gm_shim_leave();
	return result;
}

static CUresult core_free(CUdeviceptr address, int ordinal, CUstream stream, bool known)
{
	if (!gm_shim_enter())
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult result =
		gm_visit_free(&visits, address, ordinal, stream, known && streams_are_kept());
	gm_fence_suspect(result);
	gm_shim_leave();
	return result;
}

static uint64_t core_trim(void)
{
	uint64_t given = 0;
	if (!gm_shim_enter())
		return 0;
	for (unsigned i = 0; i < gm_shim_n_devices; i++)
		given += gm_visit_trim(kept_if_any(i), gm_shim_pool_if_any(i));
	gm_shim_leave();
	return given;
}

static CUresult core_stats(int ordinal, struct gpumem_stats *out)
{
	struct gm_pool_stats stats;
	if (!gm_shim_active())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (ordinal < 0 || (unsigned)ordinal >= gm_shim_n_devices)
		return CUDA_ERROR_INVALID_DEVICE;
	struct gm_pool *pool = gm_shim_pool_if_any((unsigned)ordinal);
	struct gm_streams *streams = kept_if_any((unsigned)ordinal);
	if (!pool)
		return CUDA_SUCCESS;
	gm_pool_stats(pool, &stats);
	gm_core_stats(&stats, streams ? gm_streams_kept(streams) : 0, out);
	return CUDA_SUCCESS;
}

static CUresult core_move(CUresult (*move)(void))
{
	if (!gm_shim_enter())
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult result = move();
	gm_shim_leave();
	return result;
}

static CUresult core_sleep(void)
{
	return core_move(gm_sleep_now);
}

static CUresult core_wake(void)
{
	return core_move(gm_sleep_wake_now);
}

/* --- heaps: driver calls of their service threads, or of ours, are not the program's --- */

static void heap_guard(bool up)
{
	gm_shim_inside = up;
}

/* A call that submits work, or takes memory. */
#define GATED(result, call)                   \
	do {                                  \
		(result) = gm_shim_gate();    \
		if ((result) != CUDA_SUCCESS) \
			break;                \
		(result) = (call);            \
		gm_door_leave();              \
	} while (0)

static CUresult core_heap_make(const struct gm_place *place, size_t limit,
			       struct gm_heap_host **out)
{
	unsigned ordinal = place->context->ordinal;
	const struct gm_heap_config config = {
		.driver = &gm_shim_driver,
		.pool = gm_shim_pool(ordinal),
		.context = place->context,
		.guard = heap_guard,
	};
	return config.pool ? gm_heap_own_create(&config, gm_shim_devices[ordinal].total, limit, out)
			   : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult core_heap(int ordinal, size_t limit, struct gm_heap_host **out)
{
	struct gm_place place;
	if (!gm_shim_enter())
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult result = gm_place_enter(&place, &gm_shim_driver, ordinal, NULL);
	if (result == CUDA_SUCCESS) {
		GATED(result, core_heap_make(&place, limit, out));
		gm_place_leave(&place);
	}
	gm_shim_leave();
	return result;
}

/* Put the guard up for a statement, if it is not up already. */
#define GUARDED(statement)                      \
	do {                                    \
		bool entered = gm_shim_enter(); \
		statement;                      \
		if (entered)                    \
			gm_shim_leave();        \
	} while (0)

static void core_heap_destroy(struct gm_heap_host *heap)
{
	GUARDED(gm_heap_own_destroy(heap));
}

static void core_heap_begin(struct gm_heap_host *heap, CUstream stream)
{
	GUARDED(gm_heap_launch(heap, stream, NULL));
}

static void core_heap_end(struct gm_heap_host *heap, CUstream stream)
{
	GUARDED(gm_heap_launched(heap, stream, true, NULL));
}

static uint64_t core_heap_trim(struct gm_heap_host *heap)
{
	uint64_t given;
	GUARDED(given = gm_heap_trim(heap));
	return given;
}

static CUresult core_heap_figures(struct gm_heap_host *heap, struct gm_heap_figures *out)
{
	CUresult result;
	GUARDED(result = gm_heap_figures(heap, out));
	return result;
}

/* --- growable buffers --- */

static void core_reclaim(unsigned ordinal)
{
	gm_modules_reclaim(ordinal, UINT64_MAX);
	gm_demand_reclaim(ordinal);
}

static CUresult core_buffer_make(const struct gm_place *place, bool host, size_t most,
				 struct gm_buffer **out)
{
	const struct gm_buffer_config config = {
		.driver = &gm_shim_driver,
		.pool = gm_shim_pool(place->context->ordinal),
		.context = place->context,
		.host = host,
		.most = most,
		.reclaim = core_reclaim,
	};
	return config.pool ? gm_buffer_create(&config, out) : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult core_buffer(int ordinal, bool host, size_t most, struct gm_buffer **out)
{
	struct gm_place place;
	if (!gm_shim_enter())
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult result = gm_place_enter(&place, &gm_shim_driver, ordinal, NULL);
	if (result == CUDA_SUCCESS) {
		result = core_buffer_make(&place, host, most, out);
		gm_place_leave(&place);
	}
	gm_shim_leave();
	return result;
}

static CUresult core_buffer_destroy(struct gm_buffer *b)
{
	CUresult result;
	GUARDED(result = gm_buffer_destroy(b));
	gm_fence_suspect(result);
	return result;
}

/* A call on a buffer; its driver calls are not the program's. */
#define BUFFER_CALL(name, params, args)                        \
	static CUresult core_buffer_##name params              \
	{                                                      \
		CUresult result;                               \
		GUARDED(GATED(result, gm_buffer_##name args)); \
		gm_fence_suspect(result);                      \
		return result;                                 \
	}
BUFFER_CALL(reserve, (struct gm_buffer * b, uint64_t bytes), (b, bytes))
BUFFER_CALL(resize, (struct gm_buffer * b, uint64_t size), (b, size))
BUFFER_CALL(insert,
	    (struct gm_buffer * b, uint64_t at, CUdeviceptr source, uint64_t bytes,
	     CUstream stream),
	    (b, at, source, bytes, stream))
BUFFER_CALL(erase, (struct gm_buffer * b, uint64_t at, uint64_t bytes, CUstream stream),
	    (b, at, bytes, stream))
BUFFER_CALL(shrink, (struct gm_buffer * b), (b))

static bool core_mark(const char *text)
{
	struct gm_record mark = {.device = 255, .kind = GM_RECORD_MARK};
	if (!gm_log_wants(GM_RECORD_MARK) || !gm_shim_enter())
		return false;
	mark.string = gm_log_string(text);
	if (mark.string)
		gm_log_put(&mark);
	gm_shim_leave();
	return mark.string != 0;
}

__attribute__((visibility("default"))) const struct gm_core *gm_preload_core(unsigned version)
{
	static const struct gm_core core = {
		.alloc = core_alloc,
		.free = core_free,
		.trim = core_trim,
		.stats = core_stats,
		.mark = core_mark,
		.sleep = core_sleep,
		.wake = core_wake,
		.heap = {core_heap, core_heap_destroy, core_heap_begin, core_heap_end,
			 core_heap_trim, core_heap_figures, gm_heap_device},
		.buffer = {core_buffer, core_buffer_destroy, core_buffer_reserve,
			   core_buffer_resize, core_buffer_insert, core_buffer_erase,
			   core_buffer_shrink, gm_buffer_figures},
	};
	return version == GM_CORE_VERSION && gm_shim_active() &&
			       gm_knob_get()->mode.choice == GM_MODE_POOL
		       ? &core
		       : NULL;
}

uint64_t gm_library_reclaim(unsigned ordinal, uint64_t bytes)
{
	(void)bytes;
	struct gm_streams *streams = kept_if_any(ordinal);
	return streams ? gm_streams_drain(streams) : 0;
}

void gm_library_context_gone(struct gm_context *context)
{
	for (unsigned i = 0; i < gm_shim_n_devices; i++) {
		struct gm_streams *streams = kept_if_any(i);
		if (streams)
			gm_streams_context_gone(streams, context->key);
	}
	gm_heap_own_context_gone(context->key);
}

void gm_library_forget(void)
{
	for (unsigned i = 0; i < GM_COUNTER_DEVICES; i++)
		atomic_store_explicit(&kept[i], NULL, memory_order_relaxed);
	gm_place_forget();
}
