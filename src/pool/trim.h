/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Trimming: memory that was idle for config.trim_after is returned to the driver, for other
 * processes. The age of a chunk is the time since any part of it was last in use. The list of
 * wholly idle chunks is in this order, oldest first. Blocks that lay on a shelf for so long are put
 * into the extents first. Beside other processes the time is shorter (gm_pool_trim_sooner). If the
 * pool grows after such an early return, the return cost time and helped nobody for long: from then
 * on the shorter time is twice as long, up to config.trim_after. config.idle tells the trimming
 * thread that memory may be due soon, and gm_pool_trim (pool.h) returns it.
 */
#ifndef GM_POOL_TRIM_H
#define GM_POOL_TRIM_H

#include "pool/internal.h"

/* Is idle memory returned to the driver at once? */
static inline bool gm_pool_trims_at_once(const struct gm_pool *pool)
{
	return pool->config.idle && pool->config.trim_after == 0;
}

/* The pool has grown. The pool's lock is held. */
static inline void gm_pool_trim_regret(struct gm_pool *pool)
{
	pool->regrets += pool->given_early && pool->regrets < 32;
	pool->given_early = 0;
}

/* --- a lock of the pool or of a shelf may be held --- */

/* Memory became idle: call config.idle if there is more idle memory than config.keep, and
 * config.crowded if there is more than gm_pool_make_room allows. */
void gm_pool_tell_idle(struct gm_pool *pool);

/* A block was retired, poll_at is 0, and config.idle is not NULL: if there is more idle and retired
 * memory than config.keep, set poll_at and call config.idle. The shelf's lock is held. */
void gm_pool_trim_retired(struct gm_pool *pool);

#endif
