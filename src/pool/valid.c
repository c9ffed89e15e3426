/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every invariant of a pool, each with the words that name it. A check visits all extents and
 * slots, then all chunks and the lists, and compares the sums.
 */
#include "pool/valid.h"

#include "pool/fit.h"
#include "pool/grow.h"
#include "pool/internal.h"
#include "pool/stats.h"

/* Debug builds check a pool with more blocks, or more allocated extents, once in TURNS calls. */
#define FEW_BLOCKS 64
#define FEW_EXTENTS 256
#define TURNS 64

struct sums {
	const struct gm_pool *pool;
	const char *why;
	uint64_t requested, handed_out, idle, retired, live_blocks, n_idle, n_retired;
	uint64_t shelved, n_shelved, hot;
};

/* Record the broken invariant; always false. */
static bool sums_break(struct sums *sums, const char *why)
{
	sums->why = why;
	return false;
}

static bool piece_check(struct sums *sums, const struct gm_piece *piece)
{
	uint64_t held = GM_GET(piece->held), size = GM_GET(piece->size);
	uint32_t state = GM_GET(piece->state);
	CUdeviceptr base = GM_GET(piece->base);
	if (GM_GET(piece->seq) % 2)
		return sums_break(sums, "nothing is being written");
	if (state == GM_RETIRED) {
		sums->retired += held;
		sums->n_retired++;
		return true;
	}
	if (base % gm_pool_align_of(held))
		return sums_break(sums, "blocks are aligned");
	if (state == GM_SHELVED) {
		*(piece->stamp ? &sums->hot : &sums->idle) += held;
		sums->shelved += held;
		sums->n_shelved++;
		return true;
	}
	if (!gm_piece_is_live(piece))
		return true;
	sums->requested += size;
	sums->handed_out += held;
	sums->live_blocks++;
	if (size == 0 || size > held || GM_GET(piece->id) == 0)
		return sums_break(sums, "a live block has a size and an id");
	const struct gm_table *table = &sums->pool->table;
	if (gm_table_live(table, base) != piece || gm_table_live(table, base + held - 1) != piece ||
	    gm_table_live(table, base + held / 2) != piece)
		return sums_break(sums, "a live block is found from all its addresses");
	return true;
}

static bool slab_check(struct sums *sums, const struct gm_extent *extent)
{
	const struct gm_slab *slab = GM_GET(extent->slab);
	if (!slab || slab->extent != extent)
		return sums_break(sums, "a slab knows its extent");
	const char *why = gm_slab_check(slab);
	if (why)
		return sums_break(sums, why);
	uint64_t used = sums->handed_out + sums->retired + sums->shelved;
	for (uint32_t i = 0; i < GM_GET(slab->n); i++)
		if (!piece_check(sums, &slab->slots[i]))
			return false;
	used = sums->handed_out + sums->retired + sums->shelved - used;
	if (used != (GM_GET(slab->n) - slab->n_free) * (uint64_t)slab->slot)
		return sums_break(sums, "used slots add up");
	uint64_t hot = slab->n_hot * (uint64_t)slab->slot;
	sums->hot += hot;
	sums->idle += GM_GET(extent->piece.held) - used - hot;
	return true;
}

/* Neighbours touch, point to each other, and are not both idle or both hot. */
static bool links_check(struct sums *sums, const struct gm_extent *extent)
{
	const struct gm_table *table = &sums->pool->table;
	CUdeviceptr base = GM_GET(extent->piece.base), end = base + GM_GET(extent->piece.held);
	const struct gm_extent *after = extent->after, *before = extent->before;
	if (after && (after->before != extent || GM_GET(after->piece.base) != end))
		return sums_break(sums, "an extent touches the one after it");
	if (before && before->after != extent)
		return sums_break(sums, "an extent touches the one before it");
	if (!after != !gm_chunk_at(sums->pool, end))
		return sums_break(sums, "an extent ends where another begins or nothing is mapped");
	if (!before != (base == table->base || !gm_chunk_at(sums->pool, base - 1)))
		return sums_break(sums, "an extent begins where another ends or nothing is mapped");
	if (after && GM_GET(after->piece.state) == GM_IDLE &&
	    GM_GET(extent->piece.state) == GM_IDLE && !after->piece.stamp == !extent->piece.stamp)
		return sums_break(sums, "idle neighbours are joined");
	if (end % GM_POOL_GRANULE == 0 && gm_table_ends_at(table, end) != extent)
		return sums_break(sums, "an extent is found from its end");
	if (base % GM_POOL_GRANULE == 0 && gm_table_begins_at(table, base) != extent)
		return sums_break(sums, "an extent is found from its beginning");
	return true;
}

static bool extent_check(void *arg, struct gm_extent *extent)
{
	struct sums *sums = arg;
	CUdeviceptr base = GM_GET(extent->piece.base);
	uint64_t held = GM_GET(extent->piece.held);
	uint32_t state = GM_GET(extent->piece.state);
	if (held == 0 || held % GM_POOL_ALIGN || base % GM_POOL_ALIGN)
		return sums_break(sums, "extents come in steps of 512 bytes");
	for (CUdeviceptr at = base; at < base + held;) {
		const struct gm_chunk *chunk = gm_chunk_at(sums->pool, at);
		if (!chunk || chunk->base + chunk->size <= at)
			return sums_break(sums, "extents are mapped");
		at = chunk->base + chunk->size;
	}
	if (!links_check(sums, extent))
		return false;
	if (state == GM_IDLE) {
		sums->n_idle += !extent->piece.stamp;
		*(extent->piece.stamp ? &sums->hot : &sums->idle) += held;
		return true;
	}
	if (held < GM_EXTENT_LEAST)
		return sums_break(sums, "an extent in use has a granule of the table at least");
	return state == GM_SLAB ? slab_check(sums, extent) : piece_check(sums, &extent->piece);
}

/* --- chunks --- */

/* Count a pin (`pin`) or used bytes in the chunks under [base, +length). */
static void chunks_count(const struct gm_pool *pool, CUdeviceptr base, uint64_t length, bool pin)
{
	for (CUdeviceptr end = base + length; base < end;) {
		struct gm_chunk *chunk = gm_chunk_at(pool, base);
		CUdeviceptr stop = chunk->base + chunk->size;
		if (pin)
			chunk->seen_pins++;
		else
			chunk->seen_used += (stop < end ? stop : end) - base;
		base = stop;
	}
}

static bool piece_count_used(void *arg, struct gm_piece *piece)
{
	const struct gm_pool *pool = arg;
	uint32_t state = GM_GET(piece->state);
	if (gm_piece_is_live(piece) || state == GM_RETIRED || state == GM_SHELVED)
		chunks_count(pool, GM_GET(piece->base), GM_GET(piece->held), false);
	return true;
}

static const char *chunk_check(const struct gm_pool *pool, const struct gm_chunk *chunk)
{
	if (chunk->base % GM_POOL_GRANULE || chunk->size % GM_POOL_GRANULE || !chunk->size)
		return "chunks come in granules";
	if (!chunk->run || chunk->run->base != chunk->base || chunk->run->size != chunk->size)
		return "chunks have their addresses";
	for (uint64_t at = 0; at < chunk->size; at += GM_POOL_GRANULE)
		if (gm_chunk_at(pool, chunk->base + at) != chunk)
			return "chunks are found from their addresses";
	if (chunk->used != chunk->seen_used)
		return "a chunk knows how much of it is used";
	if (chunk->used == 0 && chunk->idle_after && chunk->idle_after->idle_before != chunk)
		return "wholly idle chunks are linked both ways";
	if (chunk->pins != chunk->seen_pins)
		return "a chunk knows its pins";
	if (chunk->vacant && (!chunk->busy || chunk->used != chunk->size))
		return "a vacant place is busy and in use";
	if (chunk->away && !chunk->busy)
		return "a chunk that is away is busy";
	/* The mover writes the access of a chunk that is away, without the lock. */
	return chunk->away || chunk->access <= pool->access ? NULL
							    : "access has a generation that was";
}

static const char *chunks_check(const struct gm_pool *pool)
{
	uint64_t n = 0, mapped = 0, n_idle = 0, last = 0, vacant = 0;
	for (struct gm_chunk *chunk = pool->chunks; chunk; chunk = chunk->after)
		chunk->seen_used = chunk->seen_pins = 0;
	gm_pool_each_piece(pool, piece_count_used, (void *)pool);
	for (size_t i = 0; i < pool->pins.n; i++)
		if (pool->pins.at[i].counted)
			chunks_count(pool, pool->pins.at[i].base, pool->pins.at[i].size, true);
	for (struct gm_chunk *chunk = pool->chunks; chunk; chunk = chunk->after) {
		const char *why = chunk_check(pool, chunk);
		if (why)
			return why;
		if (chunk->after && chunk->after->before != chunk)
			return "chunks are linked both ways";
		n++;
		n_idle += chunk->used == 0;
		mapped += chunk->size;
		vacant += chunk->vacant ? chunk->size : 0;
	}
	if (vacant > GM_GET(pool->vacant)) /* more: one is being vacated or occupied */
		return "vacant places are counted";
	for (const struct gm_chunk *c = pool->idle_first; c; c = c->idle_after, n_idle--) {
		if (c->used || c->idle_since < last || !n_idle)
			return "wholly idle chunks are listed by age";
		last = c->idle_since;
	}
	if (n_idle)
		return "wholly idle chunks are listed";
	if (n != pool->n_chunks || mapped != pool->mapped)
		return "chunks are counted";
	return NULL;
}

/* --- sums --- */

static const char *lists_check(const struct gm_pool *pool, const struct sums *sums)
{
	uint64_t lent = 0, spare = 0, n_retired = 0;
	for (const struct gm_loan *loan = pool->loans; loan; loan = loan->next)
		for (const struct gm_chunk *chunk = loan->chunks; chunk; chunk = chunk->after) {
			lent += chunk->size;
			spare += loan->spare ? chunk->size : 0;
		}
	/* A loan being taken back is in no list; it is checked afterwards. */
	if (lent > pool->lent || (lent != pool->lent && pool->loans_moving == 0))
		return "loans are counted";
	if (spare > pool->spare || (spare != pool->spare && pool->loans_moving == 0))
		return "spare loans are counted";
	uint64_t n_shelved = 0;
	const char *why = gm_shelves_check(pool, &n_shelved, &n_retired);
	if (!why)
		why = gm_hot_check(pool, &n_retired);
	if (!why)
		why = gm_aliases_check(pool);
	if (!why && n_shelved != sums->n_shelved)
		why = "shelved blocks are on a shelf";
	if (!why && n_retired != sums->n_retired)
		why = "all retired blocks are listed";
	return why;
}

/* The sums of the pool and its shelves. */
static struct sums sums_known(const struct gm_pool *pool)
{
	struct sums all = {.requested = pool->requested,
			   .handed_out = pool->handed_out,
			   .live_blocks = pool->live_blocks,
			   .idle = gm_pool_idle(pool),
			   .retired = gm_pool_retired(pool)};
	for (unsigned i = 0; i < GM_SHELVES; i++) {
		const struct gm_shelf *shelf = &pool->shelves[i];
		all.requested += shelf->requested;
		all.handed_out += shelf->handed_out;
		all.live_blocks += shelf->live_blocks;
	}
	return all;
}

static const char *sums_check(const struct gm_pool *pool, const struct sums *sums)
{
	struct sums all = sums_known(pool);
	if (sums->requested != all.requested)
		return "requested is the sum of requested sizes";
	if (sums->handed_out != all.handed_out)
		return "handed_out is the sum of sizes handed out";
	if (sums->live_blocks != all.live_blocks)
		return "live blocks are counted";
	uint64_t passed = 0; /* bytes that are idle, in blocks of state GM_RETIRED */
	for (unsigned i = 0; i < GM_GET(pool->n_shelves); i++)
		passed += pool->shelves[i].passed.bytes;
	if (sums->retired - passed + sums->hot != all.retired)
		return "retired is the sum of retired blocks and hot memory";
	if (sums->hot != gm_hot_bytes(pool))
		return "hot memory is counted";
	if (sums->idle + passed != all.idle)
		return "idle is the sum of idle extents, free slots and shelved blocks";
	if (pool->mapped != all.handed_out + all.idle + all.retired)
		return "mapped = handed_out + idle + retired";
	if (pool->mapped_peak < pool->mapped || pool->requested_peak < all.requested)
		return "peaks are not below what is";
	if (sums->n_idle != pool->extents.n_idle)
		return "idle extents are in the treap";
	if (gm_pool_committed(pool) > pool->config.limit)
		return "no more is mapped than the limit";
	uint64_t whole = pool->mapped - GM_GET(pool->vacant) + pool->lent;
	if (pool->made + pool->away + pool->moving < whole ||
	    pool->made > whole + pool->pending + pool->moving + pool->stand_ins)
		return "made is what is mapped and lent, but for what is away, and part of what is "
		       "pending or a stand-in";
	return NULL;
}

bool gm_pool_check(const struct gm_pool *pool, const char **why)
{
	struct sums sums = {.pool = pool};
	gm_pool_assert_all_held(pool);
	gm_extent_each(&pool->extents, extent_check, &sums);
	if (!sums.why)
		sums.why = gm_extents_check(&pool->extents);
	if (!sums.why)
		sums.why = gm_slabs_check(&pool->slabs);
	if (!sums.why)
		sums.why = gm_range_check(&pool->range);
	if (!sums.why)
		sums.why = chunks_check(pool);
	if (!sums.why)
		sums.why = lists_check(pool, &sums);
	if (!sums.why)
		sums.why = sums_check(pool, &sums);
	if (sums.why && why)
		*why = sums.why;
	return !sums.why;
}

bool gm_pool_is_valid(const struct gm_pool *pool, const char **why)
{
	gm_pool_lock(pool);
	gm_shelves_lock((struct gm_pool *)pool);
	bool valid = gm_pool_check(pool, why);
	gm_shelves_unlock((struct gm_pool *)pool);
	gm_pool_unlock(pool);
	return valid;
}

#ifdef GM_DEBUG
void gm_pool_debug_check(struct gm_pool *pool)
{
	const char *why = NULL;
	gm_shelves_lock(pool);
	bool few = sums_known(pool).live_blocks <= FEW_BLOCKS && pool->extents.n_all <= FEW_EXTENTS;
	if ((few || pool->check_turn++ % TURNS == 0) && !gm_pool_check(pool, &why))
		gm_debug_failed("pool", 0, why);
	gm_shelves_unlock(pool);
}

void gm_pool_debug_visit(struct gm_pool *pool)
{
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
}
#endif
