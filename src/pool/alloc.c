/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocation. The first place that has a block of the size wins:
 *
 *     1  a shelf                              the shelf's lock; the warm path
 *     2  limbo: blocks that may have passed   no lock; then 1 again
 *     3  idle memory                          the pool's lock
 *     4  limbo, if 2 polled no event, or      no lock; then 1 again
 *        too much is retired
 *     5  the ladder                           the pool's lock, released meanwhile
 */
#include "base/tick.h"
#include "pool/fit.h"
#include "pool/internal.h"
#include "pool/ladder.h"
#include "pool/patience.h"
#include "pool/stats.h"
#include "pool/valid.h"

/* The bytes that a block of `size` bytes holds, except from gm_pool_take_any, the last resort. */
static uint64_t size_held(uint64_t size)
{
	if (size <= GM_SLAB_LARGEST)
		return gm_slab_slot(gm_slab_class(size));
	return gm_pool_extent_length(size);
}

/* Make a piece that is in no list the block. */
static void block_hand_out(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_piece *piece,
			   uint64_t size, uint64_t context)
{
	gm_pool_count_live(pool, shelf, size, GM_GET(piece->held));
	gm_futex_lock_take(&shelf->lock);
	uint64_t id = gm_shelf_next_id(shelf);
	gm_futex_lock_release(&shelf->lock);
	gm_piece_hand_out(piece, size, id, context);
}

/* A place for an allocation, beside the caller's shelf. */
struct search {
	struct gm_shelf *shelf;
	uint64_t size, held, context;
	bool polled; /* events were polled for it */
};

/* Place 1. */
static struct gm_piece *shelf_find(struct gm_pool *pool, const struct search *s)
{
	struct gm_piece *piece = gm_shelf_take(pool, s->shelf, s->size, s->held, s->context);
	if (!piece && s->size >= GM_POOL_BIG)
		gm_shelf_empty_row(pool, s->shelf);
	return piece;
}

/* Places 1 and 3 to 5. The pool's lock is held, and released meanwhile. */
static CUresult piece_find(struct gm_pool *pool, struct search *s, struct gm_piece **piece)
{
	CUresult result = CUDA_SUCCESS;
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	do {
		*piece = shelf_find(pool, s);
		if (*piece)
			return CUDA_SUCCESS;
		*piece = gm_pool_take(pool, s->size);
		if (GM_UNLIKELY(!*piece) && (!s->polled || gm_patience_is_needed(pool))) {
			gm_pool_unlock(pool);
			gm_limbo_miss(pool, s->shelf, s->context, true);
			gm_pool_lock(pool);
			*piece = shelf_find(pool, s);
			if (*piece)
				return CUDA_SUCCESS;
			*piece = gm_pool_take(pool, s->size);
		}
		if (GM_UNLIKELY(!*piece))
			result = gm_pool_climb(pool, s->size, s->context, piece);
		if (!*piece)
			return result;
		gm_chunk_use(pool, GM_GET((*piece)->base), GM_GET((*piece)->held));
	} while (GM_UNLIKELY(!gm_hot_suits(pool, &pool->extents.hot, *piece, s->context)));
	gm_shelf_refill(pool, s->shelf, s->size);
	return CUDA_SUCCESS;
}

/* The caller's shelf has no block of that size, or the block would make a new peak. A function of
 * its own, so that the warm path saves few registers. */
static __attribute__((noinline)) CUresult alloc_slowly(struct gm_pool *pool, struct gm_shelf *shelf,
						       size_t size, uint64_t held, uint64_t context,
						       struct gm_block *out)
{
	struct gm_piece *piece;
	uint64_t since = gm_tick();
	struct search search = {shelf, size, held, context, false};
	if (GM_GET(shelf->retired)) {
		search.polled = gm_limbo_miss(pool, shelf, context, false);
		if (gm_shelf_alloc(pool, shelf, size, held, context, out)) {
			out->since = since;
			return CUDA_SUCCESS;
		}
	}
	if (GM_UNLIKELY(GM_GET(pool->stranded)))
		gm_epochs_ask(pool);
	gm_pool_lock(pool);
	CUresult result = piece_find(pool, &search, &piece);
	if (piece) {
		block_hand_out(pool, shelf, piece, size, context);
		gm_piece_copy(piece, pool->config.ordinal, out);
	}
	out->since = since;
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	return result;
}

CUresult gm_pool_alloc(struct gm_pool *pool, size_t size, uint64_t context, struct gm_block *out)
{
	out->since = 0;
	if (size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (size > pool->memory || size > pool->config.limit)
		return CUDA_ERROR_OUT_OF_MEMORY;
	gm_pool_debug_visit(pool);
	struct gm_shelf *shelf = gm_shelf_mine(pool);
	uint64_t held = size_held(size);
	CUresult result = CUDA_SUCCESS;
	if (GM_UNLIKELY(!gm_shelf_alloc(pool, shelf, size, held, context, out)))
		result = alloc_slowly(pool, shelf, size, held, context, out);
	gm_pool_debug_visit(pool);
	return result;
}
