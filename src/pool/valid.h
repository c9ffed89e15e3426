/* SPDX-License-Identifier: BSD-3-Clause */
/* The invariants of a pool (gm_pool_is_valid, pool.h), and their checks in debug builds. */
#ifndef GM_POOL_VALID_H
#define GM_POOL_VALID_H

#include <stdbool.h>

#include "pool/pool.h"

/* gm_pool_is_valid under all locks of the pool. */
bool gm_pool_check(const struct gm_pool *pool, const char **why);

/* At entry and exit of every mutator of a debug build: abort if an invariant is broken. A large
 * pool is checked at every 64th call. debug_check: the pool's lock and no other is held;
 * debug_visit: no lock is held. */
#ifdef GM_DEBUG
void gm_pool_debug_check(struct gm_pool *pool);
void gm_pool_debug_visit(struct gm_pool *pool);
#else
static inline void gm_pool_debug_check(struct gm_pool *pool)
{
	(void)pool;
}
static inline void gm_pool_debug_visit(struct gm_pool *pool)
{
	(void)pool;
}
#endif

#endif
