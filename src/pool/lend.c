/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loans: chunks mapped at addresses that the borrower reserved.
 *
 *     loan     |---- idle chunk ----|-- idle chunk --|-- one new handle --|
 *
 * A loan takes wholly idle chunks that fit into it, moved without copying, and one new handle for
 * the rest. Only the pool's device has access to it: natively, too, no other device can access a
 * heap of kernels.
 */
#include <limits.h>
#include <stdlib.h>

#include "base/clock.h"
#include "pool/grow.h"
#include "pool/internal.h"
#include "pool/peer.h"
#include "pool/stats.h"
#include "pool/valid.h"

static uint64_t chunks_sum(const struct gm_chunk *chunks)
{
	uint64_t sum = 0;
	for (; chunks; chunks = chunks->after)
		sum += chunks->size;
	return sum;
}

/* --- no lock is held --- */

/* Map the chunks of a loan side by side from `at`. Those with a run leave their addresses in the
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

/* A loan has failed: its chunks become idle again, or end. */
static void chunks_bring_home(struct gm_pool *pool, struct gm_chunk *chunks)
{
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

/* Idle chunks that fit, and a new handle for the rest. On failure *chunks may have some of them. */
static CUresult chunks_gather(struct gm_pool *pool, uint64_t size, struct gm_chunk **chunks)
{
	gm_shelves_empty(pool);
	gm_chunks_pick(pool, size, UINT_MAX, 0);
	*chunks = gm_chunks_detach_picked(pool);
	uint64_t rest = size - chunks_sum(*chunks);
	if (rest == 0)
		return CUDA_SUCCESS;
	struct gm_chunk *fresh;
	CUresult result = chunk_make(pool, rest, &fresh);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && gm_pool_shed(pool, rest))
		result = chunk_make(pool, rest, &fresh);
	if (result != CUDA_SUCCESS)
		return result;
	fresh->after = *chunks;
	*chunks = fresh;
	return CUDA_SUCCESS;
}

static void loan_finish(struct gm_pool *pool, struct gm_loan *loan, uint64_t ns)
{
	for (struct gm_chunk *chunk = loan->chunks; chunk; chunk = chunk->after) {
		pool->pending -= chunk->size;
		if (!chunk->run) {
			gm_chunk_record(pool, chunk, GM_RECORD_MAP, ns, 0);
			continue;
		}
		gm_chunk_record(pool, chunk, GM_RECORD_REMAP, 0, chunk->run->base);
		gm_range_put(&pool->range, chunk->run);
		chunk->run = NULL;
	}
	loan->next = pool->loans;
	pool->loans = loan;
	gm_pool_count_lent(pool, pool->lent + loan->size);
}

static CUresult loan_make(struct gm_pool *pool, struct gm_loan *loan)
{
	struct gm_access lent, home;
	uint64_t begin = gm_clock_ns();
	CUresult result = chunks_gather(pool, loan->size, &loan->chunks);
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

CUresult gm_pool_lend(struct gm_pool *pool, CUdeviceptr at, size_t size)
{
	if (size == 0 || size % GM_POOL_GRANULE || at % GM_POOL_GRANULE)
		return CUDA_ERROR_INVALID_VALUE;
	struct gm_loan *loan = calloc(1, sizeof *loan);
	if (!loan)
		return CUDA_ERROR_OUT_OF_MEMORY;
	loan->at = at;
	loan->size = size;
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

/* --- taking back --- */

/* An unmapped chunk becomes idle memory of the pool, else it is returned to the driver. */
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
		gm_chunk_record(pool, chunk, GM_RECORD_REMAP, 0, old);
		gm_chunk_publish(pool, chunk);
		gm_access_refresh(pool);
	} else {
		gm_chunk_record(pool, chunk, GM_RECORD_UNMAP, 0, 0);
		gm_chunk_forget(pool, chunk);
	}
}

/* Take back one chunk after the other. The loan keeps the chunks that the driver does not unmap. */
static CUresult loan_take_back(struct gm_pool *pool, struct gm_loan *loan)
{
	struct gm_chunk **link = &loan->chunks;
	CUresult worst = CUDA_SUCCESS;
	while (*link) {
		struct gm_chunk *chunk = *link;
		gm_pool_unlock(pool);
		CUresult result = gm_chunk_unmap(pool, chunk);
		gm_pool_lock(pool);
		if (result != CUDA_SUCCESS) {
			worst = result;
			link = &chunk->after;
			continue;
		}
		*link = chunk->after;
		gm_pool_count_lent(pool, pool->lent - chunk->size);
		pool->pending += chunk->size;
		chunk_return(pool, chunk);
	}
	return worst;
}

CUresult gm_pool_take_back(struct gm_pool *pool, CUdeviceptr at, size_t size)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	struct gm_loan **link = &pool->loans;
	while (*link && ((*link)->at != at || (*link)->size != size))
		link = &(*link)->next;
	struct gm_loan *loan = *link;
	if (loan) {
		*link = loan->next;
		pool->loans_moving++;
		result = loan_take_back(pool, loan);
		pool->loans_moving--;
		if (loan->chunks) {
			loan->next = pool->loans;
			pool->loans = loan;
		} else {
			free(loan);
		}
	}
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	gm_driver_quiet_end(pool->driver, mode);
	return result;
}
