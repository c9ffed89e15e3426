/* SPDX-License-Identifier: BSD-3-Clause */
/* The sums of a pool, their copies in the live counters, and what is computed from them. */
#include "base/clock.h"
#include "log/frag.h"
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

/* One run more, or (`n` -1) one less. */
static void count_run(struct gm_pool_stats *out, uint64_t length, int n)
{
	unsigned bin = 63 - (unsigned)__builtin_clzll(length);
	out->idle_extents += (uint64_t)n;
	out->idle_histogram[bin] += (uint64_t)n;
	out->idle_bytes[bin] += (uint64_t)n * length;
}

/* An empty slab, kept for its class, makes one run of the idle extents around it. The first one of
 * a run speaks for all. */
static void join_empty(const struct gm_slab *slab, struct gm_pool_stats *out)
{
	const struct gm_extent *from = slab->extent;
	uint64_t run = 0;
	while (is_free(from->before)) {
		from = from->before;
		if (GM_GET(from->piece.state) == GM_SLAB)
			return;
	}
	for (; is_free(from); from = from->after) {
		run += GM_GET(from->piece.held);
		if (GM_GET(from->piece.state) == GM_IDLE)
			count_run(out, GM_GET(from->piece.held), -1);
	}
	count_run(out, run, 1);
	out->largest_idle = run > out->largest_idle ? run : out->largest_idle;
}

/* The runs of idle addresses. */
static void count_runs(const struct gm_pool *pool, struct gm_pool_stats *out)
{
	const struct gm_extent *longest = gm_extent_longest(&pool->extents);
	out->largest_idle = longest ? GM_GET(longest->piece.held) : 0;
	out->idle_extents = pool->extents.n_idle;
	for (unsigned i = 0; i < 64; i++) {
		out->idle_histogram[i] = pool->extents.idle_histogram[i];
		out->idle_bytes[i] = pool->extents.idle_bytes[i];
	}
	for (unsigned i = 0; i < GM_SLAB_CLASSES; i++)
		if (pool->slabs.classes[i].empty)
			join_empty(pool->slabs.classes[i].empty, out);
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
		.live_blocks = pool->live_blocks,
		.chunks = pool->n_chunks,
	};
	uint64_t whole = 0;
	count_runs(pool, out);
	for (const struct gm_chunk *chunk = pool->chunks; chunk; chunk = chunk->after) {
		if (chunk->pins)
			out->pinned += chunk->size;
		if (chunk->used)
			out->unreclaimable += chunk->size - chunk->used;
		else if (!chunk->pins)
			whole += chunk->size;
	}
	out->largest_after_remap = whole > out->largest_idle ? whole : out->largest_idle;
}

void gm_pool_stats(const struct gm_pool *pool, struct gm_pool_stats *out)
{
	gm_pool_lock(pool);
	stats(pool, out);
	gm_pool_unlock(pool);
}

/* The bins of a sample begin at powers of two as well: none of these is split. */
static void sample_runs(const struct gm_pool_stats *s, struct gm_sample *out)
{
	uint64_t runs[GM_SAMPLE_BINS] = {0}, units[GM_SAMPLE_BINS] = {0};
	for (unsigned i = 0; i < 64; i++) {
		unsigned bin = gm_frag_bin((uint64_t)1 << i);
		runs[bin] += s->idle_histogram[i];
		units[bin] += s->idle_bytes[i] / GM_SAMPLE_UNIT;
	}
	for (unsigned i = 0; i < GM_SAMPLE_BINS; i++) {
		out->idle_runs[i] = (uint16_t)(runs[i] < UINT16_MAX ? runs[i] : UINT16_MAX);
		out->idle_units[i] = (uint32_t)(units[i] < UINT32_MAX ? units[i] : UINT32_MAX);
	}
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
	sample_runs(&s, out);
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
