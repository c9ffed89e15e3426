/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream-ordered memory and its pools. It belongs to no context: it outlives the context of its
 * allocation, and even a reset of the device (measured on driver 580).
 */
#include "shim/foreign/async.h"

#include <sched.h>

#include "base/array.h"
#include "base/lock.h"
#include "log/count.h"
#include "shim/context/capture.h"
#include "shim/foreign/foreign.h"
#include "shim/foreign/graph.h"
#include "shim/memory/device.h"
#include "shim/memory/limit.h"
#include "shim/memory/retry.h"

/* --- pools that the program made --- */

struct own_pool {
	CUmemoryPool handle;
	int where;	/* the device's ordinal, or GM_LACK_HOST */
	unsigned asked; /* threads that ask the driver about it now */
};

static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_TABLE);
static GM_ARRAY(struct own_pool) pools; /* under the lock */

/* The index of a pool; pools.n: not found. */
static size_t pool_find(CUmemoryPool handle)
{
	size_t i = 0;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	while (i < pools.n && pools.at[i].handle != handle)
		i++;
	return i;
}

static void pool_made(CUmemoryPool handle, const CUmemPoolProps *props)
{
	gm_counter_add(0, GM_C_async_pools, 1);
	gm_lock_take(&lock);
	(void)gm_array_push(&pools,
			    ((struct own_pool){handle, gm_lack_where(&props->location), 0}));
	gm_lock_release(&lock);
}

/* A pool that is not the program's own is the default one of a device. */
static int pool_where(CUmemoryPool handle)
{
	CUmemoryPool preset;
	gm_lock_take(&lock);
	const size_t i = pool_find(handle);
	int where = i < pools.n ? pools.at[i].where : GM_LACK_HERE;
	const bool known = i < pools.n;
	gm_lock_release(&lock);
	for (unsigned d = 0; !known && d < gm_shim_n_devices; d++)
		if (gm_shim_driver.cuDeviceGetDefaultMemPool &&
		    gm_shim_driver.cuDeviceGetDefaultMemPool(&preset, gm_shim_devices[d].handle) ==
			    CUDA_SUCCESS &&
		    preset == handle)
			where = (int)d;
	return where;
}

/* Forget a pool before the driver ends it; a thread may be asking about it. True: it was known. */
static bool pool_forget(CUmemoryPool handle, struct own_pool *out)
{
	for (;;) {
		gm_lock_take(&lock);
		const size_t i = pool_find(handle);
		const bool known = i < pools.n, asked = known && pools.at[i].asked;
		if (known && !asked) {
			*out = pools.at[i];
			pools.at[i] = pools.at[--pools.n];
		}
		gm_lock_release(&lock);
		if (!asked)
			return known;
		sched_yield();
	}
}

static CUresult pool_destroy(CUmemoryPool handle)
{
	struct own_pool pool;
	const bool known = pool_forget(handle, &pool);
	const CUresult result = GM_PASS(real.cuMemPoolDestroy(handle));
	if (result == CUDA_SUCCESS) {
		gm_counter_add(0, GM_C_async_pools_gone, 1);
	} else if (known) {
		gm_lock_take(&lock);
		(void)gm_array_push(&pools, pool);
		gm_lock_release(&lock);
	}
	return result;
}

/* Of the next pool of the device at or behind *i, which `pool_asked` ends. False: there is none. */
static bool pool_ask(unsigned ordinal, size_t *i, CUmemoryPool *handle)
{
	gm_lock_take(&lock);
	while (*i < pools.n && pools.at[*i].where != (int)ordinal)
		++*i;
	const bool found = *i < pools.n;
	if (found) {
		*handle = pools.at[*i].handle;
		pools.at[*i].asked++;
	}
	gm_lock_release(&lock);
	return found;
}

static void pool_asked(CUmemoryPool handle)
{
	gm_lock_take(&lock);
	const size_t i = pool_find(handle);
	if (i < pools.n)
		pools.at[i].asked--;
	gm_lock_release(&lock);
}

/* Call `each` for each pool of the device, without a lock. The default pool has no memory before
 * the first allocation of any. */
static void pools_each(unsigned ordinal, void (*each)(void *arg, CUmemoryPool pool), void *arg)
{
	CUmemoryPool pool;
	if (!gm_counter_get(ordinal, GM_C_foreign_async_calls) ||
	    !gm_shim_driver.cuDeviceGetDefaultMemPool || !gm_shim_driver.cuMemPoolGetAttribute ||
	    !gm_shim_driver.cuMemPoolTrimTo)
		return;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(&gm_shim_driver);
	if (gm_shim_driver.cuDeviceGetDefaultMemPool(&pool, gm_shim_devices[ordinal].handle) ==
	    CUDA_SUCCESS)
		each(arg, pool);
	for (size_t i = 0; pool_ask(ordinal, &i, &pool); i++) {
		each(arg, pool);
		pool_asked(pool);
	}
	gm_driver_quiet_end(&gm_shim_driver, mode);
}

static uint64_t pool_value(CUmemoryPool pool, CUmemPool_attribute attribute)
{
	cuuint64_t bytes = 0;
	return gm_shim_driver.cuMemPoolGetAttribute(pool, attribute, &bytes) == CUDA_SUCCESS ? bytes
											     : 0;
}

/* Reserved and used. Used is read first: it is part of what is reserved then. */
static void pool_add(void *arg, CUmemoryPool pool)
{
	uint64_t *sums = arg;
	sums[1] += pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
	sums[0] += pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}

void gm_async_reserved(unsigned ordinal, struct gm_sample *sample)
{
	uint64_t sums[2] = {0};
	const uint64_t alive = gm_counter_get(ordinal, GM_C_foreign_async);
	pools_each(ordinal, pool_add, sums);
	sample->async = sums[0] + (alive > sums[1] ? alive - sums[1] : 0);
}

struct slack {
	CUmemoryPool of;
	bool known;
};

static void pool_compare(void *arg, CUmemoryPool pool)
{
	struct slack *slack = arg;
	slack->known |= pool == slack->of;
}

/* Bytes of the pool (NULL: the device's current one) that no allocation has; 0: not known, or
 * another thread uses the pool just now. */
static uint64_t pool_slack(unsigned ordinal, CUmemoryPool pool)
{
	struct slack slack = {pool, false};
	uint64_t values[4];
	if (!pool && (!gm_shim_driver.cuDeviceGetMemPool ||
		      gm_shim_driver.cuDeviceGetMemPool(
			      &slack.of, gm_shim_devices[ordinal].handle) != CUDA_SUCCESS))
		return 0;
	pools_each(ordinal, pool_compare, &slack);
	if (!slack.known)
		return 0;
	for (unsigned i = 0; i < 4; i++)
		values[i] = pool_value(slack.of, i % 2 ? CU_MEMPOOL_ATTR_USED_MEM_CURRENT
						       : CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
	const bool still = values[0] == values[2] && values[1] == values[3];
	return still && values[0] > values[1] ? values[0] - values[1] : 0;
}

static void pool_trim(void *arg, CUmemoryPool pool)
{
	(void)arg;
	gm_shim_driver.cuMemPoolTrimTo(pool, 0);
}

static void pools_trim(unsigned ordinal)
{
	pools_each(ordinal, pool_trim, NULL);
}

uint64_t gm_async_reclaim(unsigned ordinal, uint64_t bytes)
{
	(void)bytes;
	return gm_limit_drop(ordinal, pools_trim);
}

void gm_async_forget_all(void)
{
	gm_lock_init(&lock, GM_LOCK_RANK_TABLE);
	pools.at = NULL;
	pools.n = pools.room = 0;
}

/* --- allocations --- */

#define PLAIN(stream) (stream)
#define OWN(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

/* A handler that only counts successful calls. */
#define COUNTS(symbol, parameters, arguments, counter)                      \
	GM_HANDLER(symbol, parameters, arguments, ({                        \
			   CUresult done_ = GM_PASS(real.symbol arguments); \
			   if (done_ == CUDA_SUCCESS)                       \
				   gm_counter_add(0, counter, 1);           \
			   done_;                                           \
		   }))

/* In a captured stream the call has made a node of the graph. */
static void async_add(struct gm_foreign *f, CUdeviceptr at, size_t size, CUstream stream)
{
	f->key = at;
	f->space = GM_SPACE_DEVICE;
	f->size = size;
	if (gm_graph_captured(stream, &f->group))
		f->kind = GM_FOREIGN_GRAPH;
	gm_foreign_add(f);
}

/* Memory of the current pool of the stream's device. */
static void async_from_device(CUdeviceptr at, size_t size, CUstream stream)
{
	const struct gm_context *context = gm_shim_context_of_stream(stream);
	struct gm_foreign f = {.kind = GM_FOREIGN_ASYNC};
	if (!context)
		return;
	f.ordinal = context->ordinal;
	async_add(&f, at, size, stream);
}

/* Memory of a given pool, which may be on another device than the stream, or in host memory. */
static void async_from_pool(CUdeviceptr at, size_t size, CUstream stream)
{
	int ordinal = -1;
	struct gm_foreign f = {.kind = GM_FOREIGN_HOST};
	if (gm_shim_driver.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
						 at) != CUDA_SUCCESS)
		return;
	if (ordinal >= 0 && (unsigned)ordinal < gm_shim_n_devices) {
		f.kind = GM_FOREIGN_ASYNC;
		f.ordinal = (unsigned)ordinal;
	}
	async_add(&f, at, size, stream);
}

/* The device of a stream; GM_LACK_HOST: the driver will refuse the stream. */
static int stream_where(CUstream stream)
{
	const struct gm_context *context = gm_shim_context_of_stream(stream);
	return context ? (int)context->ordinal : GM_LACK_HOST;
}

/* A captured call makes a node of a graph, whose memory is taken by a launch. A call that the
 * driver will refuse is not limited. */
static bool async_begin(CUdeviceptr *out, int where, CUmemoryPool pool, size_t size,
			CUstream stream)
{
	uint64_t group;
	if (!out || !size || stream_where(stream) == GM_LACK_HOST ||
	    gm_graph_capture_refuses(stream))
		return true;
	const uint64_t bytes = gm_graph_captured(stream, &group) ? 0 : size;
	const bool allowed = gm_limit_begin_async(where, pool, bytes, pool_slack);
	if (!allowed)
		*out = 0; /* as the driver does */
	return allowed;
}

#define BY_DEVICE(symbol, own)                                                                  \
	GM_TAKES_WITHIN(symbol, stream_where(own(stream)), size,                                \
			async_begin(out, stream_where(own(stream)), NULL, size, own(stream)),   \
			(CUdeviceptr * out, size_t size, CUstream stream), (out, size, stream), \
			async_from_device(*out, size, own(stream)))
#define BY_POOL(symbol, own)                                                                  \
	GM_TAKES_WITHIN(symbol, pool_where(pool), size,                                       \
			!pool || async_begin(out, pool_where(pool), pool, size, own(stream)), \
			(CUdeviceptr * out, size_t size, CUmemoryPool pool, CUstream stream), \
			(out, size, pool, stream), async_from_pool(*out, size, own(stream)))
BY_DEVICE(cuMemAllocAsync, PLAIN)
BY_DEVICE(cuMemAllocAsync_ptsz, OWN)
BY_POOL(cuMemAllocFromPoolAsync, PLAIN)
BY_POOL(cuMemAllocFromPoolAsync_ptsz, OWN)

/* Memory from a pool outlives the pool. */
GM_TAKES(cuMemPoolCreate, gm_lack_where(&props->location), 0,
	 (CUmemoryPool * pool, const CUmemPoolProps *props), (pool, props), pool_made(*pool, props))
GM_HANDLER(cuMemPoolDestroy, (CUmemoryPool pool), (pool), pool_destroy(pool))
COUNTS(cuMemPoolTrimTo, (CUmemoryPool pool, size_t keep), (pool, keep), GM_C_async_pool_trims)
