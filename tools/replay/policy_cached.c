/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * PyTorch's cache (policy_torch.c) under the preload: its segments are blocks of the pool
 * (policy_pool.c). Functions of struct gm_driver have no context argument, so the pool and the time
 * are static variables.
 */
#include <stdlib.h>

#include "tools/replay/policy.h"

extern const struct gm_policy gm_policy_pool, gm_policy_torch;

static void *pool;
static uint64_t the_time;

static CUresult segment_alloc(CUdeviceptr *address, size_t size)
{
	struct gm_policy_place place;
	if (!gm_policy_pool.alloc(pool, size, the_time, &place))
		return CUDA_ERROR_OUT_OF_MEMORY;
	*address = place.address;
	return CUDA_SUCCESS;
}

static CUresult segment_free(CUdeviceptr address)
{
	const struct gm_policy_place place = {.address = address};
	gm_policy_pool.free(pool, &place, the_time);
	return CUDA_SUCCESS;
}

static void *cached_open(const struct gm_driver *driver, uint64_t memory, uint64_t limit)
{
	static struct gm_driver preloaded;
	preloaded = *driver;
	preloaded.cuMemAlloc_v2 = segment_alloc;
	preloaded.cuMemFree_v2 = segment_free;
	pool = gm_policy_pool.open(driver, memory, limit);
	return gm_policy_torch.open(&preloaded, memory, limit);
}

static bool cached_alloc(void *state, uint64_t size, uint64_t now, struct gm_policy_place *out)
{
	the_time = now;
	return gm_policy_torch.alloc(state, size, now, out);
}

static void cached_free(void *state, const struct gm_policy_place *place, uint64_t now)
{
	the_time = now;
	gm_policy_torch.free(state, place, now);
}

static void cached_close(void *state)
{
	gm_policy_torch.close(state);
	gm_policy_pool.close(pool);
}

extern const struct gm_policy gm_policy_cached;
const struct gm_policy gm_policy_cached = {"pytorch-pool",
					   true,
					   cached_open,
					   cached_alloc,
					   cached_free,
					   cached_close,
					   "PyTorch's cache, with its segments from gpumem's pool"};
