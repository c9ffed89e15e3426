/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/hot.h"

#include "pool/epoch.h"
#include "pool/internal.h"
#include "pool/stats.h"
#include "pool/trim.h"

uint64_t gm_hot_bytes(const struct gm_pool *pool)
{
	uint64_t bytes = GM_GET(pool->extents.hot.bytes);
	for (unsigned i = 0; pool->config.order && i < GM_GET(pool->n_shelves); i++)
		bytes += GM_GET(pool->shelves[i].hot.bytes);
	return bytes;
}

/* Frees read the number before they set the flag by which a submission ends the segment. So the
 * event of that submission covers this stamp. */
uint64_t gm_hot_stamp(struct gm_pool *pool)
{
	uint64_t stamp = gm_limbo_number(pool) + 1;
	pool->config.order->heat(pool);
	return stamp;
}

/* --- stocks; the lock of a stock is its shelf's, or the pool's --- */

void gm_hot_count(struct gm_hot *hot, uint64_t by)
{
	_Atomic uint64_t *parts = gm_count_device(hot->device);
	atomic_store_explicit(&hot->bytes, GM_GET(hot->bytes) + by, memory_order_relaxed);
	gm_count_in(parts, hot->device, GM_C_retired, by);
	gm_count_in(parts, hot->device, GM_C_idle, -by);
}

static bool run_goes_on(const struct gm_pool *pool, uint64_t run)
{
	return run && atomic_load(pool->config.order->run) == run;
}

static bool heat_has_passed(const struct gm_heat *heat)
{
	return heat->stamp <= GM_GET(heat->epoch->passed);
}

static void stranded_append(struct gm_stranded *to, struct gm_piece *piece, uint64_t number)
{
	*(to->last ? &to->last->next : &to->first) = piece;
	to->last = piece;
	to->bytes += GM_GET(piece->held);
	to->n++;
	to->number = number > to->number ? number : to->number;
}

/* The piece, in use and in no list, becomes retired until a fence covers the number. */
static void piece_strand(struct gm_pool *pool, struct gm_epoch *epoch, struct gm_piece *piece,
			 uint64_t number)
{
	uint64_t held = GM_GET(piece->held);
	gm_piece_begin(piece);
	GM_SET(piece->state, GM_RETIRED);
	GM_SET(piece->size, 0);
	GM_SET(piece->id, 0);
	GM_SET(piece->context, 0);
	gm_piece_end(piece);
	piece->next = NULL;
	piece->stamp = 0;
	atomic_fetch_add(&pool->stranded, held);
	gm_pool_show_reclaimed(pool, -held);
	gm_counter_add(pool->config.ordinal, GM_C_ordered_refused, 1);
	gm_epoch_seal(epoch, number);
	gm_futex_lock_take(&epoch->lock);
	struct gm_stranded *old = &epoch->stranded[0], *young = &epoch->stranded[1];
	stranded_append(!old->first || number <= old->number ? old : young, piece, number);
	gm_futex_lock_release(&epoch->lock);
	if (pool->config.idle && !GM_GET(pool->poll_at))
		gm_pool_trim_retired(pool);
}

bool gm_hot_mark(struct gm_pool *pool, struct gm_hot *hot, struct gm_piece *piece,
		 const struct gm_heat *heat)
{
	piece->stamp = 0;
	if (heat_has_passed(heat))
		return true;
	if (!run_goes_on(pool, heat->run)) {
		piece_strand(pool, heat->epoch, piece, heat->stamp);
		return false;
	}
	piece->stamp = heat->stamp;
	uint64_t newest = GM_GET(hot->bytes) ? hot->heat.stamp : 0;
	hot->heat = *heat;
	hot->heat.stamp = newest > heat->stamp ? newest : heat->stamp;
	return true;
}

bool gm_hot_take(struct gm_pool *pool, struct gm_hot *hot, struct gm_piece *piece)
{
	const struct gm_heat heat = {hot->heat.epoch, hot->heat.run, piece->stamp};
	if (heat_has_passed(&heat)) {
		piece->stamp = 0;
		return true;
	}
	if (heat.run && pool->config.order->take(heat.run))
		return true;
	piece_strand(pool, heat.epoch, piece, heat.stamp);
	return false;
}

bool gm_hot_suits(struct gm_pool *pool, struct gm_hot *hot, struct gm_piece *piece,
		  uint64_t context)
{
	if (GM_LIKELY(!piece->stamp) || hot->heat.epoch->context == context)
		return true;
	piece_strand(pool, hot->heat.epoch, piece, piece->stamp);
	return false;
}

/* --- shelves --- */

/* True: the piece stays on the shelf. */
static bool shelved_strand(struct gm_pool *pool, struct gm_hot *hot, struct gm_piece *piece)
{
	const struct gm_heat heat = {hot->heat.epoch, 0, piece->stamp};
	if (!piece->stamp)
		return true;
	gm_hot_count(hot, -GM_GET(piece->held));
	if (heat_has_passed(&heat)) {
		piece->stamp = 0;
		return true;
	}
	piece_strand(pool, heat.epoch, piece, heat.stamp);
	return false;
}

static void bin_strand(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_bin *bin)
{
	for (struct gm_piece **link = &bin->first, *piece, *next; (piece = *link);) {
		next = piece->next;
		if (shelved_strand(pool, &shelf->hot, piece)) {
			link = &piece->next;
			continue;
		}
		*link = next;
		bin->n--;
		shelf->n--;
	}
}

static void row_strand(struct gm_pool *pool, struct gm_shelf *shelf)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < shelf->n_row; i++) {
		const struct gm_shelved at = shelf->row[i];
		if (shelved_strand(pool, &shelf->hot, at.piece))
			shelf->row[n++] = at;
		else
			shelf->row_bytes -= at.held;
	}
	shelf->n -= shelf->n_row - n;
	shelf->n_row = n;
}

void gm_hot_strand_shelf(struct gm_pool *pool, struct gm_shelf *shelf)
{
	const struct gm_heat *heat = &shelf->hot.heat;
	gm_lock_assert_held(GM_LOCK_RANK_SHELF);
	if (!GM_GET(shelf->hot.bytes) || (run_goes_on(pool, heat->run) && !heat_has_passed(heat)))
		return;
	row_strand(pool, shelf);
	for (unsigned i = 0; i < GM_SLAB_CLASSES; i++)
		bin_strand(pool, shelf, &shelf->bins[i]);
}

/* --- extents and slabs; under the pool's lock --- */

static void slots_strand(struct gm_pool *pool, const struct gm_heat *heat)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_piece *slot;
	for (unsigned class = 0; class < GM_SLAB_CLASSES; class ++)
		while ((slot = gm_slab_take_hot(&pool->slabs, class))) {
			gm_chunk_use(pool, GM_GET(slot->base), GM_GET(slot->held));
			piece_strand(pool, heat->epoch, slot, slot->stamp);
		}
}

/* Extents that are too short for a block stay idle: the run that comes next begins when all work
 * from before has ended, so that they may join its hot memory. */
static void extent_strand(struct gm_pool *pool, struct gm_extent *extent,
			  const struct gm_heat *heat)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_piece *piece = &extent->piece;
	if (GM_GET(piece->held) < GM_EXTENT_LEAST)
		return;
	uint64_t stamp = piece->stamp;
	gm_extent_take_hot(&pool->extents, extent);
	gm_chunk_use(pool, GM_GET(piece->base), GM_GET(piece->held));
	piece_strand(pool, heat->epoch, piece, stamp);
}

/* What a fence covers becomes idle. */
static void extents_cool(struct gm_pool *pool)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	const uint64_t number = GM_GET(pool->extents.hot.heat.epoch->passed);
	gm_slabs_flush(&pool->slabs);
	gm_slabs_cool(&pool->slabs, number);
	gm_extents_cool(&pool->extents, number);
}

void gm_hot_strand_extents(struct gm_pool *pool)
{
	struct gm_hot *hot = &pool->extents.hot;
	const struct gm_heat heat = hot->heat;
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (!GM_GET(hot->bytes))
		return;
	bool passed = heat_has_passed(&heat), ended = heat.run && !run_goes_on(pool, heat.run);
	if (!passed && !ended)
		return;
	hot->heat.run = passed ? heat.run : 0;
	extents_cool(pool);
	if (passed)
		return;
	slots_strand(pool, &heat);
	struct gm_piece *next;
	struct gm_extent *at = gm_extent_list_idle(&pool->extents, 1);
	for (; at; at = (struct gm_extent *)next) {
		next = at->piece.next;
		if (at->piece.stamp)
			extent_strand(pool, at, &heat);
	}
}

static void piece_put_hot(struct gm_pool *pool, struct gm_piece *piece, const struct gm_heat *heat,
			  uint64_t since)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	gm_hot_strand_extents(pool);
	if (!gm_hot_mark(pool, &pool->extents.hot, piece, heat))
		return;
	gm_pool_put_back_since(pool, piece, since);
}

void gm_hot_move(struct gm_pool *pool, struct gm_hot *hot, struct gm_piece *piece)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	const struct gm_heat heat = {hot->heat.epoch, hot->heat.run, piece->stamp};
	gm_hot_count(hot, -GM_GET(piece->held));
	piece_put_hot(pool, piece, &heat, gm_piece_shelved_at(piece));
}

void gm_hot_put_back(struct gm_pool *pool, struct gm_piece *piece, const struct gm_heat *heat)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	piece_put_hot(pool, piece, heat, gm_pool_now(pool));
}

void gm_hot_add(struct gm_pool *pool, CUdeviceptr base, uint64_t length, const struct gm_heat *heat)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_extent *extent = gm_extent_add_used(&pool->extents, base, length, GM_SHELVED);
	gm_chunk_use(pool, base, length);
	piece_put_hot(pool, &extent->piece, heat, gm_pool_now(pool));
}

bool gm_hot_goes_on(const struct gm_pool *pool, const struct gm_hot *hot)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	return GM_GET(hot->bytes) && run_goes_on(pool, hot->heat.run);
}

bool gm_hot_is_for(const struct gm_pool *pool, uint64_t context)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	const struct gm_hot *hot = &pool->extents.hot;
	return gm_hot_goes_on(pool, hot) && hot->heat.epoch->context == context;
}

bool gm_hot_join(struct gm_pool *pool)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	return gm_hot_goes_on(pool, &pool->extents.hot) && gm_extents_join_hot(&pool->extents);
}

uint64_t gm_hot_return(struct gm_pool *pool)
{
	uint64_t bytes = 0;
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	for (struct gm_epoch *epoch = pool->epochs; epoch && GM_GET(pool->stranded);) {
		struct gm_stranded taken = {0};
		gm_futex_lock_take(&epoch->lock);
		if (epoch->stranded[0].first && epoch->stranded[0].number <= epoch->passed) {
			taken = epoch->stranded[0];
			epoch->stranded[0] = epoch->stranded[1];
			epoch->stranded[1] = (struct gm_stranded){0};
		}
		gm_futex_lock_release(&epoch->lock);
		atomic_fetch_sub(&pool->stranded, taken.bytes);
		gm_pool_show_reclaimed(pool, taken.bytes);
		bytes += taken.bytes;
		for (struct gm_piece *piece = taken.first, *next; piece; piece = next) {
			next = piece->next;
			gm_pool_put_back(pool, piece);
		}
		epoch = taken.first ? epoch : epoch->next;
	}
	return bytes;
}

void gm_hot_cool(struct gm_pool *pool, bool wait)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (!pool->config.order ||
	    (!gm_hot_bytes(pool) && !GM_GET(pool->stranded) && !pool->aliases))
		return;
	bool aliases = pool->aliases != NULL;
	gm_pool_unlock(pool);
	pool->config.order->cool(wait);
	if (aliases)
		gm_aliases_ask(pool, wait);
	gm_pool_lock(pool);
	gm_hot_strand_extents(pool);
	if (GM_GET(pool->extents.hot.bytes))
		extents_cool(pool);
	gm_hot_return(pool);
	gm_aliases_end(pool);
}

bool gm_hot_has_chunk(const struct gm_pool *pool, const struct gm_chunk *chunk)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	const struct gm_extent *at;
	if (!GM_GET(pool->extents.hot.bytes))
		return false;
	/* A slab is aligned to its length, so that it begins no later than the chunk. */
	at = gm_extent_idle_at(&pool->extents, chunk->base);
	at = at ? at : gm_table_begins_at(&pool->table, chunk->base);
	for (; at && GM_GET(at->piece.base) < chunk->base + chunk->size; at = at->after) {
		const struct gm_slab *slab = GM_GET(at->slab);
		bool idle = GM_GET(at->piece.state) == GM_IDLE;
		if (idle ? at->piece.stamp : slab && slab->n_hot)
			return true;
	}
	return false;
}

/* --- the calls of the order; no lock is held --- */

static struct gm_epoch *epoch_find(struct gm_pool *pool, uint64_t context)
{
	for (struct gm_epoch *epoch = pool->epochs; epoch; epoch = epoch->next) {
		gm_futex_lock_take(&epoch->lock);
		bool its = epoch->context == context;
		gm_futex_lock_release(&epoch->lock);
		if (its)
			return epoch;
	}
	return NULL;
}

bool gm_hot_is_pending(struct gm_pool *pool, uint64_t context, uint64_t stamp)
{
	const struct gm_epoch *epoch = stamp ? epoch_find(pool, context) : NULL;
	return epoch && stamp > GM_GET(epoch->passed);
}

void gm_hot_await(struct gm_pool *pool)
{
	pool->config.order->cool(true);
}

static uint64_t memory_number(void *arg)
{
	struct gm_pool *pool = arg;
	return atomic_fetch_add(&pool->seals, 1) + 1;
}

static void memory_passed(void *arg, uint64_t context, uint64_t number)
{
	struct gm_epoch *epoch = epoch_find(arg, context);
	if (epoch)
		gm_epoch_raise(epoch, number);
}

const struct gm_order_memory *gm_hot_memory(void)
{
	static const struct gm_order_memory memory = {.number = memory_number,
						      .passed = memory_passed};
	return &memory;
}

/* --- checking --- */

static const char *stranded_check(const struct gm_stranded *stranded, uint64_t *n, uint64_t *bytes)
{
	uint64_t its = 0, its_n = 0;
	for (const struct gm_piece *piece = stranded->first; piece; piece = piece->next, its_n++) {
		if (GM_GET(piece->state) != GM_RETIRED || piece->stamp)
			return "stranded memory is retired";
		its += GM_GET(piece->held);
	}
	*n += its_n;
	*bytes += its;
	return its == stranded->bytes && its_n == stranded->n ? NULL : "stranded memory is counted";
}

const char *gm_hot_check(const struct gm_pool *pool, uint64_t *n)
{
	uint64_t bytes = 0;
	const char *why = NULL;
	for (struct gm_epoch *epoch = pool->epochs; epoch && !why; epoch = epoch->next) {
		gm_futex_lock_take(&epoch->lock);
		why = stranded_check(&epoch->stranded[0], n, &bytes);
		why = why ? why : stranded_check(&epoch->stranded[1], n, &bytes);
		if (!why && epoch->stranded[1].first && !epoch->stranded[0].first)
			why = "older stranded memory is listed first";
		gm_futex_lock_release(&epoch->lock);
	}
	return why || bytes == GM_GET(pool->stranded) ? why : "stranded bytes are counted";
}
