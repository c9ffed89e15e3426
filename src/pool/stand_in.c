/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stand-in: one granule of memory with the properties of the pool's chunks. While a chunk is
 * away the driver knows nothing of its address, so it is asked about the stand-in.
 */
#include "pool/internal.h"
#include "pool/peer.h"

static CUresult stand_in_make(struct gm_pool *pool, struct gm_chunk *chunk)
{
	const struct gm_driver *driver = pool->driver;
	struct gm_access access;
	gm_pool_lock(pool);
	gm_access_now(pool, false, &access);
	pool->stand_ins += chunk->size;
	gm_pool_unlock(pool);
	CUresult result = driver->cuMemAddressReserve(&chunk->base, chunk->size, 0, 0, 0);
	if (result == CUDA_SUCCESS) {
		result = gm_chunk_create(pool, chunk, &access);
		if (result != CUDA_SUCCESS)
			driver->cuMemAddressFree(chunk->base, chunk->size);
	}
	if (result == CUDA_SUCCESS)
		return result;
	gm_pool_lock(pool);
	pool->stand_ins -= chunk->size;
	gm_pool_unlock(pool);
	return result;
}

static void stand_in_end(struct gm_pool *pool, struct gm_chunk *chunk)
{
	if (gm_chunk_unmap(pool, chunk) == CUDA_SUCCESS)
		pool->driver->cuMemAddressFree(chunk->base, chunk->size);
	gm_chunk_release(pool, chunk);
	gm_pool_lock(pool);
	pool->stand_ins -= chunk->size;
	gm_pool_unlock(pool);
}

CUdeviceptr gm_pool_stand_in(struct gm_pool *pool)
{
	struct gm_chunk chunk = {.size = GM_POOL_GRANULE};
	CUdeviceptr is = atomic_load(&pool->stand_in.base);
	if (is)
		return is;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	if (stand_in_make(pool, &chunk) == CUDA_SUCCESS) {
		if (atomic_compare_exchange_strong(&pool->stand_in.base, &is, chunk.base)) {
			pool->stand_in.handle = chunk.handle;
			is = chunk.base;
		} else { /* another thread was first */
			stand_in_end(pool, &chunk);
		}
	}
	gm_driver_quiet_end(pool->driver, mode);
	return is;
}

void gm_stand_in_close(struct gm_pool *pool)
{
	struct gm_chunk chunk = {.base = atomic_load(&pool->stand_in.base),
				 .size = GM_POOL_GRANULE,
				 .handle = pool->stand_in.handle};
	if (chunk.base)
		stand_in_end(pool, &chunk);
}
