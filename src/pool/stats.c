/* SPDX-License-Identifier: BSD-3-Clause */
/* The sums of a pool, their copies in the live counters, and what is computed from them. */
#include "base/tick.h"
#include "log/frag.h"
#include "log/log.h"
#include "pool/internal.h"

static void set(const struct gm_pool *pool, enum gm_counter counter, uint64_t value)
{
	gm_counter_set(pool->config.ordinal, counter, value);
}

/* What threads change at the same time changes by differences. */
static void change(const struct gm_pool *pool, enum gm_counter counter, uint64_t by)
{
	gm_counter_add(pool->config.ordinal, counter, by);
}

static void change_idle(struct gm_pool *pool, uint64_t by)
{
	atomic_fetch_add_explicit(&pool->idle, by, memory_order_relaxed);
	change(pool, GM_C_idle, by);
}

/* --- with the sums of the shelves --- */

uint64_t gm_pool_idle(const struct gm_pool *pool)
{
	uint64_t idle = GM_GET(pool->idle);
	for (unsigned i = 0; i < GM_GET(pool->n_shelves); i++)
		idle -= GM_GET(pool->shelves[i].handed_out);
	return (int64_t)idle > 0 ? idle : 0;
}

void gm_pool_sum_up(struct gm_pool *pool)
{
	for (unsigned i = 0; i < pool->n_shelves; i++) {
		struct gm_shelf *shelf = &pool->shelves[i];
		int64_t requested = (int64_t)shelf->requested;
		pool->requested += shelf->requested;
		pool->handed_out += shelf->handed_out;
		pool->live_blocks += shelf->live_blocks;
		pool->idle -= shelf->handed_out;
		pool->granted -= requested;
		shelf->allowance -= requested;
		shelf->most -= requested;
		shelf->requested = shelf->live_blocks = 0;
		shelf->handed_out = 0;
	}
}

/* Share out what is left up to the peak: to each shelf what it used of its last allowance, as far
 * as it goes, and to the one that asks first half of the rest. */
static void grant(struct gm_pool *pool, struct gm_shelf *first)
{
	int64_t spare = (int64_t)(pool->requested_peak - pool->requested);
	unsigned n = pool->n_shelves, from = (unsigned)(first - pool->shelves);
	pool->granted = 0;
	for (unsigned i = 0; i < n; i++) {
		struct gm_shelf *shelf = &pool->shelves[(from + i) % n];
		shelf->allowance = shelf->most < spare ? shelf->most : spare;
		shelf->most = 0;
		spare -= shelf->allowance;
		pool->granted += shelf->allowance;
	}
	first->allowance += spare / 2;
	pool->granted += spare / 2;
}

/* Beyond all allowances: this block may make a new peak. */
static void count_at_peak(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size,
			  uint64_t held)
{
	gm_shelves_lock(pool);
	gm_pool_sum_up(pool);
	pool->requested += size;
	pool->handed_out += held;
	pool->idle -= held;
	pool->live_blocks++;
	gm_pool_show_live(pool, size, held, 1);
	bool higher = pool->requested > pool->requested_peak;
	if (higher)
		pool->requested_peak = pool->requested;
	grant(pool, shelf);
	gm_shelves_unlock(pool);
	if (higher &&
	    gm_counter_raise(pool->config.ordinal, GM_C_requested_peak, pool->requested_peak))
		set(pool, GM_C_requested_peak_time, gm_clock_ns());
}

void gm_pool_count_live(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size, uint64_t held)
{
	int64_t spare = (int64_t)(pool->requested_peak - pool->requested) - pool->granted;
	gm_quick_take(&shelf->lock);
	int64_t lacks = (int64_t)(shelf->requested + size) - shelf->allowance;
	if (lacks > 0 && lacks <= spare) {
		int64_t more = lacks + (spare - lacks) / 2;
		shelf->allowance += more;
		pool->granted += more;
	}
	bool counted = gm_shelf_count(pool, shelf, size, held);
	gm_quick_release(&shelf->lock);
	if (!counted)
		count_at_peak(pool, shelf, size, held);
}

/* --- what only the pool counts --- */

void gm_pool_count_freed(struct gm_pool *pool, uint64_t size, uint64_t held)
{
	pool->requested -= size;
	pool->handed_out -= held;
	pool->idle += held;
	pool->live_blocks--;
	gm_pool_show_live(pool, -size, -held, (uint64_t)-1);
}

/* The memory of freed blocks is not idle yet. */
void gm_pool_count_retired(struct gm_pool *pool, uint64_t bytes)
{
	change_idle(pool, -bytes);
	pool->retired += bytes;
	gm_counter_raise(pool->config.ordinal, GM_C_retired_peak, pool->retired);
	change(pool, GM_C_retired, bytes);
	gm_freed_bound(pool);
}

void gm_pool_count_settled(struct gm_pool *pool, uint64_t bytes)
{
	change_idle(pool, bytes);
	pool->retired -= bytes;
	change(pool, GM_C_retired, -bytes);
	gm_freed_bound(pool);
}

uint64_t gm_pool_count_fence(const struct gm_pool *pool, struct gm_timing call)
{
	unsigned device = pool->config.ordinal;
	_Atomic uint64_t *parts = gm_count_device(device);
	gm_count_in(parts, device, GM_C_fences, 1);
	if (!call.start)
		return 0;
	uint64_t end = gm_tick();
	gm_count_in(parts, device, GM_C_fence_ns, gm_timing_ns(call, end));
	return end;
}

void gm_pool_count_chunk(struct gm_pool *pool, uint64_t size)
{
	pool->n_chunks++;
	pool->mapped += size;
	gm_shelves_resize(pool);
	change_idle(pool, size);
	set(pool, GM_C_mapped, pool->mapped);
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
	gm_shelves_resize(pool);
	change_idle(pool, -size);
	pool->pending += size;
	set(pool, GM_C_mapped, pool->mapped);
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

/* While nothing changes, the live counters are set right as well: a count may be lost when their
 * page moves. */
static void show(const struct gm_pool *pool)
{
	set(pool, GM_C_requested, pool->requested);
	set(pool, GM_C_handed_out, pool->handed_out);
	set(pool, GM_C_idle, pool->idle);
	set(pool, GM_C_retired, pool->retired);
	set(pool, GM_C_live_blocks, pool->live_blocks);
}

void gm_pool_stats(const struct gm_pool *constant, struct gm_pool_stats *out)
{
	struct gm_pool *pool = (struct gm_pool *)constant;
	gm_pool_lock(pool);
	gm_shelves_lock(pool);
	gm_shelves_flush(pool, UINT64_MAX); /* the idle runs are what they can be */
	stats(pool, out);
	show(pool);
	gm_shelves_unlock(pool);
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
