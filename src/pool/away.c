/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chunks, also of loans, whose contents are away from the device. Such a chunk keeps its place in
 * the pool's books, so that addresses, blocks and sums stay unchanged; it has no handle, and it is
 * busy, so that no thread detaches it. A loan is in no list while its chunks are being moved, as
 * while it is being taken back: gm_pool_take_back waits for it.
 *
 *     on the device --copied to a store--unmapped--released--> away
 *     away --created, mapped--copied back--store dropped--> on the device
 *
 * The copy of a chunk begins before the end of the one before, so the link works while the driver
 * maps and unmaps:
 *
 *     copies     | chunk 1 | chunk 2 | chunk 3 |                  | chunk 1 | chunk 2 | chunk 3 |
 *     driver               | unmap 1 | unmap 2 | unmap 3  | map 1 | map 2   | map 3   |
 *
 * A failure before the release, or before the end of the copy back, leaves the chunk as it was. If
 * the driver then keeps the mapping of a chunk that is away, the chunk has a handle, and the next
 * fetch only copies.
 */
#include "base/clock.h"
#include "pool/grow.h"
#include "pool/internal.h"
#include "pool/stats.h"
#include "pool/valid.h"

/* Under the pool's lock: this call begins and ends its work on a chunk. */
static void chunk_begin(struct gm_pool *pool, struct gm_chunk *chunk)
{
	chunk->busy += !chunk->away;
	chunk->moving = true;
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
	chunk->moving = false;
	gm_counter_set(device, GM_C_away, pool->away);
	gm_counter_raise(device, GM_C_away_peak, pool->away);
}

/* --- no lock is held, and the chunk is busy --- */

/* Begin the copy of a chunk. */
static CUresult chunk_send(struct gm_chunk *chunk, const struct gm_mover *mover)
{
	chunk->store = mover->out(mover->arg, chunk->base, chunk->size);
	return chunk->store ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

/* Its contents are in the store, or the copy failed. */
static CUresult chunk_sent(struct gm_pool *pool, struct gm_chunk *chunk,
			   const struct gm_mover *mover)
{
	CUresult result = CUDA_ERROR_UNKNOWN;
	if (mover->finish(mover->arg, chunk->store))
		result = gm_chunk_unmap(pool, chunk);
	if (result == CUDA_SUCCESS) {
		gm_chunk_release(pool, chunk);
		return CUDA_SUCCESS;
	}
	mover->drop(mover->arg, chunk->store, chunk->size);
	chunk->store = NULL;
	return result;
}

static void chunk_unmap(struct gm_pool *pool, struct gm_chunk *chunk)
{
	if (gm_chunk_unmap(pool, chunk) == CUDA_SUCCESS)
		gm_chunk_release(pool, chunk);
}

/* Map memory, and begin the copy back if the contents are wanted. */
static CUresult chunk_fetch(struct gm_pool *pool, struct gm_chunk *chunk, bool wanted,
			    const struct gm_access *access, const struct gm_mover *mover)
{
	if (!chunk->handle) {
		CUresult result = gm_chunk_create(pool, chunk, access);
		if (result != CUDA_SUCCESS) {
			chunk->handle = 0; /* a failed call may have written it */
			return result;
		}
	}
	if (!wanted || mover->in(mover->arg, chunk->base, chunk->size, chunk->store))
		return CUDA_SUCCESS;
	chunk_unmap(pool, chunk);
	return CUDA_ERROR_UNKNOWN;
}

static CUresult chunk_fetched(struct gm_pool *pool, struct gm_chunk *chunk, bool wanted,
			      const struct gm_mover *mover)
{
	if (wanted && !mover->finish(mover->arg, chunk->store)) {
		chunk_unmap(pool, chunk);
		return CUDA_ERROR_UNKNOWN;
	}
	mover->drop(mover->arg, chunk->store, chunk->size);
	chunk->store = NULL;
	return CUDA_SUCCESS;
}

/* --- the pool's lock is held, and released around the functions above --- */

/* A chunk whose copy has begun. */
struct pending {
	struct gm_chunk *chunk; /* NULL: none */
	bool wanted;		/* it has contents */
	uint64_t begin;		/* ns */
};

/* Direction of a move: `away` means off the device. */
struct move {
	struct gm_pool *pool;
	bool away;
	const struct gm_mover *mover;
	struct pending pending;
	struct gm_moved moved;
};

static void result_set(struct move *m, CUresult result)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (m->moved.result == CUDA_SUCCESS)
		m->moved.result = result;
}

/* End the work on a chunk. `result`: of the whole move of the chunk. */
static void chunk_moved(struct move *m, const struct pending *p, CUresult result)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_chunk *chunk = p->chunk;
	result_set(m, result);
	if (result == CUDA_SUCCESS) {
		uint64_t copied = p->wanted ? chunk->size : 0;
		chunk->away = m->away;
		m->moved.bytes += chunk->size;
		m->moved.copied += copied;
		m->moved.chunks++;
		gm_chunk_record(m->pool, chunk, m->away ? GM_RECORD_DEMOTE : GM_RECORD_PROMOTE,
				gm_clock_ns() - p->begin, m->away ? 0 : copied);
	}
	chunk_end(m->pool, chunk);
}

/* Wait for the pending chunk, if there is one. */
static void pending_finish(struct move *m)
{
	const struct pending p = m->pending;
	m->pending.chunk = NULL;
	if (!p.chunk)
		return;
	gm_pool_unlock(m->pool);
	CUresult result = m->away ? chunk_sent(m->pool, p.chunk, m->mover)
				  : chunk_fetched(m->pool, p.chunk, p.wanted, m->mover);
	gm_pool_lock(m->pool);
	chunk_moved(m, &p, result);
}

/* The used bytes of a loan are unknown, so its chunks are always copied back. */
static void chunk_move(struct move *m, struct gm_chunk *chunk, bool lent)
{
	struct gm_pool *pool = m->pool;
	struct gm_access access;
	const struct pending p = {chunk, m->away || lent || chunk->used, gm_clock_ns()};
	chunk_begin(pool, chunk);
	gm_access_now(pool, !lent, &access);
	gm_pool_unlock(pool);
	CUresult result = m->away ? chunk_send(chunk, m->mover)
				  : chunk_fetch(pool, chunk, p.wanted, &access, m->mover);
	gm_pool_lock(pool);
	pending_finish(m);
	if (result == CUDA_SUCCESS)
		m->pending = p;
	else
		chunk_moved(m, &p, result);
}

/* A chunk being moved stays in the list, so the walk continues from it; new chunks are put before
 * it. */
static void chunks_move(struct move *m)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	for (struct gm_chunk *chunk = m->pool->chunks; chunk && m->moved.result == CUDA_SUCCESS;
	     chunk = chunk->after)
		if (chunk->away != m->away && !chunk->moving &&
		    (!m->away || (!chunk->pins && !chunk->busy)))
			chunk_move(m, chunk, false);
	pending_finish(m);
}

static bool loan_moves(const struct gm_loan *loan, bool away)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	const struct gm_chunk *chunk = loan->chunks;
	while (chunk && chunk->away == away)
		chunk = chunk->after;
	return chunk && !(away && (loan->spare || loan->stuck));
}

/* Take the next loan to be moved off the list; NULL: none is left. */
static struct gm_loan *loan_begin(struct move *m)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_loan **link = &m->pool->loans, *loan;
	while (*link && !loan_moves(*link, m->away))
		link = &(*link)->next;
	loan = *link;
	if (!loan)
		return NULL;
	*link = loan->next;
	m->pool->loans_moving++;
	m->pool->giving++;
	return loan;
}

static void loan_end(struct move *m, struct gm_loan *loan)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	loan->next = m->pool->loans;
	m->pool->loans = loan;
	m->pool->loans_moving--;
	gm_pool_giving_end(m->pool);
}

static void loans_move(struct move *m)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_loan *loan;
	while (m->moved.result == CUDA_SUCCESS && (loan = loan_begin(m))) {
		for (struct gm_chunk *chunk = loan->chunks;
		     chunk && m->moved.result == CUDA_SUCCESS; chunk = chunk->after)
			if (chunk->away != m->away)
				chunk_move(m, chunk, true);
		pending_finish(m);
		loan_end(m, loan);
	}
}

/* --- no lock is held --- */

static struct gm_moved pool_move(struct gm_pool *pool, bool away, const struct gm_mover *mover)
{
	struct move m = {pool, away, mover, {0}, {.result = CUDA_SUCCESS}};
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	chunks_move(&m);
	loans_move(&m);
	CUresult access = gm_access_refresh(pool); /* granted or revoked meanwhile */
	if (m.moved.result == CUDA_SUCCESS)
		m.moved.result = access;
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	return m.moved;
}

struct gm_moved gm_pool_send(struct gm_pool *pool, const struct gm_mover *mover)
{
	gm_pool_give_back(pool, 0, true);
	return pool_move(pool, true, mover);
}

struct gm_moved gm_pool_fetch(struct gm_pool *pool, const struct gm_mover *mover)
{
	return pool_move(pool, false, mover);
}
