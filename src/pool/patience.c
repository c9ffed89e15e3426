/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/patience.h"

#include "base/sys.h"

uint64_t gm_patience_bound(const struct gm_pool *pool)
{
	uint64_t part = gm_pool_live(pool) / GM_PATIENCE_PART;
	uint64_t bound = part < GM_PATIENCE_FREE ? GM_PATIENCE_FREE : part;
	return bound < pool->config.retire ? bound : pool->config.retire;
}

static bool pool_may_wait(const struct gm_pool *pool)
{
	const struct gm_fence_ops *fences = pool->config.fences;
	return gm_patience_is_needed(pool) && fences->record &&
	       (!fences->is_quiet || fences->is_quiet());
}

/* Grows with each fence that passes. */
static uint64_t pool_passed(const struct gm_pool *pool)
{
	uint64_t sum = 0;
	for (const struct gm_epoch *epoch = pool->epochs; epoch; epoch = epoch->next)
		sum += GM_GET(epoch->passed);
	return sum;
}

/* Is there an event that may pass? */
static bool pool_is_pending(const struct gm_pool *pool)
{
	if (GM_GET(pool->stranded))
		return true;
	for (struct gm_epoch *epoch = pool->epochs; epoch; epoch = epoch->next)
		if (gm_epoch_is_pending(epoch))
			return true;
	return false;
}

static void pool_nap(const struct gm_pool *pool)
{
	if (pool->config.fences->nap)
		pool->config.fences->nap(pool->config.fence_arg, GM_PATIENCE_NAP);
	else
		gm_sys_nap(GM_PATIENCE_NAP / 2);
}

bool gm_patience_wait(struct gm_pool *pool, struct gm_want want)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (!pool_may_wait(pool))
		return false;
	uint64_t bytes = gm_limbo_collect(pool), passed = pool_passed(pool);
	for (unsigned n = 0, idle = 0; n < GM_PATIENCE_MOST && idle < GM_PATIENCE_NAPS; n++) {
		if (gm_extents_fit(&pool->extents, want.length, want.align) ||
		    !pool_may_wait(pool) || !pool_is_pending(pool))
			break;
		gm_pool_unlock(pool);
		pool_nap(pool);
		gm_pool_lock(pool);
		bytes += gm_limbo_ask(pool);
		uint64_t now = pool_passed(pool);
		idle = now == passed ? idle + 1 : 0;
		passed = now;
	}
	return bytes > 0;
}
