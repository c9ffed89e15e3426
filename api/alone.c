/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Without the preload: one pool a device, owned by this library, made on first use. There is no log
 * and no thread. The only knobs obeyed are GPUMEM_LIMIT, GPUMEM_VERBOSE and those of heaps. Stream
 * captures and the ends of contexts are not seen. A context has ended when its handle reappears
 * with another number.
 */
#include "core.h"

#include "base/msg.h"
#include "context/fence.h"
#include "context/place.h"
#include "knob/knob.h"
#include "library/heaps.h"
#include "library/stream.h"
#include "library/visit.h"
#include "pool/knobs.h"

#define DEVICES 64

struct device {
	struct gm_lock making;
	_Atomic(struct gm_streams *) streams; /* set last */
	_Atomic(struct gm_pool *) pool;
};

static struct gm_driver driver;
static struct device devices[DEVICES];
static int n_devices;

static CUresult alone_take(void *arg, size_t size, struct gm_context *context, struct gm_block *out)
{
	return gm_pool_alloc(arg, size, context->key, out);
}

/* Make a pool with its streams, not published yet. */
static CUresult device_make(unsigned ordinal, struct gm_pool **pool, struct gm_streams **streams)
{
	struct gm_pool_config config = {
		.driver = &driver,
		.ordinal = ordinal,
		.fences = gm_fence_ops(&driver),
		.fence_arg = &driver,
		.trim_after = UINT64_MAX,
	};
	struct gm_pool_config knobs;
	size_t total = 0;
	CUresult result = driver.cuDeviceGet(&config.device, (int)ordinal);
	if (result == CUDA_SUCCESS)
		result = driver.cuDeviceTotalMem_v2(&total, config.device);
	gm_pool_config_knobs(&knobs, gm_knob_get(), total);
	config.limit = knobs.limit;
	if (result == CUDA_SUCCESS)
		result = gm_pool_create(&config, pool);
	if (result != CUDA_SUCCESS)
		return result;
	const struct gm_streams_config kept = {
		.driver = &driver,
		.pool = *pool,
		.most = total / GM_STREAMS_MOST_SHARE,
		.take = alone_take,
		.arg = *pool,
	};
	*streams = gm_streams_create(&kept);
	if (*streams)
		return CUDA_SUCCESS;
	gm_pool_destroy(*pool);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* No lock is held across driver calls, so two threads may each make a pool; one pool is kept. */
static CUresult device_find(unsigned ordinal)
{
	struct device *d = &devices[ordinal];
	struct gm_pool *pool;
	struct gm_streams *streams;
	if (GM_LIKELY(atomic_load_explicit(&d->streams, memory_order_acquire) != NULL))
		return CUDA_SUCCESS;
	CUresult result = device_make(ordinal, &pool, &streams);
	if (result != CUDA_SUCCESS)
		return result;
	gm_lock_take(&d->making);
	bool lost = atomic_load_explicit(&d->streams, memory_order_relaxed) != NULL;
	if (!lost) {
		atomic_store_explicit(&d->pool, pool, memory_order_relaxed);
		atomic_store_explicit(&d->streams, streams, memory_order_release);
	}
	gm_lock_release(&d->making);
	if (lost) {
		gm_streams_destroy(streams);
		gm_pool_destroy(pool);
	}
	return CUDA_SUCCESS;
}

static struct gm_streams *device_streams(unsigned ordinal)
{
	return atomic_load_explicit(&devices[ordinal].streams, memory_order_acquire);
}

static void alone_context_gone(const struct gm_context *context)
{
	struct gm_streams *streams = device_streams(context->ordinal);
	if (streams) {
		gm_streams_context_gone(streams, context->key);
		gm_pool_context_gone(atomic_load(&devices[context->ordinal].pool), context->key);
	}
	gm_heap_own_context_gone(context->key);
}

/* A new context may have the handle of an older one. The older one has ended then: its memory
 * returns to the pool. */
static void alone_poll_ends(void)
{
	static _Atomic(struct gm_context *) polled;
	struct gm_context *newest = gm_context_newest(), *gone;
	if (GM_LIKELY(atomic_load_explicit(&polled, memory_order_relaxed) == newest))
		return;
	while ((gone = gm_context_replaced()))
		alone_context_gone(gone);
	atomic_store_explicit(&polled, newest, memory_order_relaxed);
}

static CUresult alone_streams(const struct gm_context *context, struct gm_streams **out)
{
	CUresult result = device_find(context->ordinal);
	if (result == CUDA_SUCCESS) {
		alone_poll_ends();
		*out = device_streams(context->ordinal);
	}
	return result;
}

static const struct gm_visits visits = {.driver = &driver, .streams = alone_streams};

static CUresult alone_alloc(size_t size, int ordinal, CUstream stream, bool known, CUdeviceptr *out)
{
	if (ordinal < 0 || ordinal >= n_devices)
		return CUDA_ERROR_INVALID_DEVICE;
	return gm_visit_alloc(&visits, size, ordinal, stream, known, out);
}

static CUresult alone_free(CUdeviceptr address, int ordinal, CUstream stream, bool known)
{
	if (ordinal < 0 || ordinal >= n_devices)
		return CUDA_ERROR_INVALID_DEVICE;
	return gm_visit_free(&visits, address, ordinal, stream, known);
}

static uint64_t alone_trim(void)
{
	uint64_t given = 0;
	for (int i = 0; i < n_devices; i++) {
		struct gm_streams *streams = device_streams((unsigned)i);
		if (streams)
			given += gm_visit_trim(streams, atomic_load(&devices[i].pool));
	}
	return given;
}

static CUresult alone_stats(int ordinal, struct gpumem_stats *out)
{
	struct gm_pool_stats stats;
	if (ordinal < 0 || ordinal >= n_devices)
		return CUDA_ERROR_INVALID_DEVICE;
	struct gm_streams *streams = device_streams((unsigned)ordinal);
	if (!streams)
		return CUDA_SUCCESS;
	gm_pool_stats(atomic_load(&devices[ordinal].pool), &stats);
	gm_core_stats(&stats, gm_streams_kept(streams), out);
	return CUDA_SUCCESS;
}

static CUresult alone_heap(int ordinal, size_t limit, struct gm_heap_host **out)
{
	struct gm_visit visit;
	size_t total = 0;
	if (ordinal < 0 || ordinal >= n_devices)
		return CUDA_ERROR_INVALID_DEVICE;
	CUresult result = gm_visit_enter(&visit, &visits, ordinal, NULL);
	if (result != CUDA_SUCCESS)
		return result;
	const struct gm_heap_config config = {
		.driver = &driver,
		.pool = atomic_load(&devices[ordinal].pool),
		.context = visit.place.context,
	};
	result = driver.cuDeviceTotalMem_v2(&total, visit.place.context->device);
	if (result == CUDA_SUCCESS)
		result = gm_heap_own_create(&config, total, limit, out);
	gm_visit_leave(&visit);
	return result;
}

static void alone_heap_begin(struct gm_heap_host *heap, CUstream stream)
{
	gm_heap_launch(heap, stream, NULL);
}

static void alone_heap_end(struct gm_heap_host *heap, CUstream stream)
{
	gm_heap_launched(heap, stream, true, NULL);
}

static void alone_reclaim(unsigned ordinal)
{
	struct gm_streams *streams = device_streams(ordinal);
	if (streams)
		gm_streams_drain(streams);
}

static CUresult alone_buffer(int ordinal, bool host, size_t most, struct gm_buffer **out)
{
	struct gm_visit visit;
	if (ordinal < 0 || ordinal >= n_devices)
		return CUDA_ERROR_INVALID_DEVICE;
	CUresult result = gm_visit_enter(&visit, &visits, ordinal, NULL);
	if (result != CUDA_SUCCESS)
		return result;
	const struct gm_buffer_config config = {
		.driver = &driver,
		.pool = atomic_load(&devices[ordinal].pool),
		.context = visit.place.context,
		.host = host,
		.most = most,
		.reclaim = alone_reclaim,
	};
	result = gm_buffer_create(&config, out);
	gm_visit_leave(&visit);
	return result;
}

static bool alone_mark(const char *text)
{
	(void)text;
	return false;
}

/* Sleep and wake, which need the preload: it sees the program's own use of the memory. */
static CUresult alone_residency(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

const struct gm_core *gm_core_alone(void *(*lookup)(void *arg, const char *symbol), void *arg)
{
	static const struct gm_core alone = {
		.alloc = alone_alloc,
		.free = alone_free,
		.trim = alone_trim,
		.stats = alone_stats,
		.mark = alone_mark,
		.sleep = alone_residency,
		.wake = alone_residency,
		.heap = {alone_heap, gm_heap_own_destroy, alone_heap_begin, alone_heap_end,
			 gm_heap_trim, gm_heap_figures, gm_heap_device},
		.buffer = {alone_buffer, gm_buffer_destroy, gm_buffer_reserve, gm_buffer_resize,
			   gm_buffer_insert, gm_buffer_erase, gm_buffer_shrink, gm_buffer_figures},
	};
	const char *missing = gm_driver_load(&driver, lookup, arg);
	if (missing) {
		gm_msg(GM_MSG_WARN, "libgpumem-core: this driver has no %s: all memory is refused",
		       missing);
		return NULL;
	}
	if (gm_driver_query_version(&driver) != CUDA_SUCCESS ||
	    driver.cuDeviceGetCount(&n_devices) != CUDA_SUCCESS)
		return NULL;
	n_devices = n_devices < DEVICES ? n_devices : DEVICES;
	for (int i = 0; i < n_devices; i++)
		gm_lock_init(&devices[i].making, GM_LOCK_RANK_SHIM);
	return &alone;
}
