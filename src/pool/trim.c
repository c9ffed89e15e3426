/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trimming: what nobody needed for a while goes back to the driver, so that other processes get it.
 * Age is that of a chunk: the time since any of it was last in use. The list of wholly idle chunks
 * is in that order, so the oldest is its first. What lay on a shelf for so long comes first.
 */
#include "pool/internal.h"

/* What nobody took from its shelf for so long can make whole chunks idle. */
static void take_from_shelves(struct gm_pool *pool, uint64_t now)
{
	if (now < pool->config.trim_after)
		return;
	gm_shelves_lock(pool);
	gm_shelves_flush(pool, now - pool->config.trim_after);
	gm_shelves_unlock(pool);
}

void gm_pool_tell_idle(struct gm_pool *pool)
{
	const struct gm_pool_config *config = &pool->config;
	if (config->idle && (config->keep == 0 || gm_pool_idle(pool) > config->keep))
		config->idle(config->idle_arg);
}

void gm_pool_trim_retired(struct gm_pool *pool)
{
	const struct gm_pool_config *config = &pool->config;
	if (!config->idle || !config->defer || !config->defer->record)
		return;
	uint64_t now = pool->look_at ? 0 : gm_pool_now(pool);
	if (!pool->look_at && __builtin_add_overflow(now, config->trim_after, &pool->look_at))
		pool->look_at = UINT64_MAX;
	if (gm_pool_idle(pool) + pool->retired > config->keep)
		config->idle(config->idle_arg);
}

/* What was retired may be idle by now. If it is not, another look is taken. */
static void look_at_retired(struct gm_pool *pool, uint64_t now)
{
	if (!pool->look_at || now < pool->look_at)
		return;
	gm_retired_collect(pool);
	pool->look_at = pool->retired ? now + pool->config.trim_after : 0;
}

/* The chunk that is to go next; NULL: none. */
static struct gm_chunk *due(const struct gm_pool *pool, uint64_t now)
{
	const struct gm_pool_config *config = &pool->config;
	if (config->trim_after == UINT64_MAX)
		return NULL;
	for (struct gm_chunk *chunk = pool->idle_first; chunk; chunk = chunk->idle_after) {
		if (now < chunk->idle_since || now - chunk->idle_since < config->trim_after)
			return NULL; /* nor has any after it */
		if (chunk->busy || chunk->pins || pool->idle - chunk->size < config->keep)
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
	gm_freed_collect(pool);
	look_at_retired(pool, now);
	take_from_shelves(pool, now);
	struct gm_chunk *chunk = due(pool, now);
	if (chunk && gm_chunk_detach(pool, chunk))
		given = gm_pool_give(pool, chunk);
	if (given) {
		gm_counter_add(pool->config.ordinal, GM_C_trim_calls, 1);
		gm_counter_add(pool->config.ordinal, GM_C_trim_bytes, given);
	}
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	return given;
}

uint64_t gm_pool_trim_next(const struct gm_pool *constant)
{
	struct gm_pool *pool = (struct gm_pool *)constant;
	uint64_t next = UINT64_MAX, since = UINT64_MAX;
	gm_pool_lock(pool);
	gm_freed_collect(pool); /* which sets when to look at it */
	if (gm_pool_idle(pool) > pool->config.keep)
		since = gm_shelves_oldest(pool);
	if (pool->idle_first && gm_pool_idle(pool) > pool->config.keep &&
	    pool->idle_first->idle_since < since)
		since = pool->idle_first->idle_since;
	if (__builtin_add_overflow(since, pool->config.trim_after, &next))
		next = UINT64_MAX;
	if (pool->look_at && pool->look_at < next &&
	    gm_pool_idle(pool) + pool->retired > pool->config.keep)
		next = pool->look_at;
	gm_pool_unlock(pool);
	return next;
}

uint64_t gm_pool_given(const struct gm_pool *pool)
{
	gm_pool_lock(pool);
	uint64_t given = pool->given;
	gm_pool_unlock(pool);
	return given;
}
