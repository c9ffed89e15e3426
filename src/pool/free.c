/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Free. Of several threads that free one block, one claims it (gm_piece_claim), under the lock of
 * its own shelf. Then the block is
 *   put on the shelf    no work can use it any more; if it finds no place, into the extents
 *   put into limbo      work may still use it (limbo.h)
 */
#include "pool/free.h"

#include "base/tick.h"
#include "pool/internal.h"
#include "pool/stats.h"
#include "pool/valid.h"

/* Before the block is claimed: may its memory be reused at once? */
enum reuse { REUSE_AT_ONCE, REUSE_LATER };

/* A claimed block may be lost: its context may have ended, and freed it. Under the pool's lock or a
 * shelf's. */
static bool piece_is_claimed(const struct gm_piece *piece, const struct gm_block *block)
{
	return GM_GET(piece->state) == GM_FREEING && GM_GET(piece->id) == block->id;
}

static void piece_unclaim(struct gm_piece *piece)
{
	gm_piece_begin(piece);
	GM_SET(piece->state, GM_LIVE);
	gm_piece_end(piece);
}

CUresult gm_pool_fence(struct gm_pool *pool, uint64_t context, bool native, uint64_t began,
		       enum gm_fenced *fenced, uint64_t *waited)
{
	const struct gm_fence_ops *fences = pool->config.fences;
	*fenced = GM_FENCED_PASSED;
	*waited = 0;
	if (!fences)
		return CUDA_SUCCESS;
	CUresult result = fences->wait(pool->config.fence_arg, context, native, fenced);
	if (result == CUDA_SUCCESS && *fenced == GM_FENCED_PASSED)
		*waited = gm_pool_count_fence(pool, gm_timing_since(began));
	return result;
}

/* The shelf is not ready for blocks of this context. */
static CUresult block_retire_slowly(struct gm_pool *pool, struct gm_shelf *shelf,
				    struct gm_piece *piece, const struct gm_block *block,
				    struct gm_users users)
{
	bool ready = gm_limbo_open(pool, shelf, users.context);
	enum gm_limbo_put put = GM_LIMBO_NONE;
	gm_futex_lock_take(&shelf->lock);
	bool mine = piece_is_claimed(piece, block);
	if (mine && ready)
		put = gm_limbo_put(pool, shelf, piece, users);
	if (mine && put == GM_LIMBO_NONE)
		piece_unclaim(piece);
	gm_futex_lock_release(&shelf->lock);
	if (put == GM_LIMBO_FULL)
		gm_limbo_turn(pool, shelf, users.context);
	if (!mine)
		return CUDA_ERROR_INVALID_VALUE;
	return put == GM_LIMBO_NONE ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

/* The shelf is full, or the block is pinned. */
static CUresult block_release_slowly(struct gm_pool *pool, struct gm_shelf *shelf,
				     struct gm_piece *piece, const struct gm_block *block)
{
	gm_pool_lock(pool);
	bool mine = piece_is_claimed(piece, block);
	if (mine && !gm_shelf_put_making_room(pool, shelf, piece))
		gm_pool_release(pool, piece);
	gm_pool_unlock(pool);
	return mine ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* What `block` says of `piece` was true a moment ago. */
static CUresult block_end(struct gm_pool *pool, struct gm_piece *piece,
			  const struct gm_block *block, enum reuse reuse, struct gm_users users)
{
	struct gm_shelf *shelf = gm_shelf_mine(pool);
	enum gm_limbo_put put = GM_LIMBO_STORED;
	bool shelved = false;
	gm_futex_lock_take(&shelf->lock);
	bool mine = gm_piece_claim(piece, block->id);
	if (mine && reuse == REUSE_LATER)
		put = gm_limbo_put(pool, shelf, piece, users);
	else if (mine)
		shelved = gm_shelf_put(pool, shelf, piece);
	gm_futex_lock_release(&shelf->lock);
	if (!mine)
		return CUDA_ERROR_INVALID_VALUE;
	if (reuse == REUSE_AT_ONCE)
		return shelved ? CUDA_SUCCESS : block_release_slowly(pool, shelf, piece, block);
	if (GM_UNLIKELY(put == GM_LIMBO_NONE))
		return block_retire_slowly(pool, shelf, piece, block, users);
	if (put == GM_LIMBO_FULL)
		gm_limbo_turn(pool, shelf, users.context);
	return CUDA_SUCCESS;
}

static bool context_is_idle(const struct gm_pool *pool, uint64_t context)
{
	const struct gm_pool_config *config = &pool->config;
	return config->fences->is_idle && config->fences->is_idle(config->fence_arg, context);
}

/* Wait for the owner context first. On an idle GPU that is a question, which costs all frees alike:
 * it is not worth a reading of the clock before and after. */
static CUresult block_wait_and_end(struct gm_pool *pool, struct gm_piece *piece,
				   struct gm_block *block, struct gm_timing call)
{
	enum gm_fenced fenced = GM_FENCED_PASSED;
	uint64_t number = gm_limbo_number(pool);
	const struct gm_users owner = {block->context, GM_STREAM_ANY};
	CUresult result = CUDA_SUCCESS;
	if (GM_LIKELY(context_is_idle(pool, block->context))) {
		block->waited = gm_pool_count_fence(pool, call);
	} else {
		block->since = call.start ? call.start : gm_tick();
		result = gm_pool_fence(pool, block->context, true, block->since, &fenced,
				       &block->waited);
	}
	if (result != CUDA_SUCCESS)
		return result;
	if (fenced == GM_FENCED_LATER)
		return block_end(pool, piece, block, REUSE_LATER, owner);
	result = block_end(pool, piece, block, REUSE_AT_ONCE, owner);
	gm_limbo_passed(pool, block->context, number);
	return result;
}

/* Native errors come at once, the wait comes later. A block that few others would share an event
 * with is reused at once if the GPU is idle: to ask costs less than an event. */
static CUresult block_defer_end(struct gm_pool *pool, struct gm_piece *piece,
				const struct gm_block *block)
{
	const struct gm_fence_ops *fences = pool->config.fences;
	const struct gm_users owner = {block->context, GM_STREAM_ANY};
	CUresult result = CUDA_SUCCESS;
	if (!fences->is_quiet || !fences->is_quiet())
		result = fences->ask(pool->config.fence_arg, block->context);
	if (result != CUDA_SUCCESS)
		return result;
	if (GM_LIKELY(!gm_limbo_is_large(pool, block->held)))
		return block_end(pool, piece, block, REUSE_LATER, owner);
	uint64_t number = gm_limbo_number(pool);
	if (!context_is_idle(pool, block->context))
		return block_end(pool, piece, block, REUSE_LATER, owner);
	result = block_end(pool, piece, block, REUSE_AT_ONCE, owner);
	gm_limbo_passed(pool, block->context, number);
	return result;
}

CUresult gm_pool_free(struct gm_pool *pool, CUdeviceptr address, const struct gm_free *how,
		      struct gm_block *out)
{
	struct gm_block own, *block = out ? out : &own;
	struct gm_free plain = {.after = GM_FREE_AFTER_OWNER};
	if (!how) {
		plain.call = gm_timing_since(gm_tick());
		how = &plain;
	}
	if (!gm_pool_reserves(pool, address))
		return CUDA_ERROR_INVALID_VALUE;
	struct gm_piece *piece = gm_table_read(&pool->table, address, block);
	block->ordinal = pool->config.ordinal;
	if (!piece || block->base != address || (how->id && how->id != block->id))
		return CUDA_ERROR_INVALID_VALUE;
	gm_pool_debug_visit(pool);
	block->since = block->waited = 0;
	CUresult result;
	const struct gm_users owner = {block->context, GM_STREAM_ANY};
	GM_ASSERT(how->after != GM_FREE_AFTER_USERS || pool->config.defer);
	if (how->after == GM_FREE_AFTER_USERS)
		result = block_end(pool, piece, block, REUSE_LATER, how->users);
	else if (how->after == GM_FREE_AFTER_NOTHING || !pool->config.fences)
		result = block_end(pool, piece, block, REUSE_AT_ONCE, owner);
	else if (pool->config.defer)
		result = block_defer_end(pool, piece, block);
	else
		result = block_wait_and_end(pool, piece, block, how->call);
	gm_pool_debug_visit(pool);
	return result;
}

uint64_t gm_pool_drain(struct gm_pool *pool)
{
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	uint64_t bytes = gm_limbo_drain(pool);
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	return bytes;
}
