/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loans: chunks mapped at addresses that the borrower reserved.
 *
 *     loan     |---- idle chunk ----|-- idle chunk --|-- one new handle --|
 *
 * A loan takes wholly idle chunks that fit into it, moved without copying, and one new handle for
 * the remainder. Only the pool's device has access to it: natively, too, no other device can access
 * a heap of kernels.
 *
 *     none --gm_pool_lend_spare--> spare --gm_pool_keep--> lent --gm_pool_take_back--> none
 *                                    \--- gm_pool_recall, gm_pool_take_back --------->
 *
 * A spare loan is one new handle, not yet in use. It never takes memory that is needed elsewhere.
 */
#include "pool/lend.h"

#include <limits.h>
#include <stdlib.h>

#include "base/clock.h"
#include "pool/grow.h"
#include "pool/peer.h"
#include "pool/stats.h"
#include "pool/valid.h"

#define SHORT UINT64_C(1000000000) /* ns without spare loans after a shortage */
#define SPARE_SHARE 16		   /* spare loans have at most 1/16 of gm_pool_most */

static uint64_t chunks_sum(const struct gm_chunk *chunks)
{
	uint64_t sum = 0;
	for (; chunks; chunks = chunks->after)
		sum += chunks->size;
	return sum;
}

/* --- no lock is held --- */

/* Map the chunks of a loan side by side from `at`. Chunks with a run leave their addresses in the
 * range; on failure they are mapped there again, or released. */
static CUresult chunks_move_out(struct gm_pool *pool, struct gm_chunk *chunks, CUdeviceptr at,
				const struct gm_access *lent, const struct gm_access *home)
{
	struct gm_chunk *chunk = chunks;
	CUresult result = CUDA_SUCCESS;
	for (; chunk && result == CUDA_SUCCESS; at += chunk->size, chunk = chunk->after) {
		if (chunk->run)
			result = gm_chunk_unmap(pool, chunk);
		if (result != CUDA_SUCCESS)
			break;
		result = gm_chunk_map(pool, chunk, at, lent);
		if (result != CUDA_SUCCESS && chunk->run &&
		    gm_chunk_map(pool, chunk, chunk->run->base, home) != CUDA_SUCCESS)
			gm_chunk_release(pool, chunk);
		if (result != CUDA_SUCCESS)
			break;
	}
	if (result == CUDA_SUCCESS)
		return result;
	for (struct gm_chunk *back = chunks; back != chunk; back = back->after) {
		gm_chunk_unmap(pool, back);
		if (back->run && gm_chunk_map(pool, back, back->run->base, home) != CUDA_SUCCESS)
			gm_chunk_release(pool, back);
	}
	return result;
}

/* --- the pool's lock is held, and released around driver calls --- */

/* A pending chunk of `size` bytes, not mapped. */
static CUresult chunk_make(struct gm_pool *pool, uint64_t size, struct gm_chunk **out)
{
	struct gm_chunk *chunk = size > gm_pool_room(pool) ? NULL : gm_chunk_new(pool, size);
	if (!chunk)
		return CUDA_ERROR_OUT_OF_MEMORY;
	gm_pool_unlock(pool);
	CUresult result = gm_chunk_create(pool, chunk, NULL);
	gm_pool_lock(pool);
	if (result != CUDA_SUCCESS) {
		gm_chunk_forget(pool, chunk);
		return result;
	}
	chunk->serial = ++pool->chunk_serial;
	*out = chunk;
	return CUDA_SUCCESS;
}

/* After a failed loan: make its chunks idle again, or end them. */
static void chunks_bring_home(struct gm_pool *pool, struct gm_chunk *chunks)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	for (struct gm_chunk *chunk = chunks, *after; chunk; chunk = after) {
		after = chunk->after;
		if (chunk->run && chunk->handle) {
			gm_chunk_publish(pool, chunk);
			continue;
		}
		if (chunk->run)
			gm_chunk_record(pool, chunk, GM_RECORD_UNMAP, 0, 0);
		gm_chunk_forget(pool, chunk);
	}
	gm_access_refresh(pool);
}

/* Get idle chunks that fit, and a new handle for the remainder. On failure *chunks may have some of
 * them. */
static CUresult chunks_gather(struct gm_pool *pool, uint64_t size, struct gm_chunk **chunks)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	gm_hot_cool(pool, false);
	gm_shelves_empty(pool);
	gm_chunks_pick(pool, size, UINT_MAX, 0, 0);
	*chunks = gm_chunks_detach_picked(pool);
	uint64_t rest = size - chunks_sum(*chunks);
	if (rest == 0)
		return CUDA_SUCCESS;
	struct gm_chunk *fresh;
	CUresult result = chunk_make(pool, rest, &fresh);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && gm_pool_recall(pool))
		result = chunk_make(pool, rest, &fresh);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && gm_pool_shed(pool, rest))
		result = chunk_make(pool, rest, &fresh);
	if (result != CUDA_SUCCESS)
		return result;
	fresh->after = *chunks;
	*chunks = fresh;
	return CUDA_SUCCESS;
}

static uint64_t pool_clock(const struct gm_pool *pool)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	return pool->config.clock ? pool->config.clock() : gm_clock_ns();
}

/* Set the borrower's variable, and the pool's sum. */
static void loan_count_spare(struct gm_pool *pool, struct gm_loan *loan, uint64_t bytes)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	gm_pool_count_spare(pool, pool->spare - atomic_load(loan->spare) + bytes);
	atomic_store(loan->spare, bytes);
}

static void loan_finish(struct gm_pool *pool, struct gm_loan *loan, uint64_t ns)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	for (struct gm_chunk *chunk = loan->chunks; chunk; chunk = chunk->after) {
		pool->pending -= chunk->size;
		if (!chunk->run) {
			gm_chunk_record_loan(pool, chunk, GM_RECORD_MAP, ns, 0, GM_RECORD_LENT);
			continue;
		}
		gm_chunk_record_loan(pool, chunk, GM_RECORD_REMAP, 0, chunk->run->base,
				     GM_RECORD_LENT);
		gm_range_put(&pool->range, chunk->run);
		chunk->run = NULL;
	}
	loan->next = pool->loans;
	pool->loans = loan;
	gm_pool_count_lent(pool, pool->lent + loan->size);
	if (loan->spare)
		loan_count_spare(pool, loan, loan->size);
}

/* The most bytes of a spare loan now. */
static uint64_t pool_to_spare(const struct gm_pool *pool)
{
	uint64_t most = gm_pool_most(pool), taken = gm_pool_committed(pool);
	uint64_t share = most / SPARE_SHARE, half = taken < most ? (most - taken) / 2 : 0;
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (pool->short_at && pool_clock(pool) - pool->short_at < SHORT)
		return 0;
	share = share > pool->spare ? share - pool->spare : 0;
	half = half < share ? half : share;
	return half - half % GM_POOL_GRANULE;
}

static CUresult chunks_find(struct gm_pool *pool, struct gm_loan *loan)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (!loan->spare)
		return chunks_gather(pool, loan->size, &loan->chunks);
	return loan->size <= pool_to_spare(pool) ? chunk_make(pool, loan->size, &loan->chunks)
						 : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult loan_make(struct gm_pool *pool, struct gm_loan *loan)
{
	struct gm_access lent, home;
	uint64_t begin = gm_clock_ns();
	CUresult result = chunks_find(pool, loan);
	if (result == CUDA_SUCCESS) {
		gm_access_now(pool, false, &lent);
		gm_access_now(pool, true, &home);
		gm_pool_unlock(pool);
		result = chunks_move_out(pool, loan->chunks, loan->at, &lent, &home);
		/* A new chunk has no addresses in the range. */
		for (struct gm_chunk *chunk = loan->chunks; chunk; chunk = chunk->after)
			if (result != CUDA_SUCCESS && !chunk->run)
				gm_chunk_release(pool, chunk);
		gm_pool_lock(pool);
	}
	if (result == CUDA_SUCCESS)
		loan_finish(pool, loan, gm_clock_ns() - begin);
	else
		chunks_bring_home(pool, loan->chunks);
	return result;
}

/* --- no lock is held --- */

static CUresult pool_lend(struct gm_pool *pool, CUdeviceptr at, size_t size,
			  _Atomic uint64_t *spare)
{
	if (size == 0 || size % GM_POOL_GRANULE || at % GM_POOL_GRANULE)
		return CUDA_ERROR_INVALID_VALUE;
	struct gm_loan *loan = calloc(1, sizeof *loan);
	if (!loan)
		return CUDA_ERROR_OUT_OF_MEMORY;
	loan->at = at;
	loan->size = size;
	loan->spare = spare;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	CUresult result = loan_make(pool, loan);
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	gm_driver_quiet_end(pool->driver, mode);
	if (result != CUDA_SUCCESS)
		free(loan);
	return result;
}

CUresult gm_pool_lend(struct gm_pool *pool, CUdeviceptr at, size_t size)
{
	return pool_lend(pool, at, size, NULL);
}

CUresult gm_pool_lend_spare(struct gm_pool *pool, CUdeviceptr at, size_t size,
			    _Atomic uint64_t *spare)
{
	return pool_lend(pool, at, size, spare);
}

uint64_t gm_pool_to_spare(const struct gm_pool *pool)
{
	gm_pool_lock(pool);
	uint64_t bytes = pool_to_spare(pool);
	gm_pool_unlock(pool);
	return bytes;
}

/* --- the pool's lock is held --- */

/* The link to the loan; *link is NULL: the loan is in no list. */
static struct gm_loan **loan_find(struct gm_pool *pool, CUdeviceptr at, uint64_t size)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_loan **link = &pool->loans;
	while (*link && ((*link)->at != at || (*link)->size != size))
		link = &(*link)->next;
	return link;
}

CUresult gm_pool_keep(struct gm_pool *pool, CUdeviceptr at, size_t size)
{
	gm_pool_lock(pool);
	struct gm_loan *loan = *loan_find(pool, at, size);
	bool whole = loan && loan->spare && atomic_load(loan->spare) == size;
	if (whole) {
		loan_count_spare(pool, loan, 0);
		loan->spare = NULL;
	}
	gm_pool_unlock(pool);
	return whole ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* --- taking back --- */

/* Make an unmapped chunk idle memory of the pool, else return it to the driver. */
static void chunk_return(struct gm_pool *pool, struct gm_chunk *chunk)
{
	struct gm_access access;
	CUdeviceptr old = chunk->base;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	chunk->run = gm_range_take(&pool->range, chunk->size);
	gm_access_now(pool, true, &access);
	gm_pool_unlock(pool);
	if (chunk->run)
		result = gm_chunk_map(pool, chunk, chunk->run->base, &access);
	if (result != CUDA_SUCCESS)
		gm_chunk_release(pool, chunk);
	gm_pool_lock(pool);
	if (result == CUDA_SUCCESS) {
		gm_chunk_record_loan(pool, chunk, GM_RECORD_REMAP, 0, old, GM_RECORD_RETURNED);
		gm_chunk_publish(pool, chunk);
		gm_access_refresh(pool);
	} else {
		gm_chunk_record_loan(pool, chunk, GM_RECORD_UNMAP, 0, 0, GM_RECORD_RETURNED);
		gm_chunk_forget(pool, chunk);
	}
}

/* Make a chunk that is away (away.c) idle memory of the pool. It stays away: its contents are no
 * longer needed, and the next fetch drops them. False: no host memory. */
static bool chunk_return_away(struct gm_pool *pool, struct gm_chunk *chunk)
{
	CUdeviceptr old = chunk->base;
	chunk->run = gm_range_take(&pool->range, chunk->size);
	if (!chunk->run)
		return false;
	chunk->base = chunk->run->base;
	pool->pending += chunk->size;
	gm_chunk_record_loan(pool, chunk, GM_RECORD_REMAP, 0, old, GM_RECORD_RETURNED);
	gm_chunk_publish(pool, chunk);
	return true;
}

/* Unmap a chunk, unless it is away and has no handle. */
static CUresult chunk_leave(struct gm_pool *pool, struct gm_chunk *chunk)
{
	if (chunk->away && !chunk->handle)
		return CUDA_SUCCESS;
	gm_pool_unlock(pool);
	CUresult result = gm_chunk_unmap(pool, chunk);
	if (result == CUDA_SUCCESS && chunk->away)
		gm_chunk_release(pool, chunk);
	gm_pool_lock(pool);
	if (result == CUDA_SUCCESS && chunk->away)
		pool->away += chunk->size;
	return result;
}

/* Take back chunk by chunk. The loan keeps the chunks that the driver does not unmap. */
static CUresult loan_take_back(struct gm_pool *pool, struct gm_loan *loan)
{
	struct gm_chunk **link = &loan->chunks;
	CUresult worst = CUDA_SUCCESS;
	while (*link) {
		struct gm_chunk *chunk = *link, *after = chunk->after;
		CUresult result = chunk_leave(pool, chunk);
		if (result == CUDA_SUCCESS && chunk->away && !chunk_return_away(pool, chunk))
			result = CUDA_ERROR_OUT_OF_MEMORY;
		if (result != CUDA_SUCCESS) {
			worst = result;
			link = &chunk->after;
			continue;
		}
		*link = after;
		gm_pool_count_lent(pool, pool->lent - chunk->size);
		if (loan->spare) {
			gm_pool_count_spare(pool, pool->spare - chunk->size);
			gm_counter_add(pool->config.ordinal, GM_C_heap_slack_unused, chunk->size);
		}
		if (chunk->away)
			continue;
		pool->pending += chunk->size;
		chunk_return(pool, chunk);
	}
	return worst;
}

/* Take back the loan at *link. A loan that the driver does not unmap whole remains. */
static CUresult loan_end(struct gm_pool *pool, struct gm_loan **link)
{
	struct gm_loan *loan = *link;
	bool spare = loan->spare;
	*link = loan->next;
	pool->loans_moving++;
	pool->giving += spare;
	CUresult result = loan_take_back(pool, loan);
	pool->loans_moving--;
	if (loan->chunks) {
		loan->stuck = true;
		loan->next = pool->loans;
		pool->loans = loan;
	} else {
		/* From here on the borrower may use the addresses. */
		if (spare)
			atomic_store(loan->spare, 0);
		free(loan);
	}
	if (spare)
		gm_pool_giving_end(pool);
	return result;
}

/* Link to the first spare loan, without loans that the driver did not unmap; *link is NULL: none is
 * left. */
static struct gm_loan **loan_find_spare(struct gm_pool *pool)
{
	struct gm_loan **link = &pool->loans;
	while (*link && (!(*link)->spare || (*link)->stuck))
		link = &(*link)->next;
	return link;
}

bool gm_pool_recall(struct gm_pool *pool)
{
	bool any = false;
	struct gm_loan **link;
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	pool->short_at = pool_clock(pool);
	if (!*loan_find_spare(pool))
		return false;
	gm_pool_unlock(pool);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	gm_pool_lock(pool);
	while (*(link = loan_find_spare(pool)))
		any |= loan_end(pool, link) == CUDA_SUCCESS;
	gm_pool_unlock(pool);
	gm_driver_quiet_end(pool->driver, mode);
	gm_pool_lock(pool);
	return any;
}

CUresult gm_pool_take_back(struct gm_pool *pool, CUdeviceptr at, size_t size)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	struct gm_loan **link = loan_find(pool, at, size);
	if (!*link && pool->giving) { /* gm_pool_recall may be taking it */
		gm_pool_await_given(pool);
		link = loan_find(pool, at, size);
	}
	if (*link)
		result = loan_end(pool, link);
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	gm_driver_quiet_end(pool->driver, mode);
	return result;
}
