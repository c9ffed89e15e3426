/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Free. Of several threads that free one block, one claims it (gm_piece_claim), under the lock of
 * its own shelf. Then the block is
 *   put on the shelf    no work can use it any more; without room there, into the extents
 *   put into limbo      work may still use it (limbo.h)
 */
#include "pool/free.h"

#include "base/tick.h"
#include "pool/internal.h"
#include "pool/stats.h"
#include "pool/vacant.h"
#include "pool/valid.h"

/* A thread may lose its claim: the block's context may have ended, which freed the block. Under the
 * pool's lock or a shelf's. */
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

/* Retire a block for which the shelf has no bag of its context. *stored: false if the shelf has no
 * bag left; the block is live then. */
static CUresult block_retire_slowly(struct gm_pool *pool, struct gm_shelf *shelf,
				    struct gm_piece *piece, const struct gm_block *block,
				    uint64_t users, bool *stored)
{
	bool ready = gm_limbo_open(pool, shelf, users);
	enum gm_limbo_put put = GM_LIMBO_NONE;
	gm_futex_lock_take(&shelf->lock);
	bool mine = piece_is_claimed(piece, block);
	if (mine && ready)
		put = gm_limbo_put(pool, shelf, piece, users);
	if (mine && put == GM_LIMBO_NONE)
		piece_unclaim(piece);
	gm_futex_lock_release(&shelf->lock);
	if (put == GM_LIMBO_FULL)
		gm_limbo_turn(pool, shelf, users);
	*stored = put != GM_LIMBO_NONE;
	return mine ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Free a block that is pinned, or finds the shelf full. */
static CUresult block_release_slowly(struct gm_pool *pool, struct gm_shelf *shelf,
				     struct gm_piece *piece, const struct gm_block *block,
				     const struct gm_heat *heat)
{
	gm_pool_lock(pool);
	bool mine = piece_is_claimed(piece, block);
	if (mine && !gm_shelf_put_making_room(pool, shelf, piece, heat))
		gm_pool_release(pool, piece, heat);
	gm_pool_unlock(pool);
	return mine ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Free a block for reuse at once, when no work can use it any more. `block`: a recent copy of
 * `piece`. */
static CUresult block_reuse(struct gm_pool *pool, struct gm_piece *piece,
			    const struct gm_block *block)
{
	struct gm_shelf *shelf = gm_shelf_mine(pool);
	gm_futex_lock_take(&shelf->lock);
	bool mine = gm_piece_claim(piece, block->id);
	bool shelved = mine && gm_shelf_put(pool, shelf, piece, NULL);
	gm_futex_lock_release(&shelf->lock);
	if (GM_LIKELY(shelved))
		return CUDA_SUCCESS;
	return mine ? block_release_slowly(pool, shelf, piece, block, NULL)
		    : CUDA_ERROR_INVALID_VALUE;
}

/* Free a block for which no bag is left: wait for the context of its users. While a wait is
 * impossible (fence_ops.h), CUDA_ERROR_OUT_OF_MEMORY, and the block stays live. */
static CUresult block_wait_and_reuse(struct gm_pool *pool, struct gm_piece *piece,
				     const struct gm_block *block, uint64_t context)
{
	enum gm_fenced fenced;
	uint64_t waited, number = gm_limbo_number(pool);
	CUresult result = gm_pool_fence(pool, context, false, gm_tick(), &fenced, &waited);
	if (result != CUDA_SUCCESS)
		return result;
	if (fenced == GM_FENCED_LATER)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = block_reuse(pool, piece, block);
	gm_limbo_passed(pool, context, number);
	return result;
}

/* Free a block for reuse after the work of `users`. `block`: a recent copy of `piece`. */
static CUresult block_retire(struct gm_pool *pool, struct gm_piece *piece,
			     const struct gm_block *block, uint64_t users)
{
	struct gm_shelf *shelf = gm_shelf_mine(pool);
	enum gm_limbo_put put = GM_LIMBO_STORED;
	bool stored;
	gm_futex_lock_take(&shelf->lock);
	bool mine = gm_piece_claim(piece, block->id);
	if (GM_LIKELY(mine))
		put = gm_limbo_put(pool, shelf, piece, users);
	gm_futex_lock_release(&shelf->lock);
	if (GM_LIKELY(mine && put == GM_LIMBO_STORED))
		return CUDA_SUCCESS;
	if (!mine)
		return CUDA_ERROR_INVALID_VALUE;
	if (put == GM_LIMBO_FULL) {
		gm_limbo_turn(pool, shelf, users);
		return CUDA_SUCCESS;
	}
	CUresult result = block_retire_slowly(pool, shelf, piece, block, users, &stored);
	if (result != CUDA_SUCCESS || stored)
		return result;
	return block_wait_and_reuse(pool, piece, block, users);
}

static bool context_is_idle(const struct gm_pool *pool, uint64_t context)
{
	const struct gm_pool_config *config = &pool->config;
	return config->fences->is_idle && config->fences->is_idle(config->fence_arg, context);
}

/* Wait for the owner context first. On an idle GPU the wait is one poll, of equal cost for all
 * frees: it is not worth reading the clock before and after. */
static CUresult block_wait_and_end(struct gm_pool *pool, struct gm_piece *piece,
				   struct gm_block *block, struct gm_timing call)
{
	enum gm_fenced fenced = GM_FENCED_PASSED;
	uint64_t number = gm_limbo_number(pool);
	const uint64_t owner = block->context;
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
		return block_retire(pool, piece, block, owner);
	result = block_reuse(pool, piece, block);
	gm_limbo_passed(pool, block->context, number);
	return result;
}

/* May the block be reused at once, because one stream alone has unfinished work, in the run *run?
 * Counts the reason. */
static bool block_is_ordered(struct gm_pool *pool, const struct gm_piece *piece,
			     const struct gm_block *block, uint64_t *run)
{
	static const enum gm_counter counters[GM_ORDER_FREES] = {
		[GM_ORDER_EARLY] = GM_C_ordered_early,
		[GM_ORDER_STREAMS] = GM_C_ordered_streams,
		[GM_ORDER_CAPTURE] = GM_C_ordered_capture,
		[GM_ORDER_CONTEXT] = GM_C_ordered_context,
		[GM_ORDER_PINNED] = GM_C_ordered_pinned,
		[GM_ORDER_OFF] = GM_C_ordered_off,
	};
	enum gm_order_free why =
		piece->pinned ? GM_ORDER_PINNED : pool->config.order->free(block->context, run);
	gm_counter_add(pool->config.ordinal, counters[why], 1);
	return why == GM_ORDER_EARLY;
}

static inline bool block_is_early(struct gm_pool *pool, const struct gm_piece *piece,
				  const struct gm_block *block, uint64_t *run)
{
	if (pool->config.order)
		return block_is_ordered(pool, piece, block, run);
	if (GM_UNLIKELY(pool->config.unordered))
		gm_counter_add(pool->config.ordinal, GM_C_ordered_off, 1);
	return false;
}

/* Free a block for reuse in this run, by the work of its one stream; 0: no work is left. */
static CUresult block_reuse_early(struct gm_pool *pool, struct gm_piece *piece,
				  const struct gm_block *block, uint64_t run)
{
	struct gm_shelf *shelf = gm_shelf_mine(pool);
	struct gm_heat heat = {NULL, run, run ? gm_hot_stamp(pool) : 0};
	bool ready, mine = false, shelved = false;
	if (!run)
		return block_reuse(pool, piece, block);
	do {
		gm_futex_lock_take(&shelf->lock);
		heat.epoch = shelf->limbo.epoch;
		ready = heat.epoch && heat.epoch->context == block->context;
		mine = ready && gm_piece_claim(piece, block->id);
		shelved = mine && gm_shelf_put(pool, shelf, piece, &heat);
		gm_futex_lock_release(&shelf->lock);
	} while (GM_UNLIKELY(!ready) && gm_limbo_open(pool, shelf, block->context));
	if (GM_LIKELY(shelved))
		return CUDA_SUCCESS;
	if (!ready) /* no host memory, or no bag */
		return block_retire(pool, piece, block, block->context);
	return mine ? block_release_slowly(pool, shelf, piece, block, &heat)
		    : CUDA_ERROR_INVALID_VALUE;
}

/* The program has ordered all uses of the block before work in the context `users`. That says
 * nothing of work from before the block was handed out: work of the block's own context. */
static CUresult block_free_after_users(struct gm_pool *pool, struct gm_piece *piece,
				       const struct gm_block *block, uint64_t users)
{
	uint64_t run = 0;
	if (block_is_early(pool, piece, block, &run))
		return block_reuse_early(pool, piece, block, run);
	if (users != block->context && gm_hot_is_pending(pool, block->context, piece->stamp))
		gm_hot_await(pool);
	return block_retire(pool, piece, block, users);
}

/* The caller has waited for all uses of the block. */
static CUresult block_free_unused(struct gm_pool *pool, struct gm_piece *piece,
				  const struct gm_block *block)
{
	if (pool->config.order && gm_hot_is_pending(pool, block->context, piece->stamp))
		return block_free_after_users(pool, piece, block, block->context);
	return block_reuse(pool, piece, block);
}

/* Native errors are reported at once, the wait is deferred. If few other blocks would share an
 * event with this one, it is reused at once on an idle GPU: a poll costs less than an event. */
static CUresult block_defer_end(struct gm_pool *pool, struct gm_piece *piece,
				const struct gm_block *block)
{
	const struct gm_fence_ops *fences = pool->config.fences;
	const uint64_t owner = block->context;
	CUresult result = CUDA_SUCCESS;
	uint64_t run = 0;
	if (!fences->is_quiet || !fences->is_quiet())
		result = fences->ask(pool->config.fence_arg, block->context);
	if (result != CUDA_SUCCESS)
		return result;
	if (block_is_early(pool, piece, block, &run))
		return block_reuse_early(pool, piece, block, run);
	if (GM_LIKELY(block->held <= pool->small) || !gm_limbo_is_large(pool, block->held))
		return block_retire(pool, piece, block, owner);
	uint64_t number = gm_limbo_number(pool);
	if (!context_is_idle(pool, block->context))
		return block_retire(pool, piece, block, owner);
	result = block_reuse(pool, piece, block);
	gm_limbo_passed(pool, block->context, number);
	return result;
}

/* For NULL as `how` or `out`. A function of its own, so that a free of the program saves few
 * registers. */
static __attribute__((noinline)) CUresult free_plain(struct gm_pool *pool, CUdeviceptr address,
						     const struct gm_free *how,
						     struct gm_block *out)
{
	struct gm_block block;
	struct gm_free plain = {.after = GM_FREE_AFTER_OWNER};
	if (!how)
		plain.call = gm_timing_since(gm_tick());
	return gm_pool_free(pool, address, how ? how : &plain, out ? out : &block);
}

/* A block with vacant places: wait for its work, as natively, however frees are done otherwise.
 * While that is impossible, or host memory is out, the places get memory again. */
static CUresult block_end_vacant(struct gm_pool *pool, struct gm_piece *piece,
				 struct gm_block *block, const struct gm_free *how)
{
	enum gm_fenced fenced = GM_FENCED_PASSED;
	uint64_t number = gm_limbo_number(pool);
	struct gm_shelf *shelf = gm_shelf_mine(pool);
	bool waits = how->after != GM_FREE_AFTER_NOTHING && pool->config.fences;
	uint64_t users = how->after == GM_FREE_AFTER_USERS ? how->users : block->context;
	CUresult result = CUDA_SUCCESS;
	if (pool->config.order && gm_hot_is_pending(pool, block->context, piece->stamp))
		gm_hot_await(pool);
	if (waits)
		result = gm_pool_fence(pool, users, !pool->config.defer, gm_tick(), &fenced,
				       &block->waited);
	if (result != CUDA_SUCCESS)
		return result;
	if (fenced == GM_FENCED_LATER)
		return CUDA_ERROR_OUT_OF_MEMORY;
	gm_futex_lock_take(&shelf->lock);
	bool mine = gm_piece_claim(piece, block->id);
	gm_futex_lock_release(&shelf->lock);
	if (!mine)
		return CUDA_ERROR_INVALID_VALUE;
	if (!gm_vacant_end(pool, piece)) {
		piece_unclaim(piece);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (waits)
		gm_limbo_passed(pool, users, number);
	return CUDA_SUCCESS;
}

CUresult gm_pool_free(struct gm_pool *pool, CUdeviceptr address, const struct gm_free *how,
		      struct gm_block *block)
{
	if (GM_UNLIKELY(!how || !block))
		return free_plain(pool, address, how, block);
	if (!gm_pool_has(pool, address))
		return CUDA_ERROR_INVALID_VALUE;
	struct gm_piece *piece = gm_table_read(&pool->table, address, block);
	block->ordinal = pool->config.ordinal;
	if (!piece || block->base != address || (how->id && how->id != block->id))
		return CUDA_ERROR_INVALID_VALUE;
	gm_pool_debug_visit(pool);
	block->since = block->waited = 0;
	CUresult result;
	GM_ASSERT(how->after != GM_FREE_AFTER_USERS || pool->config.defer);
	if (GM_UNLIKELY(GM_GET(pool->vacant)) && gm_vacant_has(pool, block)) {
		result = block_end_vacant(pool, piece, block, how);
		if (result != CUDA_ERROR_OUT_OF_MEMORY)
			return result;
		result = gm_pool_occupy(pool, block->base, block->held);
		if (result != CUDA_SUCCESS)
			return result;
		if (gm_vacant_has(pool, block)) /* memory of the host, which may be in use */
			return CUDA_ERROR_NOT_READY;
	}
	if (how->after == GM_FREE_AFTER_USERS)
		result = block_free_after_users(pool, piece, block, how->users);
	else if (how->after == GM_FREE_AFTER_NOTHING || !pool->config.fences)
		result = block_free_unused(pool, piece, block);
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
