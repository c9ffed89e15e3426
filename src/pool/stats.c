/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/stats.h"

#include <sched.h>

#include "base/clock.h"
#include "base/tick.h"
#include "log/frag.h"
#include "log/log.h"

#define TRIES 8	      /* most calls of `ask` in gm_pool_stats_beside */
#define PATIENCE 1000 /* most polls before each, for a moment without driver calls */

static void gauge_set(const struct gm_pool *pool, enum gm_counter counter, uint64_t value)
{
	gm_counter_set(pool->config.ordinal, counter, value);
}

/* For gauges that several threads change at the same time. */
static void gauge_change(const struct gm_pool *pool, enum gm_counter counter, uint64_t by)
{
	gm_counter_add(pool->config.ordinal, counter, by);
}

/* --- with the sums of the shelves --- */

uint64_t gm_pool_waiting(const struct gm_pool *pool)
{
	uint64_t waiting = GM_GET(pool->stranded);
	for (unsigned i = 0; i < GM_GET(pool->n_shelves); i++)
		waiting += GM_GET(pool->shelves[i].retired);
	return waiting;
}

uint64_t gm_pool_retired(const struct gm_pool *pool)
{
	return gm_pool_waiting(pool) + gm_hot_bytes(pool);
}

uint64_t gm_pool_live(const struct gm_pool *pool)
{
	uint64_t live = GM_GET(pool->handed_out);
	for (unsigned i = 0; i < GM_GET(pool->n_shelves); i++)
		live += GM_GET(pool->shelves[i].handed_out);
	return (int64_t)live > 0 ? live : 0;
}

static uint64_t pool_rest(const struct gm_pool *pool, uint64_t others)
{
	uint64_t rest = GM_GET(pool->mapped) - gm_pool_live(pool) - others;
	return (int64_t)rest > 0 ? rest : 0;
}

uint64_t gm_pool_idle(const struct gm_pool *pool)
{
	return pool_rest(pool, gm_pool_retired(pool));
}

uint64_t gm_pool_stock(const struct gm_pool *pool)
{
	return pool_rest(pool, gm_pool_waiting(pool));
}

void gm_pool_sum_up(struct gm_pool *pool)
{
	gm_pool_assert_all_held(pool);
	for (unsigned i = 0; i < pool->n_shelves; i++) {
		struct gm_shelf *shelf = &pool->shelves[i];
		int64_t requested = (int64_t)shelf->requested;
		pool->requested += shelf->requested;
		pool->handed_out += shelf->handed_out;
		pool->live_blocks += shelf->live_blocks;
		pool->granted -= requested;
		shelf->allowance -= requested;
		shelf->most -= requested;
		shelf->requested = shelf->live_blocks = 0;
		shelf->handed_out = 0;
	}
}

/* Divide the bytes below the peak: each shelf gets as much as it used of its last allowance, while
 * enough is left; then `first`, the shelf that needs more, gets half of the remainder. */
static void allowances_grant(struct gm_pool *pool, struct gm_shelf *first)
{
	int64_t spare = (int64_t)(pool->requested_peak - pool->requested);
	unsigned n = pool->n_shelves, from = (unsigned)(first - pool->shelves);
	gm_pool_assert_all_held(pool);
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

/* The allowances are used up: this block may make a new peak. */
static void peak_count(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size, uint64_t held)
{
	gm_shelves_lock(pool);
	gm_pool_sum_up(pool);
	pool->requested += size;
	pool->handed_out += held;
	pool->live_blocks++;
	gm_pool_show_live(pool, size, held, 1, GM_C_idle);
	bool higher = pool->requested > pool->requested_peak;
	if (higher)
		pool->requested_peak = pool->requested;
	allowances_grant(pool, shelf);
	gm_shelves_unlock(pool);
	if (higher &&
	    gm_counter_raise(pool->config.ordinal, GM_C_requested_peak, pool->requested_peak))
		gauge_set(pool, GM_C_requested_peak_time, gm_clock_ns());
}

void gm_pool_count_live(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size, uint64_t held)
{
	int64_t spare = (int64_t)(pool->requested_peak - pool->requested) - pool->granted;
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	gm_futex_lock_take(&shelf->lock);
	int64_t lacks = (int64_t)(shelf->requested + size) - shelf->allowance;
	if (lacks > 0 && lacks <= spare) {
		int64_t more = lacks + (spare - lacks) / 2;
		shelf->allowance += more;
		pool->granted += more;
	}
	bool counted = gm_shelf_count(pool, shelf, size, held);
	gm_futex_lock_release(&shelf->lock);
	if (!counted)
		peak_count(pool, shelf, size, held);
}

/* --- sums of the pool alone --- */

void gm_pool_count_freed(struct gm_pool *pool, uint64_t size, uint64_t held)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	pool->requested -= size;
	pool->handed_out -= held;
	pool->live_blocks--;
	gm_pool_show_live(pool, -size, -held, (uint64_t)-1, GM_C_idle);
}

void gm_pool_show_reclaimed(const struct gm_pool *pool, uint64_t bytes)
{
	_Atomic uint64_t *parts = gm_count_device(pool->config.ordinal);
	gm_count_in(parts, pool->config.ordinal, GM_C_idle, bytes);
	gm_count_in(parts, pool->config.ordinal, GM_C_retired, -bytes);
}

void gm_pool_count_retired_peak(const struct gm_pool *pool)
{
	gm_counter_raise(pool->config.ordinal, GM_C_retired_peak, gm_pool_retired(pool));
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
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	pool->n_chunks++;
	pool->mapped += size;
	gm_shelves_resize(pool);
	gauge_change(pool, GM_C_idle, size);
	gauge_set(pool, GM_C_mapped, pool->mapped);
	if (pool->mapped <= pool->mapped_peak)
		return;
	pool->mapped_peak = pool->mapped;
	if (gm_counter_raise(pool->config.ordinal, GM_C_mapped_peak, pool->mapped))
		gauge_set(pool, GM_C_mapped_peak_time, gm_clock_ns());
}

void gm_pool_count_chunk_gone(struct gm_pool *pool, uint64_t size)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	pool->n_chunks--;
	pool->mapped -= size;
	gm_shelves_resize(pool);
	gauge_change(pool, GM_C_idle, -size);
	pool->pending += size;
	gauge_set(pool, GM_C_mapped, pool->mapped);
}

void gm_pool_count_lent(struct gm_pool *pool, uint64_t lent)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	pool->lent = lent;
	gauge_set(pool, GM_C_lent, lent);
}

void gm_pool_count_spare(struct gm_pool *pool, uint64_t spare)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	pool->spare = spare;
	gauge_set(pool, GM_C_heap_slack, spare);
	gm_counter_raise(pool->config.ordinal, GM_C_heap_slack_peak, spare);
}

/* --- computed figures --- */

static bool extent_is_free(const struct gm_extent *extent)
{
	if (!extent)
		return false;
	if (GM_GET(extent->piece.state) == GM_SLAB) {
		const struct gm_slab *slab = GM_GET(extent->slab);
		return slab->n_free == GM_GET(slab->n) && !slab->stamp;
	}
	return GM_GET(extent->piece.state) == GM_IDLE && !extent->piece.stamp;
}

/* Add a run of idle addresses (`n` is 1) or subtract it (-1). */
static void run_count(struct gm_pool_stats *out, uint64_t length, int n)
{
	unsigned bin = 63 - (unsigned)__builtin_clzll(length);
	out->idle_extents += (uint64_t)n;
	out->idle_histogram[bin] += (uint64_t)n;
	out->idle_bytes[bin] += (uint64_t)n * length;
}

/* Count an empty slab and the idle extents around it as one run. A run with several empty slabs is
 * counted at the first. */
static void slab_join_empty(const struct gm_slab *slab, struct gm_pool_stats *out)
{
	const struct gm_extent *from = slab->extent;
	uint64_t run = 0;
	while (extent_is_free(from->before)) {
		from = from->before;
		if (GM_GET(from->piece.state) == GM_SLAB)
			return;
	}
	for (; extent_is_free(from); from = from->after) {
		run += GM_GET(from->piece.held);
		if (GM_GET(from->piece.state) == GM_IDLE)
			run_count(out, GM_GET(from->piece.held), -1);
	}
	run_count(out, run, 1);
	out->largest_idle = run > out->largest_idle ? run : out->largest_idle;
}

/* Fill in the figures of the runs of idle addresses. */
static void runs_count(const struct gm_pool *pool, struct gm_pool_stats *out)
{
	const struct gm_extent *longest = gm_extent_longest_idle(&pool->extents);
	out->largest_idle = longest ? GM_GET(longest->piece.held) : 0;
	out->idle_extents = pool->extents.n_idle;
	for (unsigned i = 0; i < 64; i++) {
		out->idle_histogram[i] = pool->extents.idle_histogram[i];
		out->idle_bytes[i] = pool->extents.idle_bytes[i];
	}
	for (unsigned i = 0; i < GM_SLAB_CLASSES; i++)
		if (pool->slabs.classes[i].empty && !pool->slabs.classes[i].empty->stamp)
			slab_join_empty(pool->slabs.classes[i].empty, out);
}

/* Bytes in chunks that also hold live or retired blocks. */
static uint64_t beside_used(const struct gm_pool *pool, CUdeviceptr at, uint64_t bytes)
{
	uint64_t sum = 0;
	for (CUdeviceptr end = at + bytes; at < end;) {
		const struct gm_chunk *chunk = gm_chunk_at(pool, at);
		CUdeviceptr stop = chunk->base + chunk->size;
		sum += chunk->used ? (stop < end ? stop : end) - at : 0;
		at = stop;
	}
	return sum;
}

struct beside {
	const struct gm_pool *pool;
	uint64_t hot;
};

static bool extent_count_hot(void *arg, struct gm_extent *extent)
{
	struct beside *beside = arg;
	CUdeviceptr base = GM_GET(extent->piece.base);
	if (GM_GET(extent->piece.state) == GM_IDLE && extent->piece.stamp)
		beside->hot += beside_used(beside->pool, base, GM_GET(extent->piece.held));
	if (GM_GET(extent->piece.state) == GM_SLAB) {
		const struct gm_slab *slab = GM_GET(extent->slab);
		beside->hot +=
			beside_used(beside->pool, base, 1) ? (uint64_t)slab->n_hot * slab->slot : 0;
	}
	return true;
}

/* Hot bytes in chunks that also hold live or retired blocks. */
static uint64_t hot_beside_used(const struct gm_pool *pool)
{
	struct beside beside = {pool, 0};
	if (GM_GET(pool->extents.hot.bytes))
		gm_extent_each(&pool->extents, extent_count_hot, &beside);
	return beside.hot;
}

static void stats_fill(const struct gm_pool *pool, struct gm_pool_stats *out)
{
	*out = (struct gm_pool_stats){
		.requested = pool->requested,
		.requested_peak = pool->requested_peak,
		.handed_out = pool->handed_out,
		.mapped = pool->mapped,
		.mapped_peak = pool->mapped_peak,
		.idle = gm_pool_idle(pool),
		.retired = gm_pool_retired(pool),
		.lent = pool->lent,
		.spare = pool->spare,
		.made = pool->made,
		.away = pool->away,
		.vacant = GM_GET(pool->vacant),
		.hosted = GM_GET(pool->hosted),
		.stand_ins = pool->stand_ins,
		.live_blocks = pool->live_blocks,
		.chunks = pool->n_chunks,
	};
	uint64_t whole = 0;
	runs_count(pool, out);
	for (const struct gm_chunk *chunk = pool->chunks; chunk; chunk = chunk->after) {
		if (chunk->pins)
			out->pinned += chunk->size;
		if (chunk->used)
			out->unreclaimable += chunk->size - chunk->used;
		else if (!chunk->pins && !gm_hot_has_chunk(pool, chunk))
			whole += chunk->size;
	}
	out->unreclaimable -= hot_beside_used(pool);
	/* Idle chunks may lie in an extent that was joined with hot memory. */
	whole = whole < out->idle ? whole : out->idle;
	out->largest_after_remap = whole > out->largest_idle ? whole : out->largest_idle;
}

/* Nothing changes now, so the live counters are corrected as well: a count may be lost when their
 * page moves. */
static void stats_show(const struct gm_pool *pool)
{
	gauge_set(pool, GM_C_requested, pool->requested);
	gauge_set(pool, GM_C_handed_out, pool->handed_out);
	gauge_set(pool, GM_C_idle, gm_pool_idle(pool));
	gauge_set(pool, GM_C_retired, gm_pool_retired(pool));
	gm_pool_count_retired_peak(pool);
	gauge_set(pool, GM_C_live_blocks, pool->live_blocks);
}

static void stats_collect(struct gm_pool *pool, struct gm_pool_stats *out)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	gm_shelves_lock(pool);
	gm_shelves_flush(pool, UINT64_MAX); /* joins shelved blocks with their neighbours */
	stats_fill(pool, out);
	stats_show(pool);
	gm_shelves_unlock(pool);
}

void gm_pool_stats(const struct gm_pool *constant, struct gm_pool_stats *out)
{
	struct gm_pool *pool = (struct gm_pool *)constant;
	gm_pool_lock(pool);
	stats_collect(pool, out);
	gm_pool_unlock(pool);
}

/* The number of changes of physical memory so far. Waits for changes in progress to end, but not
 * for ever: the driver may be waiting for the caller. */
static uint64_t changes_await(const struct gm_pool *pool)
{
	for (unsigned i = 0;; i++) {
		gm_pool_lock(pool);
		bool done = !pool->changing || i == PATIENCE;
		uint64_t changes = pool->changes;
		gm_pool_unlock(pool);
		if (done)
			return changes;
		sched_yield();
	}
}

CUresult gm_pool_stats_beside(const struct gm_pool *constant, CUresult (*ask)(void *arg), void *arg,
			      struct gm_pool_stats *out)
{
	struct gm_pool *pool = (struct gm_pool *)constant;
	bool changed = true;
	CUresult result = CUDA_SUCCESS;
	for (unsigned i = 0; changed && i < TRIES; i++) {
		uint64_t before = changes_await(pool);
		result = ask(arg);
		gm_pool_lock(pool);
		changed = pool->changes != before || pool->changing;
		stats_collect(pool, out);
		gm_pool_unlock(pool);
	}
	return result;
}

/* The bins of a sample begin at powers of two as well, so no bin of the pool is split. */
static void runs_sample(const struct gm_pool_stats *s, struct gm_sample *out)
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
	runs_sample(&s, out);
}
