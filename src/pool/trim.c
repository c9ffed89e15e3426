/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/trim.h"

#include "pool/grow.h"
#include "pool/stats.h"
#include "pool/valid.h"

/* The most idle memory that leaves room for managed memory, at least config.keep. */
static uint64_t pool_most_idle(const struct gm_pool *pool)
{
	uint64_t managed = GM_GET(pool->managed);
	if (!managed)
		return UINT64_MAX;
	uint64_t taken = gm_pool_live(pool) + gm_pool_waiting(pool) + managed + pool->memory / 16;
	uint64_t most = taken < pool->memory ? pool->memory - taken : 0;
	return most > pool->config.keep ? most : pool->config.keep;
}

static bool pool_is_crowded(const struct gm_pool *pool)
{
	return GM_UNLIKELY(GM_GET(pool->managed)) && gm_pool_stock(pool) > pool_most_idle(pool);
}

/* Emptied of blocks not reused for config.trim_after, shelves may leave whole chunks idle. */
static void shelves_flush_old(struct gm_pool *pool, uint64_t now)
{
	bool crowded = pool_is_crowded(pool);
	if (!crowded && now < pool->trim_after)
		return;
	gm_shelves_lock(pool);
	gm_shelves_flush(pool, crowded ? now : now - pool->trim_after);
	gm_shelves_unlock(pool);
}

#define CROWDED_PAUSE 100000000u /* ns between two calls of config.crowded */

/* Idle parts of chunks in use cannot be returned, so the pool may stay crowded. */
static bool crowded_is_due(struct gm_pool *pool)
{
	uint64_t now = gm_pool_now(pool);
	if (now < GM_GET(pool->crowded_at))
		return false;
	GM_SET(pool->crowded_at, now + CROWDED_PAUSE);
	return true;
}

void gm_pool_tell_idle(struct gm_pool *pool)
{
	const struct gm_pool_config *config = &pool->config;
	if (config->idle && (config->keep == 0 || gm_pool_stock(pool) > config->keep))
		config->idle(config->idle_arg);
	if (config->crowded && pool_is_crowded(pool) && crowded_is_due(pool))
		config->crowded(config->idle_arg);
}

void gm_pool_make_room(struct gm_pool *pool, uint64_t managed)
{
	GM_SET(pool->managed, managed < pool->memory / 256 ? 0 : managed);
	if (pool_is_crowded(pool))
		gm_pool_give_back(pool, pool_most_idle(pool), false);
}

static bool pool_has_more_than_kept(const struct gm_pool *pool)
{
	return gm_pool_stock(pool) + gm_pool_waiting(pool) > pool->config.keep;
}

void gm_pool_trim_retired(struct gm_pool *pool)
{
	const struct gm_pool_config *config = &pool->config;
	uint64_t at;
	if (!config->defer || !config->fences->record || !pool_has_more_than_kept(pool))
		return;
	bool never = __builtin_add_overflow(gm_pool_now(pool), pool->trim_after, &at);
	pool->poll_at = never ? UINT64_MAX : at;
	config->idle(config->idle_arg);
}

/* Retired blocks may be idle by now. For the others the next poll is after config.trim_after. */
static void limbo_poll(struct gm_pool *pool, uint64_t now)
{
	if (!pool->poll_at || now < pool->poll_at)
		return;
	pool->poll_at = 0;
	gm_limbo_collect(pool);
	if (gm_pool_waiting(pool))
		pool->poll_at = now + pool->trim_after;
}

/* The chunk to return to the driver next; NULL: none is due. */
static struct gm_chunk *chunk_due(const struct gm_pool *pool, uint64_t now)
{
	const struct gm_pool_config *config = &pool->config;
	bool crowded = pool_is_crowded(pool);
	if (pool->trim_after == UINT64_MAX)
		return NULL;
	for (struct gm_chunk *chunk = pool->idle_first; chunk; chunk = chunk->idle_after) {
		if (!crowded &&
		    (now < chunk->idle_since || now - chunk->idle_since < pool->trim_after))
			return NULL; /* the following ones are younger */
		if (chunk->busy || chunk->pins || gm_hot_has_chunk(pool, chunk) ||
		    gm_pool_stock(pool) - chunk->size < config->keep)
			continue;
		return chunk;
	}
	return NULL;
}

uint64_t gm_pool_trim(struct gm_pool *pool, uint64_t now)
{
	uint64_t given = 0;
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	limbo_poll(pool, now);
	shelves_flush_old(pool, now);
	gm_hot_cool(pool, false);
	struct gm_chunk *chunk = chunk_due(pool, now);
	bool early = chunk &&
		     (now < chunk->idle_since || now - chunk->idle_since < pool->config.trim_after);
	if (chunk && gm_chunk_detach(pool, chunk))
		given = gm_pool_give(pool, chunk);
	if (given) {
		if (early && pool->trim_after < pool->config.trim_after)
			pool->given_early += given;
		gm_counter_add(pool->config.ordinal, GM_C_trim_calls, 1);
		gm_counter_add(pool->config.ordinal, GM_C_trim_bytes, given);
		gm_counter_add(pool->config.ordinal, GM_C_trim_early, early ? given : 0);
	}
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	return given;
}

void gm_pool_trim_sooner(struct gm_pool *pool, uint64_t after)
{
	const uint64_t most = pool->config.trim_after;
	gm_pool_lock(pool);
	if (after == UINT64_MAX)
		pool->regrets = 0;
	uint64_t later = after < most >> pool->regrets ? after << pool->regrets : most;
	pool->trim_after = later;
	uint64_t at = gm_pool_now(pool) + pool->trim_after;
	if (pool->poll_at > at)
		pool->poll_at = at;
	gm_pool_unlock(pool);
}

/* The time of the next poll of limbo; UINT64_MAX: not before another block is retired and
 * announced. Once each shelf's lock was held, the sums count all blocks retired before poll_at
 * became 0. */
static uint64_t limbo_poll_at(struct gm_pool *pool)
{
	uint64_t poll_at = pool->poll_at;
	if (poll_at && !pool_has_more_than_kept(pool)) {
		pool->poll_at = 0;
		gm_shelves_lock(pool);
		gm_shelves_unlock(pool);
		if (pool_has_more_than_kept(pool))
			pool->poll_at = poll_at;
	}
	return pool->poll_at ? pool->poll_at : UINT64_MAX;
}

uint64_t gm_pool_trim_next(struct gm_pool *pool)
{
	uint64_t next = UINT64_MAX, since = UINT64_MAX;
	gm_pool_lock(pool);
	bool crowded = pool->config.trim_after != UINT64_MAX && pool_is_crowded(pool) &&
		       (pool->idle_first || gm_shelves_oldest(pool) != UINT64_MAX);
	if (gm_pool_stock(pool) > pool->config.keep)
		since = gm_shelves_oldest(pool);
	if (pool->idle_first && gm_pool_stock(pool) > pool->config.keep &&
	    pool->idle_first->idle_since < since)
		since = pool->idle_first->idle_since;
	if (__builtin_add_overflow(since, pool->trim_after, &next))
		next = UINT64_MAX;
	uint64_t poll_at = limbo_poll_at(pool);
	gm_pool_unlock(pool);
	next = poll_at < next ? poll_at : next;
	uint64_t again = GM_GET(pool->crowded_at);
	return crowded && again < next ? again : next;
}

uint64_t gm_pool_given(const struct gm_pool *pool)
{
	gm_pool_lock(pool);
	uint64_t given = pool->given;
	gm_pool_unlock(pool);
	return given;
}
