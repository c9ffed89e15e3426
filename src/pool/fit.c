/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/fit.h"

#include "pool/internal.h"

static struct gm_want extent_want(uint64_t size, uint64_t context)
{
	uint64_t length = gm_pool_extent_length(size);
	return (struct gm_want){length, gm_pool_align_of(length), context};
}

struct gm_want gm_pool_want(const struct gm_pool *pool, uint64_t size, uint64_t context)
{
	if (size > GM_SLAB_LARGEST)
		return extent_want(size, context);
	uint64_t length = gm_slab_length(&pool->slabs, gm_slab_class(size));
	return (struct gm_want){length, length, context};
}

/* An extent for `size` bytes, even for a small size. */
static struct gm_piece *extent_take(struct gm_pool *pool, uint64_t size)
{
	struct gm_want want = extent_want(size, 0);
	if (!gm_extents_reserve(&pool->extents, 2))
		return NULL;
	struct gm_extent *extent = gm_extent_take(&pool->extents, want.length, want.align);
	if (!extent)
		return NULL;
	gm_extent_use(&pool->extents, extent, GM_SHELVED, NULL); /* until it is handed out */
	return &extent->piece;
}

static struct gm_piece *slot_take(struct gm_pool *pool, uint64_t size)
{
	unsigned class = gm_slab_class(size);
	struct gm_piece *piece = gm_slab_take(&pool->slabs, class);
	if (piece || !gm_extents_reserve(&pool->extents, 2))
		return piece;
	return gm_slab_make(&pool->slabs, class) ? gm_slab_take(&pool->slabs, class) : NULL;
}

static struct gm_piece *piece_take(struct gm_pool *pool, uint64_t size)
{
	return size <= GM_SLAB_LARGEST ? slot_take(pool, size) : extent_take(pool, size);
}

/* Any place for a small size. */
static struct gm_piece *piece_take_any(struct gm_pool *pool, uint64_t size)
{
	struct gm_piece *piece = NULL;
	if (size > GM_SLAB_LARGEST)
		return NULL;
	for (unsigned c = gm_slab_class(size); c < GM_SLAB_CLASSES && !piece; c++)
		piece = gm_slab_take(&pool->slabs, c);
	return piece ? piece : extent_take(pool, size);
}

/* Take a piece that may be handed out: idle, or hot while its run goes on. */
static struct gm_piece *usable_take(struct gm_pool *pool, uint64_t size,
				    struct gm_piece *(*take)(struct gm_pool *pool, uint64_t size))
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (GM_UNLIKELY(GM_GET(pool->stranded)))
		gm_hot_return(pool);
	while (true) {
		gm_hot_strand_extents(pool);
		struct gm_piece *piece = take(pool, size);
		if (!piece && gm_hot_join(pool))
			piece = take(pool, size);
		if (!piece || GM_LIKELY(!piece->stamp) ||
		    gm_hot_take(pool, &pool->extents.hot, piece))
			return piece;
		gm_chunk_use(pool, GM_GET(piece->base), GM_GET(piece->held)); /* it is stranded */
	}
}

struct gm_piece *gm_pool_take(struct gm_pool *pool, uint64_t size)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	return usable_take(pool, size, piece_take);
}

struct gm_piece *gm_pool_take_any(struct gm_pool *pool, uint64_t size)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	return usable_take(pool, size, piece_take_any);
}
