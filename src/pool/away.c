/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chunks whose contents are away from the device. Such a chunk keeps its place in the pool's books,
 * so that addresses, blocks and sums stay as they are; it has no handle, and it is busy, so that
 * nothing detaches it.
 *
 *     on the device --copied to a store--unmapped--released--> away
 *     away --created, mapped--copied back--store dropped--> on the device
 *
 * A failure before the release, or before the copy back has succeeded, leaves the chunk where it
 * was. If the driver then keeps the mapping of a chunk that is away, the chunk has a handle, and
 * the next fetch only copies.
 */
#include "base/clock.h"
#include "pool/internal.h"
#include "pool/stats.h"
#include "pool/valid.h"

/* Under the pool's lock: a chunk is in this call's hands, and no longer. */
static void chunk_begin(struct gm_pool *pool, struct gm_chunk *chunk)
{
	chunk->busy += !chunk->away;
	pool->moving += chunk->size;
	if (chunk->away && !chunk->handle)
		pool->away -= chunk->size;
}

static void chunk_end(struct gm_pool *pool, struct gm_chunk *chunk)
{
	unsigned device = pool->config.ordinal;
	pool->moving -= chunk->size;
	if (chunk->away && !chunk->handle)
		pool->away += chunk->size;
	chunk->busy -= !chunk->away;
	gm_counter_set(device, GM_C_away, pool->away);
	gm_counter_raise(device, GM_C_away_peak, pool->away);
}

/* --- no lock is held, and the chunk is busy --- */

static CUresult chunk_send(struct gm_pool *pool, struct gm_chunk *chunk,
			   const struct gm_mover *mover)
{
	void *store = mover->out(mover->arg, chunk->base, chunk->size);
	if (!store)
		return CUDA_ERROR_UNKNOWN;
	CUresult result = gm_chunk_unmap(pool, chunk);
	if (result != CUDA_SUCCESS) {
		mover->drop(mover->arg, store, chunk->size);
		return result;
	}
	chunk->store = store;
	gm_chunk_release(pool, chunk);
	return CUDA_SUCCESS;
}

static CUresult chunk_fetch(struct gm_pool *pool, struct gm_chunk *chunk, bool wanted,
			    const struct gm_access *access, const struct gm_mover *mover)
{
	if (!chunk->handle) {
		CUresult result = gm_chunk_create(pool, chunk, access);
		if (result != CUDA_SUCCESS) {
			chunk->handle = 0; /* a call that fails may have written it */
			return result;
		}
	}
	if (!wanted || mover->in(mover->arg, chunk->base, chunk->size, chunk->store)) {
		mover->drop(mover->arg, chunk->store, chunk->size);
		chunk->store = NULL;
		return CUDA_SUCCESS;
	}
	if (gm_chunk_unmap(pool, chunk) == CUDA_SUCCESS)
		gm_chunk_release(pool, chunk);
	return CUDA_ERROR_UNKNOWN;
}

/* --- the pool's lock is held, and released around these --- */

/* `away`: the chunk is to be away. */
static void chunk_move(struct gm_pool *pool, struct gm_chunk *chunk, bool away,
		       const struct gm_mover *mover, struct gm_moved *moved)
{
	struct gm_access access;
	bool wanted = chunk->used;
	uint64_t begin = gm_clock_ns();
	chunk_begin(pool, chunk);
	gm_access_now(pool, true, &access);
	gm_pool_unlock(pool);
	moved->result = away ? chunk_send(pool, chunk, mover)
			     : chunk_fetch(pool, chunk, wanted, &access, mover);
	gm_pool_lock(pool);
	if (moved->result == CUDA_SUCCESS) {
		uint64_t copied = away || wanted ? chunk->size : 0;
		chunk->away = away;
		moved->bytes += chunk->size;
		moved->copied += copied;
		moved->chunks++;
		gm_chunk_record(pool, chunk, away ? GM_RECORD_DEMOTE : GM_RECORD_PROMOTE,
				gm_clock_ns() - begin, away ? 0 : copied);
	}
	chunk_end(pool, chunk);
}

/* A chunk in hand stays in the list, so the walk goes on from it; new ones come before it. */
static struct gm_moved chunks_move(struct gm_pool *pool, bool away, const struct gm_mover *mover)
{
	struct gm_moved moved = {.result = CUDA_SUCCESS};
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	for (struct gm_chunk *chunk = pool->chunks; chunk && moved.result == CUDA_SUCCESS;
	     chunk = chunk->after)
		if (chunk->away != away && (!away || (!chunk->pins && !chunk->busy)))
			chunk_move(pool, chunk, away, mover, &moved);
	if (!away)
		gm_access_refresh(pool); /* granted or revoked meanwhile */
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	return moved;
}

struct gm_moved gm_pool_send(struct gm_pool *pool, const struct gm_mover *mover)
{
	gm_pool_give_back(pool, 0, true);
	return chunks_move(pool, true, mover);
}

struct gm_moved gm_pool_fetch(struct gm_pool *pool, const struct gm_mover *mover)
{
	return chunks_move(pool, false, mover);
}
