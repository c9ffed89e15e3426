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

/* Undo plan(), under the lock, for chunks that are mapped nowhere. */
static void undo_plan(struct gm_pool *pool, struct gm_chunk *chunks)
{
	for (struct gm_chunk *chunk = chunks, *after; chunk; chunk = after) {
		after = chunk->after;
		pool->pending -= chunk->size;
		gm_chunk_forget(pool, chunk);
	}
}

static struct gm_chunk *new_chunk(struct gm_pool *pool, struct gm_run *run)
{
	struct gm_chunk *chunk = calloc(1, sizeof *chunk);
	if (!chunk || !gm_extents_promise(&pool->extents)) {
		free(chunk);
		return NULL;
	}
	*chunk = (struct gm_chunk){.base = run->base, .size = run->size, .run = run};
	pool->pending += run->size;
	return chunk;
}

/* Chunks for a run of addresses, none made yet; NULL: no addresses, or no host memory. */
static struct gm_chunk *plan(struct gm_pool *pool, CUdeviceptr at, uint64_t bytes, uint64_t piece)
{
	struct gm_chunk *chunks = NULL, **last = &chunks;
	struct gm_run *run =
		at ? gm_range_take_at(&pool->range, at, bytes) : gm_range_take(&pool->range, bytes);
	while (run) {
		struct gm_run *rest = NULL;
		bool is_last = run->size <= piece;
		if (!is_last)
			rest = gm_range_cut(run, piece);
		struct gm_chunk *chunk = is_last || rest ? new_chunk(pool, run) : NULL;
		if (!chunk) {
			gm_range_put(&pool->range, run);
			if (rest)
				gm_range_put(&pool->range, rest);
			undo_plan(pool, chunks);
			return NULL;
		}
		*last = chunk;
		last = &chunk->after;
		run = rest;
	}
	return chunks;
}

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
		CUresult result = gm_chunk_create(pool, chunk, access);
		if (result != CUDA_SUCCESS) {
			unmake(pool, chunks, chunk);
			return result;
		}
	}
	return CUDA_SUCCESS;
}

static CUresult change_access(struct gm_pool *pool, struct gm_chunk *chunks,
			      const struct gm_access *access)
{
	for (struct gm_chunk *chunk = chunks; chunk; chunk = chunk->after) {
		CUresult result = pool->driver->cuMemSetAccess(chunk->base, chunk->size,
							       access->list, access->n);
		if (result != CUDA_SUCCESS) {
			unmake(pool, chunks, NULL);
			return result;
		}
		chunk->access = access->generation;
	}
	return CUDA_SUCCESS;
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

static void publish(struct gm_pool *pool, struct gm_chunk *chunks, uint64_t ns)
{
	for (struct gm_chunk *chunk = chunks, *after; chunk; chunk = after) {
		after = chunk->after;
		chunk->serial = ++pool->chunk_serial;
		pool->pending -= chunk->size;
		gm_chunk_publish(pool, chunk);
		gm_chunk_note(pool, chunk, GM_RECORD_MAP, ns, 0);
		ns = 0; /* of all, in the first record */
	}
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

CUresult gm_pool_map(struct gm_pool *pool, CUdeviceptr at, uint64_t bytes, uint64_t piece)
{
	if (bytes > gm_pool_room(pool))
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct gm_chunk *chunks = plan(pool, at, bytes, piece);
	if (!chunks)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct gm_access access;
	gm_access_now(pool, true, &access);
	gm_pool_unlock(pool);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	uint64_t begin = gm_clock_ns();
	CUresult result = make(pool, chunks, &access);
	uint64_t ns = gm_clock_ns() - begin;
	gm_driver_quiet_end(pool->driver, mode);
	gm_pool_lock(pool);
	while (result == CUDA_SUCCESS && access.generation != pool->access) {
		gm_access_changes(pool, &access);
		gm_pool_unlock(pool);
		mode = gm_driver_quiet_begin(pool->driver);
		result = change_access(pool, chunks, &access);
		gm_driver_quiet_end(pool->driver, mode);
		gm_pool_lock(pool);
	}
	if (result == CUDA_SUCCESS)
		publish(pool, chunks, ns);
	else
		undo_plan(pool, chunks);
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
		pool->pending -= chunk->size;
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
	if (--pool->giving == 0)
		pthread_cond_broadcast(&pool->given_back);
	if (stale)
		gm_access_refresh(pool);
	return given;
}

uint64_t gm_pool_shed(struct gm_pool *pool, uint64_t bytes)
{
	uint64_t given = gm_pool_give(pool, gm_chunks_detach(pool, bytes, false));
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
	if (pool->idle > keep)
		given = gm_pool_give(pool, gm_chunks_detach(pool, pool->idle - keep, false));
	gm_pool_await_given(pool);
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	return given;
}
