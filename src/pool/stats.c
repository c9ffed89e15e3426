/* SPDX-License-Identifier: BSD-3-Clause */
/* The sums of a pool, their copies in the live counters, and what is computed from them. */
#include "base/clock.h"
#include "log/log.h"
#include "pool/internal.h"

static void set(const struct gm_pool *pool, enum gm_counter counter, uint64_t value)
{
	gm_counter_set(pool->config.ordinal, counter, value);
}

static void set_live(const struct gm_pool *pool)
{
	set(pool, GM_C_requested, pool->requested);
	set(pool, GM_C_handed_out, pool->handed_out);
	set(pool, GM_C_idle, pool->idle);
	set(pool, GM_C_live_blocks, pool->live_blocks);
}

void gm_pool_count_live(struct gm_pool *pool, uint64_t size, uint64_t held)
{
	pool->requested += size;
	pool->handed_out += held;
	pool->idle -= held;
	pool->live_blocks++;
	set_live(pool);
	if (pool->requested <= pool->requested_peak)
		return;
	pool->requested_peak = pool->requested;
	if (gm_counter_raise(pool->config.ordinal, GM_C_requested_peak, pool->requested))
		set(pool, GM_C_requested_peak_time, gm_clock_ns());
}

void gm_pool_count_freed(struct gm_pool *pool, uint64_t size, uint64_t held)
{
	pool->requested -= size;
	pool->handed_out -= held;
	pool->idle += held;
	pool->live_blocks--;
	set_live(pool);
}

/* A freed block's memory is not idle yet. */
void gm_pool_count_retired(struct gm_pool *pool, uint64_t held)
{
	pool->idle -= held;
	pool->retired += held;
	set(pool, GM_C_idle, pool->idle);
	set(pool, GM_C_retired, pool->retired);
	gm_counter_raise(pool->config.ordinal, GM_C_retired_peak, pool->retired);
}

void gm_pool_count_settled(struct gm_pool *pool, uint64_t held)
{
	pool->idle += held;
	pool->retired -= held;
	set(pool, GM_C_idle, pool->idle);
	set(pool, GM_C_retired, pool->retired);
}

static void set_chunks(const struct gm_pool *pool)
{
	set(pool, GM_C_mapped, pool->mapped);
	set(pool, GM_C_idle, pool->idle);
}

void gm_pool_count_chunk(struct gm_pool *pool, uint64_t size)
{
	pool->n_chunks++;
	pool->mapped += size;
	pool->idle += size;
	set_chunks(pool);
	if (pool->mapped <= pool->mapped_peak)
		return;
	pool->mapped_peak = pool->mapped;
	if (gm_counter_raise(pool->config.ordinal, GM_C_mapped_peak, pool->mapped))
		set(pool, GM_C_mapped_peak_time, gm_clock_ns());
}

void gm_pool_count_chunk_gone(struct gm_pool *pool, uint64_t size)
{
	pool->n_chunks--;
	pool->mapped -= size;
	pool->idle -= size;
	pool->pending += size;
	set_chunks(pool);
}

void gm_pool_count_lent(struct gm_pool *pool, uint64_t lent)
{
	pool->lent = lent;
	set(pool, GM_C_lent, lent);
}

/* --- computed --- */

static bool is_free(const struct gm_extent *extent)
{
	if (!extent)
		return false;
	if (GM_GET(extent->piece.state) == GM_SLAB) {
		const struct gm_slab *slab = GM_GET(extent->slab);
		return slab->n_free == slab->n;
	}
	return GM_GET(extent->piece.state) == GM_IDLE;
}

/* The longest run of idle extents; slabs kept empty for their class count as idle. */
static uint64_t largest_idle(const struct gm_pool *pool)
{
	const struct gm_extent *longest = gm_extent_longest(&pool->extents);
	uint64_t best = longest ? GM_GET(longest->piece.held) : 0;
	for (unsigned i = 0; i < GM_SLAB_CLASSES; i++) {
		const struct gm_slab *slab = pool->slabs.classes[i].empty;
		if (!slab)
			continue;
		const struct gm_extent *from = slab->extent;
		while (is_free(from->before))
			from = from->before;
		uint64_t run = 0;
		for (; is_free(from); from = from->after)
			run += GM_GET(from->piece.held);
		best = run > best ? run : best;
	}
	return best;
}

static void stats(const struct gm_pool *pool, struct gm_pool_stats *out)
{
	*out = (struct gm_pool_stats){
		.requested = pool->requested,
		.requested_peak = pool->requested_peak,
		.handed_out = pool->handed_out,
		.mapped = pool->mapped,
		.mapped_peak = pool->mapped_peak,
		.idle = pool->idle,
		.retired = pool->retired,
		.lent = pool->lent,
		.largest_idle = largest_idle(pool),
		.live_blocks = pool->live_blocks,
		.chunks = pool->n_chunks,
		.idle_extents = pool->extents.n_idle,
	};
	uint64_t whole = 0;
	for (const struct gm_chunk *chunk = pool->chunks; chunk; chunk = chunk->after) {
		if (chunk->pins)
			out->pinned += chunk->size;
		if (chunk->used)
			out->unreclaimable += chunk->size - chunk->used;
		else if (!chunk->pins)
			whole += chunk->size;
	}
	out->largest_after_remap = whole > out->largest_idle ? whole : out->largest_idle;
	for (unsigned i = 0; i < 64; i++)
		out->idle_histogram[i] = pool->extents.idle_histogram[i];
}

void gm_pool_stats(const struct gm_pool *pool, struct gm_pool_stats *out)
{
	gm_pool_lock(pool);
	stats(pool, out);
	gm_pool_unlock(pool);
}

void gm_pool_sample(const struct gm_pool *pool, struct gm_sample *out)
{
	struct gm_pool_stats s;
	gm_pool_stats(pool, &s);
	*out = (struct gm_sample){.requested = s.requested,
				  .handed_out = s.handed_out,
				  .mapped = s.mapped,
				  .idle = s.idle,
				  .retired = s.retired,
				  .lent = s.lent,
				  .largest_idle = s.largest_idle,
				  .largest_after_remap = s.largest_after_remap,
				  .unreclaimable = s.unreclaimable,
				  .pinned = s.pinned,
				  .live_blocks = s.live_blocks,
				  .chunks = s.chunks,
				  .idle_extents = s.idle_extents,
				  .device_total = pool->memory,
				  .limit = pool->config.limit};
}

void gm_pool_snapshot(const struct gm_pool *pool, size_t asked)
{
	if (!gm_log_wants(GM_RECORD_OUT_OF_MEMORY))
		return;
	struct gm_sample sample;
	gm_pool_sample(pool, &sample);
	struct gm_record record = {.size = asked,
				   .device = (uint8_t)pool->config.ordinal,
				   .status = CUDA_ERROR_OUT_OF_MEMORY,
				   .kind = GM_RECORD_OUT_OF_MEMORY};
	gm_log_put_sample(&record, &sample);
}
