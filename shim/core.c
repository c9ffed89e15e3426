/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What libgpumem-core does in a preloaded process: its blocks come from the one pool of the device,
 * and stand in the log like those of cudaMalloc. What it keeps for streams is in use to the pool
 * and the log, until it goes back: when the program trims, when memory is lacking, with its
 * context.
 */
#include "api/core.h"

#include "handlers.h"
#include "heap/own.h"
#include "knob/knob.h"
#include "pool/place.h"
#include "pool/stream.h"

#define KEPT_SHARE 8 /* of a device's memory, at most */

static _Atomic(struct gm_streams *) kept[GM_COUNTER_DEVICES];

static struct gm_streams *kept_if_any(unsigned ordinal)
{
	return atomic_load_explicit(&kept[ordinal], memory_order_acquire);
}

static CUresult take(void *unused, size_t size, struct gm_context *context, struct gm_block *out)
{
	(void)unused;
	return gm_shim_serve(context, size, out);
}

static void freed(void *unused, const struct gm_block *block, uint64_t start)
{
	(void)unused;
	gm_shim_freed(GM_HOOK_NONE, block, gm_timing_since(start));
}

static struct gm_streams *make(unsigned ordinal, struct gm_pool *pool)
{
	struct gm_streams_config config = {
		.driver = &gm_shim_driver,
		.pool = pool,
		.most = gm_shim_devices[ordinal].total / KEPT_SHARE,
		.take = take,
		.freed = freed,
	};
	struct gm_streams *made = gm_streams_create(&config), *there = NULL;
	if (!made || atomic_compare_exchange_strong(&kept[ordinal], &there, made))
		return made;
	gm_streams_destroy(made);
	return there;
}

static CUresult enter(struct gm_place *place, int ordinal, CUstream stream,
		      struct gm_streams **streams)
{
	CUresult result = gm_place_enter(place, &gm_shim_driver, ordinal, stream);
	if (result != CUDA_SUCCESS)
		return result;
	unsigned device = place->context->ordinal;
	struct gm_pool *pool = gm_shim_pool(device);
	*streams = pool ? kept_if_any(device) : NULL;
	if (pool && !*streams)
		*streams = make(device, pool);
	if (*streams)
		return CUDA_SUCCESS;
	gm_place_leave(place);
	return pool ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_NOT_SUPPORTED;
}

/* A filled block is fresh: nothing is kept then. */
static uint64_t number_of(CUstream stream, bool known)
{
	return known && gm_knob_get()->fill.choice == GM_FILL_OFF
		       ? gm_streams_number(&gm_shim_driver, stream)
		       : 0;
}

static CUresult core_alloc(size_t size, int ordinal, CUstream stream, bool known, CUdeviceptr *out)
{
	struct gm_place place;
	struct gm_streams *streams;
	struct gm_block block = {0};
	if (!gm_shim_enter())
		return CUDA_ERROR_NOT_INITIALIZED;
	uint64_t start = gm_tick();
	CUresult result = enter(&place, ordinal, stream, &streams);
	if (result == CUDA_SUCCESS) {
		result = gm_streams_alloc(streams, size, place.context, number_of(stream, known),
					  &block);
		if (result != CUDA_SUCCESS)
			gm_shim_refused(place.context, size, start, result);
		gm_place_leave(&place);
	}
	gm_fence_suspect(result);
	gm_shim_leave();
	*out = block.base;
	return result;
}

static CUresult core_free(CUdeviceptr address, int ordinal, CUstream stream, bool known)
{
	struct gm_place place;
	struct gm_streams *streams;
	if (!gm_shim_enter())
		return CUDA_ERROR_NOT_INITIALIZED;
	CUresult result = enter(&place, ordinal, stream, &streams);
	if (result == CUDA_SUCCESS) {
		result = gm_streams_free(streams, address, place.context, stream,
					 number_of(stream, known));
		gm_place_leave(&place);
	}
	gm_fence_suspect(result);
	gm_shim_leave();
	return result;
}

static uint64_t core_trim(void)
{
	uint64_t given = 0;
	if (!gm_shim_enter())
		return 0;
	for (unsigned i = 0; i < gm_shim_n_devices; i++) {
		struct gm_pool *pool = gm_shim_pool_if_any(i);
		gm_core_settle(i);
		given += pool ? gm_pool_give_back(pool, 0, true) : 0;
	}
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

/* --- heaps: calls that their service thread, or we, make are none of the program's --- */

static void heap_thread(void)
{
	gm_shim_inside = 1;
}

static CUresult make_heap(const struct gm_place *place, size_t limit, struct gm_heap_host **out)
{
	unsigned ordinal = place->context->ordinal;
	const struct gm_heap_config config = {
		.driver = &gm_shim_driver,
		.pool = gm_shim_pool(ordinal),
		.context = place->context,
		.thread = heap_thread,
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
		result = make_heap(&place, limit, out);
		gm_place_leave(&place);
	}
	gm_shim_leave();
	return result;
}

static void core_heap_destroy(struct gm_heap_host *heap)
{
	bool entered = gm_shim_enter();
	gm_heap_own_destroy(heap);
	if (entered)
		gm_shim_leave();
}

static void core_heap_begin(struct gm_heap_host *heap, CUstream stream)
{
	bool entered = gm_shim_enter();
	gm_heap_launch(heap, stream);
	if (entered)
		gm_shim_leave();
}

static void core_heap_end(struct gm_heap_host *heap, CUstream stream)
{
	bool entered = gm_shim_enter();
	gm_heap_launched(heap, stream, true);
	if (entered)
		gm_shim_leave();
}

static uint64_t core_heap_trim(struct gm_heap_host *heap)
{
	bool entered = gm_shim_enter();
	uint64_t given = gm_heap_trim(heap);
	if (entered)
		gm_shim_leave();
	return given;
}

static CUresult core_heap_figures(struct gm_heap_host *heap, struct gm_heap_figures *out)
{
	bool entered = gm_shim_enter();
	CUresult result = gm_heap_figures(heap, out);
	if (entered)
		gm_shim_leave();
	return result;
}

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
		.heap = {core_heap, core_heap_destroy, core_heap_begin, core_heap_end,
			 core_heap_trim, core_heap_figures, gm_heap_device},
	};
	return version == GM_CORE_VERSION && gm_shim_active() &&
			       gm_knob_get()->mode.choice == GM_MODE_POOL
		       ? &core
		       : NULL;
}

uint64_t gm_core_settle(unsigned ordinal)
{
	struct gm_streams *streams = kept_if_any(ordinal);
	return streams ? gm_streams_settle(streams) : 0;
}

void gm_core_context_gone(unsigned ordinal, uint64_t key)
{
	struct gm_streams *streams = kept_if_any(ordinal);
	if (streams)
		gm_streams_context_gone(streams, key);
	gm_heap_own_context_gone(key);
}

void gm_core_forget(void)
{
	for (unsigned i = 0; i < GM_COUNTER_DEVICES; i++)
		atomic_store_explicit(&kept[i], NULL, memory_order_relaxed);
	gm_place_forget();
}
