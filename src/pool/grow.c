/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory from the driver and back. The books are reserved under the lock, the driver is called
 * without it, and the result is published under it again; whatever fails between is undone.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "log/log.h"
#include "pool/internal.h"

uint64_t gm_pool_room(const struct gm_pool *pool)
{
	uint64_t committed = pool->mapped + pool->lent + pool->pending;
	return pool->config.limit > committed ? pool->config.limit - committed : 0;
}

void gm_chunk_note(struct gm_pool *pool, const struct gm_chunk *chunk, enum gm_record_kind kind,
		   uint64_t ns, CUdeviceptr old)
{
	unsigned device = pool->config.ordinal;
	if (kind == GM_RECORD_MAP) {
		gm_counter_add(device, GM_C_map_calls, 1);
		gm_counter_add(device, GM_C_map_bytes, chunk->size);
		gm_counter_add(device, GM_C_map_ns, ns);
	} else if (kind == GM_RECORD_UNMAP) {
		gm_counter_add(device, GM_C_unmap_calls, 1);
		gm_counter_add(device, GM_C_unmap_bytes, chunk->size);
	} else if (kind == GM_RECORD_REMAP) {
		gm_counter_add(device, GM_C_remap_calls, 1);
		gm_counter_add(device, GM_C_remap_bytes, chunk->size);
		gm_counter_add(device, GM_C_remap_ns, ns);
	}
	if (!gm_log_wants(kind))
		return;
	gm_log_put(&(struct gm_record){.address = chunk->base,
				       .size = chunk->size,
				       .held = old,
				       .id = chunk->serial,
				       .duration = ns > UINT32_MAX ? UINT32_MAX : (uint32_t)ns,
				       .device = (uint8_t)device,
				       .kind = (uint8_t)kind});
}

uint64_t gm_pool_shortfall(const struct gm_pool *pool, uint64_t length, uint64_t align,
			   CUdeviceptr *at)
{
	uint64_t least = gm_round_up(length, GM_POOL_GRANULE);
	*at = 0;
	for (const struct gm_run *run = pool->range.free; run; run = run->next) {
		const struct gm_extent *tail = gm_table_ends_at(&pool->table, run->base);
		if (!tail || GM_GET(tail->piece.state) != GM_IDLE)
			continue;
		CUdeviceptr from = gm_round_up(GM_GET(tail->piece.base), align);
		if (from >= run->base || run->base - from >= length)
			continue;
		uint64_t bytes = gm_round_up(length - (run->base - from), GM_POOL_GRANULE);
		if (bytes < least && bytes <= run->size) {
			least = bytes;
			*at = run->base;
		}
	}
	return least;
}

static void end_giving(struct gm_pool *pool)
{
	if (--pool->giving == 0)
		pthread_cond_broadcast(&pool->given_back);
}

uint64_t gm_pool_most(const struct gm_pool *pool)
{
	return pool->config.limit < pool->memory ? pool->config.limit : pool->memory;
}

/* --- planning, under the lock --- */

/* The cost is by handle, so they are few; but a part of one cannot come free. Where more than half
 * of the memory is taken already, that counts for more. */
uint64_t gm_pool_piece(const struct gm_pool *pool, uint64_t bytes)
{
	if (pool->config.chunk)
		return pool->config.chunk;
	uint64_t most = gm_pool_most(pool), taken = pool->mapped + pool->lent + pool->pending;
	uint64_t longest = taken + bytes > most / 2 ? GM_POOL_PIECE / 2 : GM_POOL_PIECE;
	if (taken + bytes <= most / GM_POOL_WHOLE)
		longest = bytes;
	uint64_t n = longest ? (bytes + longest - 1) / longest : 0;
	return n ? gm_round_up(bytes / n, GM_POOL_GRANULE) : 0;
}

/* Chunks of `piece` bytes at most, none made yet, after those of `last`; false: no host memory. */
static bool add_new(struct gm_pool *pool, struct gm_chunk **last, uint64_t bytes, uint64_t piece)
{
	while (bytes) {
		struct gm_chunk *chunk = gm_chunk_new(pool, bytes < piece ? bytes : piece);
		if (!chunk)
			return false;
		*last = chunk;
		last = &chunk->after;
		bytes -= chunk->size;
	}
	return true;
}

/* Give each chunk its part of a run; false: no host memory, and some have none. */
static bool place(struct gm_pool *pool, struct gm_chunk *chunks, struct gm_run *run)
{
	for (struct gm_chunk *chunk = chunks; chunk; chunk = chunk->after) {
		struct gm_run *rest = chunk->after ? gm_range_cut(run, chunk->size) : NULL;
		if (chunk->after && !rest) {
			gm_range_put(&pool->range, run);
			return false;
		}
		chunk->to = run;
		run = rest;
	}
	return true;
}

static bool plan(struct gm_pool *pool, CUdeviceptr at, struct gm_chunk **chunks, uint64_t bytes,
		 uint64_t piece)
{
	struct gm_chunk **last = chunks;
	uint64_t sum = bytes;
	for (; *last; last = &(*last)->after)
		sum += (*last)->size;
	if (bytes > gm_pool_room(pool) || !add_new(pool, last, bytes, piece))
		return false;
	struct gm_run *run =
		at ? gm_range_take_at(&pool->range, at, sum) : gm_range_take(&pool->range, sum);
	return run && place(pool, *chunks, run);
}

/* --- driver calls, no lock held --- */

static void unmake(struct gm_pool *pool, struct gm_chunk *chunks, const struct gm_chunk *end)
{
	for (; chunks != end; chunks = chunks->after) {
		gm_chunk_unmap(pool, chunks);
		gm_chunk_release(pool, chunks);
	}
}

static CUresult make(struct gm_pool *pool, struct gm_chunk *chunks, const struct gm_access *access)
{
	for (struct gm_chunk *chunk = chunks; chunk; chunk = chunk->after) {
		chunk->base = chunk->to->base;
		CUresult result = gm_chunk_create(pool, chunk, access);
		if (result != CUDA_SUCCESS) {
			unmake(pool, chunks, chunk);
			return result;
		}
	}
	return CUDA_SUCCESS;
}

/* A chunk that cannot be mapped where it is to go is mapped where it was, or is no more. */
static CUresult move(struct gm_pool *pool, struct gm_chunk *chunk, const struct gm_access *access)
{
	CUresult result = gm_chunk_unmap(pool, chunk);
	if (result != CUDA_SUCCESS)
		return result;
	result = gm_chunk_map(pool, chunk, chunk->to->base, access);
	if (result != CUDA_SUCCESS &&
	    gm_chunk_map(pool, chunk, chunk->run->base, access) != CUDA_SUCCESS)
		gm_chunk_release(pool, chunk);
	return result;
}

/* The new ones first: where there is no memory for them, nothing is moved. What moved before one
 * that does not stays there, as idle as before. */
static CUresult make_and_move(struct gm_pool *pool, struct gm_chunk *chunks,
			      const struct gm_access *access, uint64_t ns[2])
{
	struct gm_chunk *fresh = chunks;
	uint64_t begin = gm_clock_ns();
	while (fresh && fresh->run)
		fresh = fresh->after;
	CUresult result = make(pool, fresh, access);
	ns[0] = gm_clock_ns() - begin;
	if (result != CUDA_SUCCESS)
		return result;
	for (struct gm_chunk *chunk = chunks; chunk != fresh; chunk = chunk->after) {
		if (move(pool, chunk, access) == CUDA_SUCCESS)
			continue;
		unmake(pool, fresh, NULL);
		return CUDA_ERROR_OUT_OF_MEMORY; /* growing may go well */
	}
	ns[1] = gm_clock_ns() - begin - ns[0];
	return CUDA_SUCCESS;
}

/* Open chunks to peers that came or went meanwhile; one that cannot be is no more. */
static CUresult change_access(struct gm_pool *pool, struct gm_chunk *chunks,
			      const struct gm_access *access)
{
	CUresult worst = CUDA_SUCCESS;
	for (struct gm_chunk *chunk = chunks; chunk; chunk = chunk->after) {
		if (!chunk->handle)
			continue;
		CUresult result = pool->driver->cuMemSetAccess(chunk->base, chunk->size,
							       access->list, access->n);
		chunk->access = access->generation;
		if (result == CUDA_SUCCESS)
			continue;
		worst = result;
		gm_chunk_unmap(pool, chunk);
		gm_chunk_release(pool, chunk);
	}
	return worst;
}

/* --- */

/* A planned chunk: where it is now, it is idle; where it is not, the addresses are free. What
 * making and moving took, in all, is noted with the first chunk of each. */
static void settle(struct gm_pool *pool, struct gm_chunk *chunk, uint64_t ns[2])
{
	bool is_new = !chunk->run, arrived = chunk->to && chunk->base == chunk->to->base;
	struct gm_run *left = arrived ? chunk->run : chunk->to;
	CUdeviceptr old = left ? left->base : 0;
	if (arrived)
		chunk->run = chunk->to;
	chunk->to = NULL;
	if (left)
		gm_range_put(&pool->range, left);
	if (!chunk->handle) {
		if (!is_new)
			gm_chunk_note(pool, chunk, GM_RECORD_UNMAP, 0, 0);
		gm_chunk_forget(pool, chunk);
		return;
	}
	if (is_new)
		chunk->serial = ++pool->chunk_serial;
	gm_chunk_publish(pool, chunk);
	if (!arrived)
		return;
	gm_chunk_note(pool, chunk, is_new ? GM_RECORD_MAP : GM_RECORD_REMAP, ns[!is_new], old);
	ns[!is_new] = 0;
}

/* A grant or revocation came while they were out of the pool's list. */
static bool is_stale(const struct gm_pool *pool, const struct gm_chunk *chunks)
{
	while (chunks && (!chunks->handle || chunks->access == pool->access))
		chunks = chunks->after;
	return chunks != NULL;
}

static CUresult assemble(struct gm_pool *pool, struct gm_chunk *chunks, uint64_t ns[2])
{
	struct gm_access access;
	gm_access_now(pool, true, &access);
	gm_pool_unlock(pool);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	CUresult result = make_and_move(pool, chunks, &access, ns);
	gm_driver_quiet_end(pool->driver, mode);
	gm_pool_lock(pool);
	return result;
}

static CUresult freshen(struct gm_pool *pool, struct gm_chunk *chunks)
{
	struct gm_access access;
	gm_access_changes(pool, &access);
	gm_pool_unlock(pool);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	CUresult result = change_access(pool, chunks, &access);
	gm_driver_quiet_end(pool->driver, mode);
	gm_pool_lock(pool);
	return result;
}

CUresult gm_pool_map(struct gm_pool *pool, CUdeviceptr at, struct gm_chunk *idle, uint64_t bytes,
		     uint64_t piece)
{
	uint64_t ns[2] = {0};
	bool moves = idle != NULL;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	pool->giving += moves;
	if (plan(pool, at, &idle, bytes, piece))
		result = assemble(pool, idle, ns);
	while (is_stale(pool, idle)) {
		CUresult changed = freshen(pool, idle);
		result = result == CUDA_SUCCESS ? changed : result;
	}
	for (struct gm_chunk *chunk = idle, *after; chunk; chunk = after) {
		after = chunk->after;
		settle(pool, chunk, ns);
	}
	if (moves)
		end_giving(pool);
	return result;
}

CUresult gm_pool_prewarm(struct gm_pool *pool, uint64_t bytes)
{
	if (bytes > pool->memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	bytes = gm_round_up(bytes, GM_POOL_GRANULE);
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	CUresult result = gm_pool_map(pool, 0, NULL, bytes, gm_pool_piece(pool, bytes));
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	return result;
}

/* --- giving back --- */

uint64_t gm_pool_give(struct gm_pool *pool, struct gm_chunk *chunks)
{
	uint64_t given = 0;
	bool stale = false;
	if (!chunks)
		return 0;
	pool->giving++;
	gm_pool_unlock(pool);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	for (struct gm_chunk *chunk = chunks; chunk; chunk = chunk->after)
		if (gm_chunk_unmap(pool, chunk) == CUDA_SUCCESS)
			gm_chunk_release(pool, chunk);
	gm_driver_quiet_end(pool->driver, mode);
	gm_pool_lock(pool);
	for (struct gm_chunk *chunk = chunks, *after; chunk; chunk = after) {
		after = chunk->after;
		if (chunk->handle) { /* the driver would not */
			gm_chunk_publish(pool, chunk);
			stale |= chunk->access != pool->access;
			continue;
		}
		given += chunk->size;
		gm_chunk_note(pool, chunk, GM_RECORD_UNMAP, 0, 0);
		gm_chunk_forget(pool, chunk);
	}
	pool->given += given;
	end_giving(pool);
	if (stale)
		gm_access_refresh(pool);
	return given;
}

uint64_t gm_pool_shed(struct gm_pool *pool, uint64_t bytes)
{
	uint64_t given = gm_pool_give(pool, gm_chunks_detach(pool, bytes));
	pool->exchanged += given;
	return given;
}

void gm_pool_await_given(struct gm_pool *pool)
{
	while (pool->giving)
		gm_lock_wait(&pool->lock, &pool->given_back);
}

uint64_t gm_pool_give_back(struct gm_pool *pool, uint64_t keep, bool settle)
{
	uint64_t given = 0;
	if (settle)
		gm_pool_settle(pool);
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	gm_shelves_empty(pool); /* and pool->idle is all there is */
	if (pool->idle > keep)
		given = gm_pool_give(pool, gm_chunks_detach(pool, pool->idle - keep));
	gm_pool_await_given(pool);
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	return given;
}
