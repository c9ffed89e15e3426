/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocation: idle memory, or a ladder of ways to come by more. */
#include "pool/internal.h"

/* Unique in the process, over all pools. */
static uint64_t next_id(void)
{
	static _Atomic uint64_t last;
	return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

/* What a block takes of the idle extents: itself, or a slab for it. */
struct want {
	uint64_t length, align;
};

static struct want want_extent(uint64_t size)
{
	uint64_t step = size < GM_POOL_BIG ? GM_SLAB_LEAST_SLOT : GM_POOL_BIG_STEP;
	uint64_t length = gm_round_up(size, step);
	if (length < GM_EXTENT_LEAST)
		length = GM_EXTENT_LEAST;
	return (struct want){length, gm_pool_align_of(length)};
}

static struct want want_for(uint64_t size)
{
	if (size <= GM_SLAB_LARGEST)
		return (struct want){GM_POOL_GRANULE, GM_POOL_GRANULE};
	return want_extent(size);
}

/* Idle memory for `size` bytes as an extent, however small the size is. */
static struct gm_piece *take_extent(struct gm_pool *pool, uint64_t size)
{
	struct want want = want_extent(size);
	if (!gm_extents_reserve(&pool->extents, 2))
		return NULL;
	struct gm_extent *extent = gm_extent_take(&pool->extents, want.length, want.align);
	if (!extent)
		return NULL;
	gm_extent_use(&pool->extents, extent, GM_LIVE, NULL); /* hand_out says whose */
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

static struct gm_piece *take(struct gm_pool *pool, uint64_t size)
{
	return size <= GM_SLAB_LARGEST ? take_slot(pool, size) : take_extent(pool, size);
}

/* Where no slab can be cut any more: a slot of a larger class, or an extent. */
static struct gm_piece *take_any(struct gm_pool *pool, uint64_t size)
{
	struct gm_piece *piece = NULL;
	if (size > GM_SLAB_LARGEST)
		return NULL;
	for (unsigned c = gm_slab_class(size); c < GM_SLAB_CLASSES && !piece; c++)
		piece = gm_slab_take(&pool->slabs, c);
	return piece ? piece : take_extent(pool, size);
}

/* --- the ladder; a step answers SUCCESS when there may be idle memory now --- */

static CUresult flush(struct gm_pool *pool, struct want want)
{
	(void)want;
	return gm_slabs_flush(&pool->slabs) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult grow(struct gm_pool *pool, struct want want)
{
	CUdeviceptr at;
	uint64_t bytes = gm_pool_shortfall(pool, want.length, want.align, &at);
	if (want.length <= GM_POOL_CHUNK) /* a chunk is enough wherever it lies */
		return gm_pool_map(pool, 0, GM_POOL_CHUNK, UINT64_MAX);
	return gm_pool_map(pool, at, bytes < GM_POOL_CHUNK ? GM_POOL_CHUNK : bytes, UINT64_MAX);
}

static CUresult grow_less(struct gm_pool *pool, struct want want)
{
	CUdeviceptr at;
	uint64_t bytes = gm_pool_shortfall(pool, want.length, want.align, &at);
	return bytes < GM_POOL_CHUNK ? gm_pool_map(pool, at, bytes, UINT64_MAX)
				     : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult grow_in_pieces(struct gm_pool *pool, struct want want)
{
	CUdeviceptr at;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t bytes = gm_pool_shortfall(pool, want.length, want.align, &at);
	for (unsigned n = 4; n <= 16 && result == CUDA_ERROR_OUT_OF_MEMORY; n *= 4) {
		uint64_t piece = gm_round_up(bytes / n, GM_POOL_GRANULE);
		if (piece && piece < bytes)
			result = gm_pool_map(pool, at, bytes, piece);
	}
	return result;
}

/* Give `bytes` of idle chunks back and grow by no more than needed. Only if that can help: a
 * program that probes for memory keeps its own. */
static CUresult exchange(struct gm_pool *pool, struct want want, uint64_t bytes)
{
	CUdeviceptr at;
	uint64_t most = pool->config.limit < pool->memory ? pool->config.limit : pool->memory;
	uint64_t kept = pool->handed_out + pool->retired + pool->lent;
	if (kept > most || want.length > most - kept || !gm_pool_shed(pool, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	bytes = gm_pool_shortfall(pool, want.length, want.align, &at);
	CUresult result = gm_pool_map(pool, at, bytes, UINT64_MAX);
	return result == CUDA_ERROR_OUT_OF_MEMORY ? grow_in_pieces(pool, want) : result;
}

static CUresult exchange_some(struct gm_pool *pool, struct want want)
{
	return exchange(pool, want, want.length);
}

static CUresult exchange_all(struct gm_pool *pool, struct want want)
{
	return exchange(pool, want, UINT64_MAX);
}

static CUresult settle(struct gm_pool *pool, struct want want)
{
	(void)want;
	gm_pool_unlock(pool);
	uint64_t settled = gm_pool_settle(pool);
	gm_pool_lock(pool);
	return settled ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult climb_once(struct gm_pool *pool, uint64_t size, struct gm_piece **piece)
{
	static CUresult (*const steps[])(struct gm_pool * pool, struct want want) = {
		flush,	       grow,	     grow_less, grow_in_pieces,
		exchange_some, exchange_all, settle,	exchange_all};
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
		CUresult result = steps[i](pool, want_for(size));
		if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY)
			return result;
		/* Also after a failure: other threads free and grow meanwhile. */
		*piece = take(pool, size);
		if (*piece)
			return CUDA_SUCCESS;
	}
	*piece = take_any(pool, size);
	return *piece ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Idle memory that another thread gives back to nobody is missing for a moment: once more then. */
static CUresult climb(struct gm_pool *pool, uint64_t size, struct gm_piece **piece)
{
	while (true) {
		uint64_t given = pool->given - pool->exchanged;
		CUresult result = climb_once(pool, size, piece);
		if (result != CUDA_ERROR_OUT_OF_MEMORY)
			return result;
		gm_pool_await_given(pool);
		if (pool->given - pool->exchanged == given)
			return result;
	}
}

/* --- */

static void hand_out(struct gm_pool *pool, struct gm_piece *piece, uint64_t size, uint64_t context)
{
	gm_piece_begin(piece);
	GM_SET(piece->state, GM_LIVE);
	GM_SET(piece->size, size);
	GM_SET(piece->id, next_id());
	GM_SET(piece->context, context);
	gm_piece_end(piece);
	gm_chunk_use(pool, GM_GET(piece->base), GM_GET(piece->held));
	gm_pool_count_live(pool, size, GM_GET(piece->held));
}

CUresult gm_pool_alloc(struct gm_pool *pool, size_t size, uint64_t context, struct gm_block *out)
{
	CUresult result = CUDA_SUCCESS;
	if (size == 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (size > pool->memory || size > pool->config.limit)
		return CUDA_ERROR_OUT_OF_MEMORY;
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	struct gm_piece *piece = take(pool, size);
	if (GM_UNLIKELY(!piece))
		result = climb(pool, size, &piece);
	if (piece) {
		hand_out(pool, piece, size, context);
		gm_piece_copy(piece, pool->config.ordinal, out);
	}
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	return result;
}
