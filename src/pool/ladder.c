/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ladder: ways to come by idle memory, tried in turn. A step is called under the pool's lock,
 * may drop it, and answers SUCCESS when there may be idle memory now.
 */
#include "pool/internal.h"

static CUresult flush(struct gm_pool *pool, struct gm_want want)
{
	(void)want;
	return gm_slabs_flush(&pool->slabs) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult grow(struct gm_pool *pool, struct gm_want want)
{
	CUdeviceptr at;
	uint64_t bytes = gm_pool_shortfall(pool, want.length, want.align, &at);
	if (want.length <= GM_POOL_CHUNK) /* a chunk is enough wherever it lies */
		return gm_pool_map(pool, 0, GM_POOL_CHUNK, UINT64_MAX);
	return gm_pool_map(pool, at, bytes < GM_POOL_CHUNK ? GM_POOL_CHUNK : bytes, UINT64_MAX);
}

static CUresult grow_less(struct gm_pool *pool, struct gm_want want)
{
	CUdeviceptr at;
	uint64_t bytes = gm_pool_shortfall(pool, want.length, want.align, &at);
	return bytes < GM_POOL_CHUNK ? gm_pool_map(pool, at, bytes, UINT64_MAX)
				     : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult grow_in_pieces(struct gm_pool *pool, struct gm_want want)
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
static CUresult exchange(struct gm_pool *pool, struct gm_want want, uint64_t bytes)
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
	gm_pool_unlock(pool);
	uint64_t settled = gm_pool_settle(pool);
	gm_pool_lock(pool);
	return settled ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult climb_once(struct gm_pool *pool, uint64_t size, struct gm_piece **piece)
{
	static CUresult (*const steps[])(struct gm_pool * pool, struct gm_want want) = {
		flush,	       grow,	     grow_less, grow_in_pieces,
		exchange_some, exchange_all, settle,	exchange_all};
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

/* Idle memory that another thread gives back to nobody is missing for a moment: once more then. */
CUresult gm_pool_climb(struct gm_pool *pool, uint64_t size, struct gm_piece **piece)
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
