/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/remap.h"

#include "pool/grow.h"
#include "pool/headroom.h"
#include "pool/internal.h"

#define MOST 64		/* chunks moved for one request: some 3 ms */
#define MOST_SHORT 1024 /* the same if handles are short (grow.c): some 50 ms */

/* Are there idle chunks to move, unless headroom is better; or (`shed`) at least to return to
 * the driver? */
static bool remap_is_worth(struct gm_pool *pool, struct gm_want want, bool shed)
{
	CUdeviceptr at;
	uint64_t bytes = gm_pool_shortfall(pool, want, &at);
	if (shed)
		return pool->idle_first != NULL;
	return !gm_headroom_suits(pool, want, bytes) &&
	       gm_chunks_any(pool, bytes, at, want.context);
}

/* Releases the pool's lock: the callback may take other locks, and some time. */
static bool remap_is_allowed(struct gm_pool *pool)
{
	const struct gm_pool_config *config = &pool->config;
	if (!config->may_remap)
		return true;
	gm_pool_unlock(pool);
	bool may = config->may_remap(config->may_remap_arg);
	gm_pool_lock(pool);
	return may;
}

/* Does the request fit once it is known what fences cover, and hot extents join idle ones? Drops
 * the lock meanwhile. */
static bool hot_fits(struct gm_pool *pool, struct gm_want want)
{
	gm_hot_cool(pool, false);
	if (gm_alias_is_allowed(pool, want.context))
		gm_hot_join(pool);
	return gm_extents_fit(&pool->extents, want.length, want.align);
}

CUresult gm_pool_remap(struct gm_pool *pool, struct gm_want want, bool shed)
{
	CUdeviceptr at;
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (pool->config.order && hot_fits(pool, want))
		return CUDA_SUCCESS;
	/* While the pool can grow, threads that defer their frees keep their shelves. */
	bool keeps = pool->config.defer && !pool->config.order && !shed;
	if ((!keeps && !gm_pool_can_hold(pool, want.length)) || !remap_is_worth(pool, want, shed) ||
	    !remap_is_allowed(pool))
		return CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t bytes = gm_pool_shortfall(pool, want, &at);
	unsigned most = gm_pool_handles_are_short(pool) ? MOST_SHORT : MOST;
	gm_shelves_empty(pool);
	if (gm_alias_is_allowed(pool, want.context))
		gm_hot_join(pool);
	uint64_t moved = gm_chunks_pick(pool, bytes, most, at, want.context);
	if (!moved && !shed)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct gm_chunk *idle = gm_chunks_detach_picked(pool);
	for (struct gm_chunk *chunk = idle; chunk; chunk = chunk->after)
		bytes -= chunk->size;
	uint64_t room = gm_pool_room(pool);
	if (shed && bytes)
		gm_pool_shed(pool, bytes > room ? bytes - room : bytes);
	return gm_pool_map(pool, at, idle, bytes, gm_pool_piece(pool, bytes));
}
