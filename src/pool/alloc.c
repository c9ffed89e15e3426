/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocation from idle memory; where there is none, the ladder is climbed. */
#include "pool/internal.h"

static struct gm_want want_extent(uint64_t size)
{
	uint64_t step = size < GM_POOL_BIG ? GM_SLAB_LEAST_SLOT : GM_POOL_BIG_STEP;
	uint64_t length = gm_round_up(size, step);
	if (length < GM_EXTENT_LEAST)
		length = GM_EXTENT_LEAST;
	return (struct gm_want){length, gm_pool_align_of(length)};
}

struct gm_want gm_pool_want(uint64_t size)
{
	if (size > GM_SLAB_LARGEST)
		return want_extent(size);
	uint64_t length = gm_slab_length(gm_slab_class(size));
	return (struct gm_want){length, length};
}

/* Idle memory for `size` bytes as an extent, however small the size is. */
static struct gm_piece *take_extent(struct gm_pool *pool, uint64_t size)
{
	struct gm_want want = want_extent(size);
	if (!gm_extents_reserve(&pool->extents, 2))
		return NULL;
	struct gm_extent *extent = gm_extent_take(&pool->extents, want.length, want.align);
	if (!extent)
		return NULL;
	gm_extent_use(&pool->extents, extent, GM_SHELVED, NULL); /* until hand_out says whose */
	return &extent->piece;
}

static struct gm_piece *take_slot(struct gm_pool *pool, uint64_t size)
{
	unsigned class = gm_slab_class(size);
	struct gm_piece *piece = gm_slab_take(&pool->slabs, class);
	if (piece || !gm_extents_reserve(&pool->extents, 2))
		return piece;
	return gm_slab_make(&pool->slabs, class) ? gm_slab_take(&pool->slabs, class) : NULL;
}

struct gm_piece *gm_pool_take(struct gm_pool *pool, uint64_t size)
{
	return size <= GM_SLAB_LARGEST ? take_slot(pool, size) : take_extent(pool, size);
}

struct gm_piece *gm_pool_take_any(struct gm_pool *pool, uint64_t size)
{
	struct gm_piece *piece = NULL;
	if (size > GM_SLAB_LARGEST)
		return NULL;
	for (unsigned c = gm_slab_class(size); c < GM_SLAB_CLASSES && !piece; c++)
		piece = gm_slab_take(&pool->slabs, c);
	return piece ? piece : take_extent(pool, size);
}

/* What a block of `size` bytes will hold where there is memory for it. */
static uint64_t held_for(uint64_t size)
{
	if (size <= GM_SLAB_LARGEST)
		return gm_slab_slot(gm_slab_class(size));
	return want_extent(size).length;
}

/* A piece that is in no list becomes the block. */
static void hand_out(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_piece *piece,
		     uint64_t size, uint64_t context)
{
	gm_pool_count_live(pool, shelf, size, GM_GET(piece->held));
	gm_quick_take(&shelf->lock);
	uint64_t id = gm_shelf_next_id(shelf);
	gm_quick_release(&shelf->lock);
	gm_piece_hand_out(piece, size, id, context);
}

/* What came back to the shelf; before there is new memory for it (`must`), what may do so is asked
 * for, if it was not just now. */
static struct gm_piece *find_on_shelf(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size,
				      uint64_t context, bool must, bool *asked)
{
	*asked = gm_retired_miss(pool, shelf, context, must);
	return gm_shelf_take(pool, shelf, size, held_for(size));
}

/* A shelved block, idle memory, or more memory. */
static CUresult find(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size, uint64_t context,
		     struct gm_piece **piece)
{
	CUresult result = CUDA_SUCCESS;
	bool asked;
	*piece = find_on_shelf(pool, shelf, size, context, false, &asked);
	if (*piece)
		return CUDA_SUCCESS;
	if (size >= GM_POOL_BIG)
		gm_shelf_empty_row(pool, shelf);
	*piece = gm_pool_take(pool, size);
	if (GM_UNLIKELY(!*piece) && !asked) {
		*piece = find_on_shelf(pool, shelf, size, context, true, &asked);
		if (*piece)
			return CUDA_SUCCESS;
	}
	if (GM_UNLIKELY(!*piece))
		result = gm_pool_climb(pool, size, piece);
	if (*piece) {
		gm_chunk_use(pool, GM_GET((*piece)->base), GM_GET((*piece)->held));
		gm_shelf_refill(pool, shelf, size);
	}
	return result;
}

CUresult gm_pool_alloc(struct gm_pool *pool, size_t size, uint64_t context, struct gm_block *out)
{
	struct gm_piece *piece;
	out->since = 0;
	if (size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (size > pool->memory || size > pool->config.limit)
		return CUDA_ERROR_OUT_OF_MEMORY;
	gm_pool_debug_visit(pool);
	struct gm_shelf *shelf = gm_shelf_mine(pool);
	if (GM_LIKELY(gm_shelf_alloc(pool, shelf, size, held_for(size), context, out))) {
		gm_pool_debug_visit(pool);
		return CUDA_SUCCESS;
	}
	uint64_t since = gm_tick();
	gm_pool_lock(pool);
	CUresult result = find(pool, shelf, size, context, &piece);
	if (piece) {
		hand_out(pool, shelf, piece, size, context);
		gm_piece_copy(piece, pool->config.ordinal, out);
	}
	out->since = since;
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	return result;
}
