/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trimming: what nobody needed for a while goes back to the driver, so that other processes get it.
 * Age is that of a chunk: the time since any of it was last in use. The list of wholly idle chunks
 * is in that order, so the oldest is its first.
 */
#include "pool/internal.h"

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

uint64_t gm_pool_trim_next(const struct gm_pool *pool)
{
	uint64_t next = UINT64_MAX;
	gm_pool_lock(pool);
	if (pool->idle_first && pool->idle > pool->config.keep &&
	    __builtin_add_overflow(pool->idle_first->idle_since, pool->config.trim_after, &next))
		next = UINT64_MAX;
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
