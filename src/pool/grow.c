/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The steps of a growth (gm_pool_map), and the pool's lock:
 *
 *     growth_plan       held       new chunks, addresses for these and for moved chunks
 *     growth_assemble   released   cuMemCreate and cuMemMap for new chunks; moves
 *     chunks_freshen    released   only if access was granted or revoked meanwhile
 *     growth_finish     held       publishes or ends each chunk; frees unused addresses
 */
#include "pool/grow.h"

#include "base/clock.h"
#include "pool/internal.h"
#include "pool/lend.h"
#include "pool/peer.h"
#include "pool/stats.h"
#include "pool/trim.h"
#include "pool/valid.h"

/* --- limits; the pool's lock is held --- */

/* The part of the limit that memory outside of the pool leaves. */
static uint64_t pool_limit(const struct gm_pool *pool)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	const uint64_t limit = pool->config.limit;
	const uint64_t outside = pool->config.outside ? GM_GET(*pool->config.outside) : 0;
	if (limit == UINT64_MAX)
		return limit;
	return limit > outside ? limit - outside : 0;
}

uint64_t gm_pool_most(const struct gm_pool *pool)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	const uint64_t limit = pool_limit(pool);
	return limit < pool->memory ? limit : pool->memory;
}

uint64_t gm_pool_committed(const struct gm_pool *pool)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	return pool->mapped - GM_GET(pool->vacant) + pool->lent + pool->pending;
}

uint64_t gm_pool_room(const struct gm_pool *pool)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	const uint64_t limit = pool_limit(pool);
	const uint64_t committed = gm_pool_committed(pool);
	return limit > committed ? limit - committed : 0;
}

bool gm_pool_outside_take(struct gm_pool *pool, uint64_t bytes)
{
	gm_pool_lock(pool);
	const bool allowed = bytes <= gm_pool_room(pool);
	if (allowed)
		atomic_fetch_add_explicit(pool->config.outside, bytes, memory_order_relaxed);
	gm_pool_unlock(pool);
	return allowed;
}

uint64_t gm_pool_excess(struct gm_pool *pool, uint64_t length)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	gm_shelves_empty(pool); /* adds their sums to the pool's */
	uint64_t most = gm_pool_most(pool);
	uint64_t kept = pool->handed_out - GM_GET(pool->vacant) + gm_pool_waiting(pool) +
			pool->lent - pool->spare;
	uint64_t rest = most > kept ? most - kept : 0;
	return kept > most ? length + (kept - most) : length > rest ? length - rest : 0;
}

uint64_t gm_pool_shortfall(const struct gm_pool *pool, struct gm_want want, CUdeviceptr *at)
{
	uint64_t least = gm_round_up(want.length, GM_POOL_GRANULE);
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	*at = 0;
	for (const struct gm_run *run = pool->range.free; run; run = run->next) {
		const struct gm_extent *tail = gm_table_ends_at(&pool->table, run->base);
		if (!tail || GM_GET(tail->piece.state) != GM_IDLE ||
		    (tail->piece.stamp && !gm_hot_is_for(pool, want.context)))
			continue;
		CUdeviceptr from = gm_round_up(GM_GET(tail->piece.base), want.align);
		if (from >= run->base || run->base - from >= want.length)
			continue;
		uint64_t bytes = gm_round_up(want.length - (run->base - from), GM_POOL_GRANULE);
		if (bytes < least && bytes <= run->size) {
			least = bytes;
			*at = run->base;
		}
	}
	return least;
}

/* --- planning; the pool's lock is held --- */

/* The first 1/32 of the memory has handles of any length. After that a handle has at most 1/128 of
 * the memory, times the square of the part not taken, and is a multiple of the shortest. */
#define WHOLE 32
#define PART 128
#define LONGEST (512 * GM_MIB)
#define SHORTEST (32 * GM_MIB)
/* Short handles: at most 1/3072 of the part not taken, and 16 MiB. */
#define MOVED_PART 3072
#define MOVED_LONGEST (16 * GM_MIB)

/* Few long handles cost least. But a handle can only be returned or moved whole, and one live block
 * keeps all of it. So handles become shorter as the memory fills. They are short if freed memory is
 * used again at once, for then little of it is ever returned: it has to move instead. */
static uint64_t handle_longest(const struct gm_pool *pool, uint64_t bytes)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	uint64_t most = gm_pool_most(pool), taken = gm_pool_committed(pool);
	uint64_t rest = most > taken ? most - taken : 0;
	if (gm_pool_handles_are_short(pool)) {
		uint64_t part = rest / MOVED_PART;
		part = part < MOVED_LONGEST ? part : MOVED_LONGEST;
		return part > GM_POOL_GRANULE ? part - part % GM_POOL_GRANULE : GM_POOL_GRANULE;
	}
	if (taken + bytes <= most / WHOLE)
		return bytes;
	uint64_t part = rest ? (uint64_t)((unsigned __int128)rest * rest / PART / most) : 0;
	if (part >= LONGEST)
		return LONGEST;
	return part <= SHORTEST ? SHORTEST : part - part % SHORTEST;
}

uint64_t gm_pool_piece(const struct gm_pool *pool, uint64_t bytes)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (pool->config.chunk)
		return pool->config.chunk;
	uint64_t longest = handle_longest(pool, bytes);
	uint64_t n = longest ? (bytes + longest - 1) / longest : 0;
	return n ? gm_round_up(bytes / n, GM_POOL_GRANULE) : 0;
}

/* Append new chunks of at most `piece` bytes to the list that ends at *last. False: no host memory.
 */
static bool growth_add(struct gm_pool *pool, struct gm_chunk **last, uint64_t bytes, uint64_t piece)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
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

/* Assign each chunk its part of a run. False: no host memory; some chunks have no part. */
static bool growth_place(struct gm_pool *pool, struct gm_chunk *chunks, struct gm_run *run)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
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

static bool growth_plan(struct gm_pool *pool, CUdeviceptr at, struct gm_chunk **chunks,
			uint64_t bytes, uint64_t piece)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_chunk **last = chunks;
	uint64_t sum = bytes;
	for (; *last; last = &(*last)->after)
		sum += (*last)->size;
	if (bytes > gm_pool_room(pool) || !growth_add(pool, last, bytes, piece))
		return false;
	struct gm_run *run =
		at ? gm_range_take_at(&pool->range, at, sum) : gm_range_take(&pool->range, sum);
	return run && growth_place(pool, *chunks, run);
}

/* --- driver calls; no lock is held --- */

static void growth_unmake(struct gm_pool *pool, struct gm_chunk *chunks, const struct gm_chunk *end)
{
	for (; chunks != end; chunks = chunks->after) {
		gm_chunk_unmap(pool, chunks);
		gm_chunk_release(pool, chunks);
	}
}

static CUresult growth_make(struct gm_pool *pool, struct gm_chunk *chunks,
			    const struct gm_access *access)
{
	for (struct gm_chunk *chunk = chunks; chunk; chunk = chunk->after) {
		chunk->base = chunk->to->base;
		CUresult result = gm_chunk_create(pool, chunk, access);
		if (result != CUDA_SUCCESS) {
			growth_unmake(pool, chunks, chunk);
			return result;
		}
	}
	return CUDA_SUCCESS;
}

/* Map a chunk at its new addresses; on failure at the old ones, else release it. A hot one stays
 * mapped at both (alias.h). */
static CUresult chunk_move(struct gm_pool *pool, struct gm_chunk *chunk,
			   const struct gm_access *access)
{
	if (chunk->heat.stamp)
		return gm_chunk_map(pool, chunk, chunk->to->base, access);
	CUresult result = gm_chunk_unmap(pool, chunk);
	if (result != CUDA_SUCCESS)
		return result;
	result = gm_chunk_map(pool, chunk, chunk->to->base, access);
	if (result != CUDA_SUCCESS &&
	    gm_chunk_map(pool, chunk, chunk->run->base, access) != CUDA_SUCCESS)
		gm_chunk_release(pool, chunk);
	return result;
}

/* New chunks first: if the driver has no memory for them, nothing is moved. If a move fails, the
 * chunks moved before it stay at their new addresses. */
static CUresult growth_make_and_move(struct gm_pool *pool, struct gm_chunk *chunks,
				     const struct gm_access *access, uint64_t ns[2])
{
	struct gm_chunk *fresh = chunks;
	uint64_t begin = gm_clock_ns();
	while (fresh && fresh->run)
		fresh = fresh->after;
	CUresult result = growth_make(pool, fresh, access);
	ns[0] = gm_clock_ns() - begin;
	if (result != CUDA_SUCCESS)
		return result;
	for (struct gm_chunk *chunk = chunks; chunk != fresh; chunk = chunk->after) {
		if (chunk_move(pool, chunk, access) == CUDA_SUCCESS)
			continue;
		growth_unmake(pool, fresh, NULL);
		return CUDA_ERROR_OUT_OF_MEMORY; /* the next rung may succeed */
	}
	ns[1] = gm_clock_ns() - begin - ns[0];
	return CUDA_SUCCESS;
}

/* A hot chunk that did not move may be in use where it is. */
static void chunk_await(struct gm_pool *pool, const struct gm_chunk *chunk)
{
	if (!chunk->heat.stamp || !chunk->run || chunk->base != chunk->run->base)
		return;
	gm_epoch_seal(chunk->heat.epoch, chunk->heat.stamp);
	gm_epoch_wait(pool, chunk->heat.epoch);
}

/* Apply grants and revocations made meanwhile. A chunk whose access cannot be set is released. */
static CUresult chunk_change_access(struct gm_pool *pool, struct gm_chunk *chunks,
				    const struct gm_access *access)
{
	CUresult worst = CUDA_SUCCESS;
	for (struct gm_chunk *chunk = chunks; chunk; chunk = chunk->after) {
		if (!chunk->handle)
			continue;
		CUresult result = gm_access_set(pool->driver, chunk->base, chunk->size, access);
		chunk->access = access->generation;
		if (result == CUDA_SUCCESS)
			continue;
		worst = result;
		chunk_await(pool, chunk);
		gm_chunk_unmap(pool, chunk);
		gm_chunk_release(pool, chunk);
	}
	return worst;
}

/* --- the result; the pool's lock is held --- */

/* Make a planned chunk idle at its present addresses, and free its other addresses. The total times
 * of creating and of moving are recorded with the first chunk of each. */
static void growth_finish(struct gm_pool *pool, struct gm_chunk *chunk, uint64_t ns[2])
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	bool is_new = !chunk->run, arrived = chunk->to && chunk->base == chunk->to->base;
	struct gm_run *rest = arrived ? chunk->run : chunk->to;
	CUdeviceptr old = rest ? rest->base : 0;
	if (arrived)
		chunk->run = chunk->to;
	chunk->to = NULL;
	if (rest && arrived && chunk->heat.stamp)
		gm_alias_add(pool, rest, &chunk->heat);
	else if (rest)
		gm_range_put(&pool->range, rest);
	if (!chunk->handle) {
		if (!is_new)
			gm_chunk_record(pool, chunk, GM_RECORD_UNMAP, 0, 0);
		gm_chunk_forget(pool, chunk);
		return;
	}
	if (is_new)
		chunk->serial = ++pool->chunk_serial;
	gm_chunk_publish(pool, chunk);
	if (!arrived)
		return;
	gm_chunk_record(pool, chunk, is_new ? GM_RECORD_MAP : GM_RECORD_REMAP, ns[!is_new], old);
	ns[!is_new] = 0;
}

/* Was access granted or revoked while the chunks were in no list of the pool? */
static bool chunks_are_stale(const struct gm_pool *pool, const struct gm_chunk *chunks)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	while (chunks && (!chunks->handle || chunks->access == pool->access))
		chunks = chunks->after;
	return chunks != NULL;
}

static CUresult growth_assemble(struct gm_pool *pool, struct gm_chunk *chunks, uint64_t ns[2])
{
	struct gm_access access;
	gm_access_now(pool, true, &access);
	gm_pool_unlock(pool);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	CUresult result = growth_make_and_move(pool, chunks, &access, ns);
	gm_driver_quiet_end(pool->driver, mode);
	gm_pool_lock(pool);
	return result;
}

static CUresult chunks_freshen(struct gm_pool *pool, struct gm_chunk *chunks)
{
	struct gm_access access;
	gm_access_changes(pool, &access);
	gm_pool_unlock(pool);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	CUresult result = chunk_change_access(pool, chunks, &access);
	gm_driver_quiet_end(pool->driver, mode);
	gm_pool_lock(pool);
	return result;
}

void gm_pool_giving_end(struct gm_pool *pool)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (--pool->giving == 0)
		pthread_cond_broadcast(&pool->given_back);
}

CUresult gm_pool_map(struct gm_pool *pool, CUdeviceptr at, struct gm_chunk *idle, uint64_t bytes,
		     uint64_t piece)
{
	uint64_t ns[2] = {0};
	bool moves = idle != NULL;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	pool->giving += moves;
	if (growth_plan(pool, at, &idle, bytes, piece))
		result = growth_assemble(pool, idle, ns);
	while (chunks_are_stale(pool, idle)) {
		CUresult changed = chunks_freshen(pool, idle);
		result = result == CUDA_SUCCESS ? changed : result;
	}
	for (struct gm_chunk *chunk = idle, *after; chunk; chunk = after) {
		after = chunk->after;
		growth_finish(pool, chunk, ns);
	}
	if (moves)
		gm_pool_giving_end(pool);
	if (bytes && result == CUDA_SUCCESS)
		gm_pool_trim_regret(pool);
	return result;
}

CUresult gm_pool_prewarm(struct gm_pool *pool, uint64_t bytes)
{
	if (bytes > pool->memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (bytes == 0)
		return CUDA_SUCCESS;
	bytes = gm_round_up(bytes, GM_POOL_GRANULE);
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	CUresult result = gm_pool_map(pool, 0, NULL, bytes, gm_pool_piece(pool, bytes));
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	return result;
}

/* --- return to the driver --- */

uint64_t gm_pool_give(struct gm_pool *pool, struct gm_chunk *chunks)
{
	uint64_t given = 0;
	bool stale = false;
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (!chunks)
		return 0;
	pool->giving++;
	gm_aliases_end(pool); /* else the memory would stay with the device */
	gm_pool_unlock(pool);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	for (struct gm_chunk *chunk = chunks; chunk; chunk = chunk->after)
		if (gm_chunk_unmap(pool, chunk) == CUDA_SUCCESS)
			gm_chunk_release(pool, chunk);
	gm_driver_quiet_end(pool->driver, mode);
	gm_pool_lock(pool);
	for (struct gm_chunk *chunk = chunks, *after; chunk; chunk = after) {
		after = chunk->after;
		if (chunk->handle) { /* the driver did not unmap it */
			gm_chunk_publish(pool, chunk);
			stale |= chunk->access != pool->access;
			continue;
		}
		given += chunk->size;
		gm_chunk_record(pool, chunk, GM_RECORD_UNMAP, 0, 0);
		gm_chunk_forget(pool, chunk);
	}
	pool->given += given;
	gm_pool_giving_end(pool);
	if (stale)
		gm_access_refresh(pool);
	return given;
}

uint64_t gm_pool_shed(struct gm_pool *pool, uint64_t bytes)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	gm_hot_cool(pool, false);
	gm_shelves_empty(pool);
	uint64_t given = gm_pool_give(pool, gm_chunks_detach(pool, bytes));
	pool->exchanged += given;
	return given;
}

void gm_pool_await_given(struct gm_pool *pool)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	while (pool->giving)
		gm_lock_wait(&pool->lock, &pool->given_back);
}

uint64_t gm_pool_give_back(struct gm_pool *pool, uint64_t keep, bool drain)
{
	uint64_t given = 0;
	if (drain)
		gm_pool_drain(pool);
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	if (drain)
		gm_pool_recall(pool);
	gm_shelves_empty(pool);
	gm_hot_cool(pool, drain);
	uint64_t idle = gm_pool_stock(pool);
	if (idle > keep)
		given = gm_pool_give(pool, gm_chunks_detach(pool, idle - keep));
	gm_pool_await_given(pool);
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	return given;
}
