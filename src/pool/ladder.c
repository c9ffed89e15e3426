/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rungs of the ladder, in order. After each, the piece is taken out of idle memory if it fits
 * there by now.
 *
 *     rung               cost                                waits for the GPU?  drops the lock?
 *     flush_old          (1) shelved blocks of 20 ms or more no                  no
 *     glance             passed blocks of this shelf         no                  past the bound
 *     remap              50 us a chunk, at most 64 chunks (4) no                 yes
 *     be_patient         a query an event; then as remap     (3)                 yes
 *     grow               26 us a handle, 41 us a GiB         no                  yes
 *     grow_less          likewise, no spare memory           no                  yes
 *     flush              shelved blocks of all threads       no                  no
 *     collect            a query an event                    (2)                 yes
 *     grow_in_pieces     4 to 16 times as many handles       no                  yes
 *     recall             110 us a spare loan, as grow        no                  yes
 *     remap_and_shed     as remap, 110 us an unmap           no                  yes
 *     exchange_some      110 us an unmap, as grow            no                  yes
 *     exchange_all       likewise, all idle chunks           no                  yes
 *     drain              one fence a context                 yes                 yes
 *     remap_and_shed     again, with the drained memory      no                  yes
 *     exchange_all       again                               no                  yes
 *
 * (1) if frees are deferred; else as flush.
 * (2) only if the driver cannot record fences, and more than config.retire is retired.
 * (3) a little, while more is retired than suits the live bytes (patience.h).
 * (4) 1024 if handles are short. Under GPUMEM_FREE=ordered not before headroom is used up
 * (headroom.h).
 *
 * A step is called under the pool's lock. CUDA_SUCCESS: there may be idle memory now.
 */
#include "pool/ladder.h"

#include "pool/fit.h"
#include "pool/grow.h"
#include "pool/internal.h"
#include "pool/lend.h"
#include "pool/patience.h"
#include "pool/remap.h"
#include "pool/stats.h"

/* Threads keep the blocks that they reuse at short intervals while the pool can grow. */
static CUresult step_flush_old(struct gm_pool *pool, struct gm_want want)
{
	(void)want;
	bool any = gm_shelves_empty_old(pool);
	return gm_slabs_flush(&pool->slabs) || any ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult step_flush(struct gm_pool *pool, struct gm_want want)
{
	(void)want;
	bool any = gm_shelves_empty(pool);
	return gm_slabs_flush(&pool->slabs) || any ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult step_glance(struct gm_pool *pool, struct gm_want want)
{
	(void)want;
	return gm_limbo_glance(pool) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult step_collect(struct gm_pool *pool, struct gm_want want)
{
	(void)want;
	return gm_limbo_collect(pool) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/*
 * Small blocks share a chunk: the first growth has the least length of a handle, and each further
 * one doubles the pool, up to GM_POOL_CHUNK. A longer block gets the memory that it lacks and no
 * more, which costs as much as natively, and is idle again together with the block. But if frees
 * are deferred the growth is at least the retired bytes, up to GM_POOL_DEFERRED: each thread will
 * have blocks that are retired and blocks that it allocates. Not so if most of them are hot, for
 * then they serve the next allocations.
 */
static uint64_t growth_least(const struct gm_pool *pool, struct gm_want want)
{
	if (pool->config.chunk)
		return pool->config.chunk;
	if (want.length < GM_POOL_GRANULE) {
		uint64_t mapped = pool->mapped + pool->pending;
		if (mapped >= GM_POOL_CHUNK)
			return GM_POOL_CHUNK;
		return mapped ? mapped : GM_POOL_GRANULE;
	}
	bool defers = pool->config.defer && !pool->config.order;
	uint64_t more = defers ? gm_pool_waiting(pool) : 0;
	if (more > GM_POOL_DEFERRED)
		more = GM_POOL_DEFERRED;
	return more - more % gm_round_up(want.length, GM_POOL_GRANULE);
}

static CUresult step_grow(struct gm_pool *pool, struct gm_want want)
{
	CUdeviceptr at = 0;
	uint64_t least = growth_least(pool, want), bytes = least;
	if (want.length > least) /* else one chunk is enough, at any address */
		bytes = gm_pool_shortfall(pool, want, &at);
	if (bytes < least)
		bytes = least;
	if (pool->config.chunk)
		bytes += (least - bytes % least) % least;
	uint64_t mapped = gm_pool_committed(pool) + bytes;
	CUresult result = gm_pool_map(pool, at, NULL, bytes, gm_pool_piece(pool, bytes));
	gm_headroom_learn(pool, mapped, result);
	return result;
}

static CUresult step_grow_less(struct gm_pool *pool, struct gm_want want)
{
	CUdeviceptr at;
	uint64_t bytes = gm_pool_shortfall(pool, want, &at);
	return bytes < growth_least(pool, want) ? gm_pool_map(pool, at, NULL, bytes, bytes)
						: CUDA_ERROR_OUT_OF_MEMORY;
}

/* Physical memory is fragmented, or the driver refused: try shorter handles. */
static CUresult step_grow_in_pieces(struct gm_pool *pool, struct gm_want want)
{
	CUdeviceptr at;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t bytes = gm_pool_shortfall(pool, want, &at);
	for (unsigned n = 4; n <= 16 && result == CUDA_ERROR_OUT_OF_MEMORY; n *= 4) {
		uint64_t piece = gm_round_up(gm_pool_piece(pool, bytes) / n, GM_POOL_GRANULE);
		if (piece && piece < bytes)
			result = gm_pool_map(pool, at, NULL, bytes, piece);
	}
	return result;
}

/* A request of up to a granule fits into any idle chunk, so no idle chunk exists here. */
static CUresult step_remap(struct gm_pool *pool, struct gm_want want)
{
	return want.length > GM_POOL_GRANULE ? gm_pool_remap(pool, want, false)
					     : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Growth is quick, but the memory stays mapped; a short wait for the GPU may free enough. */
static CUresult step_be_patient(struct gm_pool *pool, struct gm_want want)
{
	if (!gm_patience_wait(pool, want))
		return CUDA_ERROR_OUT_OF_MEMORY;
	bool fits = gm_extents_fit(&pool->extents, want.length, want.align);
	return fits ? CUDA_SUCCESS : step_remap(pool, want);
}

static CUresult step_remap_and_shed(struct gm_pool *pool, struct gm_want want)
{
	return gm_pool_remap(pool, want, true);
}

/* Idle memory has become more, or the device has: map what is still missing, and no more. */
static CUresult rest_map(struct gm_pool *pool, struct gm_want want)
{
	CUdeviceptr at;
	uint64_t bytes = gm_pool_shortfall(pool, want, &at);
	CUresult result = gm_pool_map(pool, at, NULL, bytes, gm_pool_piece(pool, bytes));
	return result == CUDA_ERROR_OUT_OF_MEMORY ? step_grow_in_pieces(pool, want) : result;
}

/* Return `bytes` of idle chunks to the driver, and grow by no more than needed. Only if the request
 * fits: a program that probes for memory keeps its own. */
static CUresult memory_exchange(struct gm_pool *pool, struct gm_want want, uint64_t bytes)
{
	if (!gm_pool_can_hold(pool, want.length) || !gm_pool_shed(pool, bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return rest_map(pool, want);
}

static CUresult step_exchange_some(struct gm_pool *pool, struct gm_want want)
{
	return memory_exchange(pool, want, want.length);
}

static CUresult step_exchange_all(struct gm_pool *pool, struct gm_want want)
{
	return memory_exchange(pool, want, UINT64_MAX);
}

/* Make spare loans idle memory. */
static CUresult step_recall(struct gm_pool *pool, struct gm_want want)
{
	return gm_pool_recall(pool) ? rest_map(pool, want) : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult step_drain(struct gm_pool *pool, struct gm_want want)
{
	(void)want;
	return gm_limbo_drain(pool) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult ladder_climb_once(struct gm_pool *pool, uint64_t size, uint64_t context,
				  struct gm_piece **piece)
{
	static CUresult (*const steps[])(struct gm_pool * pool, struct gm_want want) = {
		step_flush_old,	     step_glance,    step_remap,	  step_be_patient,
		step_grow,	     step_grow_less, step_flush,	  step_collect,
		step_grow_in_pieces, step_recall,    step_remap_and_shed, step_exchange_some,
		step_exchange_all,   step_drain,     step_remap_and_shed, step_exchange_all};
	if (pool->config.measure) {
		gm_pool_unlock(pool);
		pool->config.measure(pool->config.ordinal);
		gm_pool_lock(pool);
	}
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
		CUresult result = steps[i](pool, gm_pool_want(pool, size, context));
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

#define ROBBERIES 16 /* at most: without host memory, memory that was mapped cannot be taken */

/* Climb the ladder once more if memory was missing for a moment: another thread moved or returned
 * idle memory; or took, as the lock was dropped, memory that was mapped for this request. Exchanged
 * memory does not count, for it has a new user. */
CUresult gm_pool_climb(struct gm_pool *pool, uint64_t size, uint64_t context,
		       struct gm_piece **piece)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	for (unsigned robberies = 0;;) {
		uint64_t given = pool->given - pool->exchanged, mapped = pool->chunk_serial;
		CUresult result = ladder_climb_once(pool, size, context, piece);
		if (result != CUDA_ERROR_OUT_OF_MEMORY)
			return result;
		bool moving = pool->giving > 0;
		gm_pool_await_given(pool);
		bool robbed = pool->chunk_serial != mapped && robberies++ < ROBBERIES;
		if (!moving && !robbed && pool->given - pool->exchanged == given)
			return result;
	}
}
