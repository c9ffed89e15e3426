/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Without the preload: one pool a device, of this library alone, made at first need. There is no
 * log and no thread; of the knobs GPUMEM_LIMIT and GPUMEM_VERBOSE count. Nobody tells us of stream
 * captures or of contexts that end: a context that came back under another number is how the end of
 * one is seen.
 */
#include "core.h"

#include "base/msg.h"
#include "heap/own.h"
#include "knob/knob.h"
#include "pool/fence.h"
#include "pool/place.h"
#include "pool/stream.h"

#define DEVICES 64
#define KEPT_SHARE 8 /* of a device's memory, at most, is kept for streams */

struct device {
	struct gm_lock making;
	_Atomic(struct gm_streams *) streams; /* the last to be set */
	_Atomic(struct gm_pool *) pool;
	_Atomic(CUcontext) handle; /* of the context seen last */
	_Atomic uint64_t key;
};

static struct gm_driver driver;
static struct device devices[DEVICES];
static int n_devices;

static CUresult take(void *arg, size_t size, struct gm_context *context, struct gm_block *out)
{
	return gm_pool_alloc(arg, size, context->key, out);
}

static uint64_t limit_of(uint64_t total)
{
	union gm_knob_value limit = gm_knob_get()->limit;
	uint32_t ppm = limit.share.ppm;
	if (ppm >= 1000000)
		return UINT64_MAX;
	return ppm ? (uint64_t)((unsigned __int128)total * ppm / 1000000) : limit.share.bytes;
}

/* Both, for nobody else to see yet. */
static CUresult make(unsigned ordinal, struct gm_pool **pool, struct gm_streams **streams)
{
	struct gm_pool_config config = {
		.driver = &driver,
		.ordinal = ordinal,
		.fence = gm_fence,
		.fence_arg = &driver,
		.trim_after = UINT64_MAX,
	};
	size_t total = 0;
	CUresult result = driver.cuDeviceGet(&config.device, (int)ordinal);
	if (result == CUDA_SUCCESS)
		result = driver.cuDeviceTotalMem_v2(&total, config.device);
	config.limit = limit_of(total);
	if (result == CUDA_SUCCESS)
		result = gm_pool_create(&config, pool);
	if (result != CUDA_SUCCESS)
		return result;
	const struct gm_streams_config kept = {
		.driver = &driver,
		.pool = *pool,
		.most = total / KEPT_SHARE,
		.take = take,
		.arg = *pool,
	};
	*streams = gm_streams_create(&kept);
	if (*streams)
		return CUDA_SUCCESS;
	gm_pool_destroy(*pool);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Of two threads one's is kept: no lock is held across the driver's calls. */
static CUresult have(unsigned ordinal)
{
	struct device *d = &devices[ordinal];
	struct gm_pool *pool;
	struct gm_streams *streams;
	if (GM_LIKELY(atomic_load_explicit(&d->streams, memory_order_acquire) != NULL))
		return CUDA_SUCCESS;
	CUresult result = make(ordinal, &pool, &streams);
	if (result != CUDA_SUCCESS)
		return result;
	gm_lock_take(&d->making);
	bool late = atomic_load_explicit(&d->streams, memory_order_relaxed) != NULL;
	if (!late) {
		atomic_store_explicit(&d->pool, pool, memory_order_relaxed);
		atomic_store_explicit(&d->streams, streams, memory_order_release);
	}
	gm_lock_release(&d->making);
	if (late) {
		gm_streams_destroy(streams);
		gm_pool_destroy(pool);
	}
	return CUDA_SUCCESS;
}

static struct gm_streams *streams_of(unsigned ordinal)
{
	return atomic_load_explicit(&devices[ordinal].streams, memory_order_acquire);
}

/* The same handle under another number: what was there before is gone, and its memory with it. */
static void notice(struct device *d, const struct gm_context *context)
{
	uint64_t key = atomic_load_explicit(&d->key, memory_order_relaxed);
	if (GM_LIKELY(key == context->key))
		return;
	CUcontext handle =
		atomic_exchange_explicit(&d->handle, context->handle, memory_order_relaxed);
	key = atomic_exchange_explicit(&d->key, context->key, memory_order_relaxed);
	if (handle != context->handle || !key || key == context->key)
		return;
	gm_streams_context_gone(atomic_load(&d->streams), key);
	gm_pool_context_gone(atomic_load(&d->pool), key);
	gm_heap_own_context_gone(key);
}

static CUresult enter(struct gm_place *place, int ordinal, CUstream stream)
{
	if (ordinal < 0 || ordinal >= n_devices)
		return CUDA_ERROR_INVALID_DEVICE;
	CUresult result = gm_place_enter(place, &driver, ordinal, stream);
	if (result != CUDA_SUCCESS)
		return result;
	result = have((unsigned)ordinal);
	if (result == CUDA_SUCCESS)
		notice(&devices[ordinal], place->context);
	else
		gm_place_leave(place);
	return result;
}

static CUresult alone_alloc(size_t size, int ordinal, CUstream stream, bool known, CUdeviceptr *out)
{
	struct gm_place place;
	struct gm_block block = {0};
	CUresult result = enter(&place, ordinal, stream);
	if (result != CUDA_SUCCESS)
		return result;
	uint64_t number = known ? gm_streams_number(&driver, stream) : 0;
	result = gm_streams_alloc(streams_of((unsigned)ordinal), size, place.context, number,
				  &block);
	gm_place_leave(&place);
	*out = block.base;
	return result;
}

static CUresult alone_free(CUdeviceptr address, int ordinal, CUstream stream, bool known)
{
	struct gm_place place;
	CUresult result = enter(&place, ordinal, stream);
	if (result != CUDA_SUCCESS)
		return result;
	uint64_t number = known ? gm_streams_number(&driver, stream) : 0;
	result = gm_streams_free(streams_of((unsigned)ordinal), address, place.context, stream,
				 number);
	gm_place_leave(&place);
	return result;
}

static uint64_t alone_trim(void)
{
	uint64_t given = 0;
	for (int i = 0; i < n_devices; i++) {
		struct gm_streams *streams = streams_of((unsigned)i);
		if (!streams)
			continue;
		gm_streams_settle(streams);
		given += gm_pool_give_back(atomic_load(&devices[i].pool), 0, true);
	}
	return given;
}

static CUresult alone_stats(int ordinal, struct gpumem_stats *out)
{
	struct gm_pool_stats stats;
	if (ordinal < 0 || ordinal >= n_devices)
		return CUDA_ERROR_INVALID_DEVICE;
	struct gm_streams *streams = streams_of((unsigned)ordinal);
	if (!streams)
		return CUDA_SUCCESS;
	gm_pool_stats(atomic_load(&devices[ordinal].pool), &stats);
	gm_core_stats(&stats, gm_streams_kept(streams), out);
	return CUDA_SUCCESS;
}

static CUresult alone_heap(int ordinal, size_t limit, struct gm_heap_host **out)
{
	struct gm_place place;
	size_t total = 0;
	CUresult result = enter(&place, ordinal, NULL);
	if (result != CUDA_SUCCESS)
		return result;
	const struct gm_heap_config config = {
		.driver = &driver,
		.pool = atomic_load(&devices[ordinal].pool),
		.context = place.context,
	};
	result = driver.cuDeviceTotalMem_v2(&total, place.context->device);
	if (result == CUDA_SUCCESS)
		result = gm_heap_own_create(&config, total, limit, out);
	gm_place_leave(&place);
	return result;
}

static void end_launch(struct gm_heap_host *heap, CUstream stream)
{
	gm_heap_launched(heap, stream, true);
}

static bool alone_mark(const char *text)
{
	(void)text;
	return false;
}

const struct gm_core *gm_core_alone(void *(*lookup)(void *arg, const char *symbol), void *arg)
{
	static const struct gm_core alone = {
		.alloc = alone_alloc,
		.free = alone_free,
		.trim = alone_trim,
		.stats = alone_stats,
		.mark = alone_mark,
		.heap = {alone_heap, gm_heap_own_destroy, gm_heap_launch, end_launch, gm_heap_trim,
			 gm_heap_figures, gm_heap_device},
	};
	const char *missing = gm_driver_load(&driver, lookup, arg);
	if (missing) {
		gm_msg(GM_MSG_WARN, "libgpumem-core: this driver has no %s: all memory is refused",
		       missing);
		return NULL;
	}
	if (gm_driver_ask_version(&driver) != CUDA_SUCCESS ||
	    driver.cuDeviceGetCount(&n_devices) != CUDA_SUCCESS)
		return NULL;
	n_devices = n_devices < DEVICES ? n_devices : DEVICES;
	for (int i = 0; i < n_devices; i++)
		gm_lock_init(&devices[i].making, GM_RANK_SHIM);
	return &alone;
}
