/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/alias.h"

#include <stdlib.h>

#include "log/count.h"
#include "pool/epoch.h"
#include "pool/grow.h"
#include "pool/internal.h"

bool gm_alias_is_allowed(const struct gm_pool *pool, uint64_t context)
{
	return context && pool->n_aliases < GM_ALIASES && gm_hot_is_for(pool, context);
}

void gm_alias_add(struct gm_pool *pool, struct gm_run *run, const struct gm_heat *heat)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	run->epoch = heat->epoch;
	run->stamp = heat->stamp;
	/* A fence of the pool covers it, too: the order drops its own when a later one comes. */
	gm_epoch_seal(heat->epoch, heat->stamp);
	run->next = pool->aliases;
	pool->aliases = run;
	pool->n_aliases++;
	gm_counter_add(pool->config.ordinal, GM_C_ordered_moves, 1);
}

void gm_aliases_ask(struct gm_pool *pool, bool wait)
{
	for (struct gm_epoch *epoch = pool->epochs; epoch; epoch = epoch->next) {
		if (epoch->sealed <= epoch->passed)
			continue;
		if (wait)
			gm_epoch_wait(pool, epoch);
		else
			gm_epoch_poll(pool, epoch);
	}
}

/* Take the aliases that a fence covers off the list. */
static struct gm_run *aliases_take(struct gm_pool *pool)
{
	struct gm_run *taken = NULL;
	for (struct gm_run **link = &pool->aliases, *run; (run = *link);) {
		if (run->stamp > GM_GET(run->epoch->passed)) {
			link = &run->next;
			continue;
		}
		*link = run->next;
		run->next = taken;
		taken = run;
		pool->n_aliases--;
	}
	return taken;
}

void gm_aliases_end(struct gm_pool *pool)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_run *taken = aliases_take(pool);
	if (!taken)
		return;
	pool->giving++;
	gm_pool_unlock(pool);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	/* Addresses that the driver does not unmap are never used again. */
	struct gm_run *unmapped = NULL;
	for (struct gm_run *run = taken, *next; run; run = next) {
		next = run->next;
		if (pool->driver->cuMemUnmap(run->base, run->size) != CUDA_SUCCESS) {
			free(run);
			continue;
		}
		run->next = unmapped;
		unmapped = run;
	}
	gm_driver_quiet_end(pool->driver, mode);
	gm_pool_lock(pool);
	for (struct gm_run *run = unmapped, *next; run; run = next) {
		next = run->next;
		gm_range_put(&pool->range, run);
	}
	gm_pool_giving_end(pool);
}

void gm_aliases_close(struct gm_pool *pool)
{
	for (struct gm_run *run = pool->aliases, *next; run; run = next) {
		next = run->next;
		pool->driver->cuMemUnmap(run->base, run->size);
		free(run);
	}
	pool->aliases = NULL;
}

const char *gm_aliases_check(const struct gm_pool *pool)
{
	unsigned n = 0;
	for (const struct gm_run *run = pool->aliases; run; run = run->next, n++)
		if (gm_chunk_at(pool, run->base) || gm_chunk_at(pool, run->base + run->size - 1))
			return "no chunk is at the addresses of an alias";
	return n == pool->n_aliases ? NULL : "aliases are counted";
}
