/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/patience.h"

#include "base/clock.h"
#include "base/sys.h"
#include "log/count.h"

uint64_t gm_patience_bound(const struct gm_pool *pool)
{
	const struct gm_pool_config *config = &pool->config;
	uint64_t part = gm_share_of(gm_pool_live(pool), config->retire_ppm);
	uint64_t bound = part < GM_PATIENCE_FREE ? GM_PATIENCE_FREE : part;
	return config->retire_ppm && bound < config->retire ? bound : config->retire;
}

static bool pool_may_wait(const struct gm_pool *pool)
{
	const struct gm_fence_ops *fences = pool->config.fences;
	return gm_patience_is_needed(pool) && fences->record &&
	       (!fences->is_quiet || fences->is_quiet());
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

/* Sleep until the next poll; returns ns. */
static uint64_t pool_nap(const struct gm_pool *pool)
{
	uint64_t begin = gm_clock_ns();
	if (pool->config.fences->nap) {
		pool->config.fences->nap(pool->config.fence_arg, GM_PATIENCE_NAP);
		return GM_PATIENCE_NAP;
	}
	gm_sys_nap(GM_PATIENCE_NAP / 5); /* the kernel adds the rest */
	return gm_clock_ns() - begin;
}

/* The ns that allocations may wait from now on. */
static uint64_t pool_allowance(struct gm_pool *pool)
{
	const uint64_t most = GM_PATIENCE_TIME / GM_PATIENCE_SHARE;
	uint64_t now = pool->config.clock ? pool->config.clock() : gm_clock_ns();
	uint64_t past = now > pool->patience_at ? now - pool->patience_at : 0;
	uint64_t more = past < GM_PATIENCE_TIME ? past / GM_PATIENCE_SHARE : most;
	pool->patience = pool->patience + more < most ? pool->patience + more : most;
	pool->patience_at = now;
	return pool->patience;
}

/* Under the lock, which is dropped meanwhile; returns the bytes put back. */
static uint64_t pool_wait(struct gm_pool *pool, struct gm_want want)
{
	uint64_t bytes = 0, slept = 0, most = pool_allowance(pool);
	most = most < GM_PATIENCE_CALL ? most : GM_PATIENCE_CALL;
	while (slept + GM_PATIENCE_NAP <= most && pool_may_wait(pool) && pool_is_pending(pool) &&
	       !gm_extents_fit(&pool->extents, want.length, want.align)) {
		gm_pool_unlock(pool);
		uint64_t nap = pool_nap(pool);
		gm_pool_lock(pool);
		slept += nap;
		pool->patience -= nap < pool->patience ? nap : pool->patience;
		bytes += gm_limbo_ask(pool);
	}
	if (slept) {
		gm_counter_add(pool->config.ordinal, GM_C_reclaim_waits, 1);
		gm_counter_add(pool->config.ordinal, GM_C_reclaim_wait_ns, slept);
	}
	return bytes;
}

bool gm_patience_wait(struct gm_pool *pool, struct gm_want want)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (!pool_may_wait(pool))
		return false;
	uint64_t bytes = gm_limbo_collect(pool);
	return bytes + pool_wait(pool, want) > 0;
}
