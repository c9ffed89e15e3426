/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ladder: ways to come by idle memory, tried in turn. A step is called under the pool's lock,
 * may drop it, and answers SUCCESS when there may be idle memory now.
 */
#include "pool/internal.h"

/* What threads use by turns stays theirs as long as the pool can grow. */
static CUresult flush_old(struct gm_pool *pool, struct gm_want want)
{
	(void)want;
	bool any = gm_shelves_empty_old(pool);
	return gm_slabs_flush(&pool->slabs) || any ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult flush(struct gm_pool *pool, struct gm_want want)
{
	(void)want;
	bool any = gm_shelves_empty(pool);
	return gm_slabs_flush(&pool->slabs) || any ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult glance(struct gm_pool *pool, struct gm_want want)
{
	(void)want;
	return gm_retired_glance(pool) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult collect(struct gm_pool *pool, struct gm_want want)
{
	(void)want;
	return gm_retired_collect(pool) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Small blocks share a chunk. A longer one gets what it lacks and no more, which costs what it does
 * natively, and comes free again with the block; but where frees are deferred, as many more as are
 * retired, for each thread will have some that wait and some that it takes. */
static uint64_t least_growth(const struct gm_pool *pool, struct gm_want want)
{
	if (pool->config.chunk)
		return pool->config.chunk;
	if (want.length < GM_POOL_GRANULE)
		return GM_POOL_CHUNK;
	uint64_t more = pool->config.defer ? pool->retired : 0;
	if (more > GM_POOL_DEFERRED)
		more = GM_POOL_DEFERRED;
	return more - more % gm_round_up(want.length, GM_POOL_GRANULE);
}

static CUresult grow(struct gm_pool *pool, struct gm_want want)
{
	CUdeviceptr at = 0;
	uint64_t least = least_growth(pool, want), bytes = least;
	if (want.length > least) /* else a chunk is enough wherever it lies */
		bytes = gm_pool_shortfall(pool, want.length, want.align, &at);
	if (bytes < least)
		bytes = least;
	if (pool->config.chunk)
		bytes += (least - bytes % least) % least;
	return gm_pool_map(pool, at, NULL, bytes, gm_pool_piece(pool, bytes));
}

static CUresult grow_less(struct gm_pool *pool, struct gm_want want)
{
	CUdeviceptr at;
	uint64_t bytes = gm_pool_shortfall(pool, want.length, want.align, &at);
	return bytes < least_growth(pool, want) ? gm_pool_map(pool, at, NULL, bytes, bytes)
						: CUDA_ERROR_OUT_OF_MEMORY;
}

/* Fragmented or refused: smaller handles. */
static CUresult grow_in_pieces(struct gm_pool *pool, struct gm_want want)
{
	CUdeviceptr at;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t bytes = gm_pool_shortfall(pool, want.length, want.align, &at);
	for (unsigned n = 4; n <= 16 && result == CUDA_ERROR_OUT_OF_MEMORY; n *= 4) {
		uint64_t piece = gm_round_up(gm_pool_piece(pool, bytes) / n, GM_POOL_GRANULE);
		if (piece && piece < bytes)
			result = gm_pool_map(pool, at, NULL, bytes, piece);
	}
	return result;
}

/* For what a chunk holds, none is idle. */
static CUresult remap(struct gm_pool *pool, struct gm_want want)
{
	return want.length > GM_POOL_GRANULE ? gm_pool_remap(pool, want, false)
					     : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult remap_and_shed(struct gm_pool *pool, struct gm_want want)
{
	return gm_pool_remap(pool, want, true);
}

bool gm_pool_can_hold(struct gm_pool *pool, uint64_t length)
{
	gm_shelves_empty(pool); /* and the sums are whole */
	uint64_t most = gm_pool_most(pool);
	uint64_t kept = pool->handed_out + pool->retired + pool->lent;
	return kept <= most && length <= most - kept;
}

/* Give `bytes` of idle chunks back and grow by no more than needed. Only if that can help: a
 * program that probes for memory keeps its own. */
static CUresult exchange(struct gm_pool *pool, struct gm_want want, uint64_t bytes)
{
	CUdeviceptr at;
	if (!gm_pool_can_hold(pool, want.length) || !gm_pool_shed(pool, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	bytes = gm_pool_shortfall(pool, want.length, want.align, &at);
	CUresult result = gm_pool_map(pool, at, NULL, bytes, gm_pool_piece(pool, bytes));
	return result == CUDA_ERROR_OUT_OF_MEMORY ? grow_in_pieces(pool, want) : result;
}

static CUresult exchange_some(struct gm_pool *pool, struct gm_want want)
{
	return exchange(pool, want, want.length);
}

static CUresult exchange_all(struct gm_pool *pool, struct gm_want want)
{
	return exchange(pool, want, UINT64_MAX);
}

static CUresult settle(struct gm_pool *pool, struct gm_want want)
{
	(void)want;
	return gm_retired_settle(pool) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult climb_once(struct gm_pool *pool, uint64_t size, struct gm_piece **piece)
{
	static CUresult (*const steps[])(struct gm_pool * pool, struct gm_want want) = {
		flush_old,    glance,  remap,	       grow,	       grow_less,
		flush,	      collect, grow_in_pieces, remap_and_shed, exchange_some,
		exchange_all, settle,  remap_and_shed, exchange_all};
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
		CUresult result = steps[i](pool, gm_pool_want(size));
		if (result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY)
			return result;
		/* Also after a failure: other threads free and grow meanwhile. */
		*piece = gm_pool_take(pool, size);
		if (*piece)
			return CUDA_SUCCESS;
	}
	*piece = gm_pool_take_any(pool, size);
	return *piece ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Idle memory that another thread is moving, or gives back to nobody, is missing for a moment: once
 * more then. */
CUresult gm_pool_climb(struct gm_pool *pool, uint64_t size, struct gm_piece **piece)
{
	while (true) {
		uint64_t given = pool->given - pool->exchanged;
		CUresult result = climb_once(pool, size, piece);
		if (result != CUDA_ERROR_OUT_OF_MEMORY)
			return result;
		bool others = pool->giving > 0;
		gm_pool_await_given(pool);
		if (!others && pool->given - pool->exchanged == given)
			return result;
	}
}
