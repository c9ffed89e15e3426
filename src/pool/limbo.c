/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/limbo.h"

#include "log/log.h"
#include "pool/internal.h"
#include "pool/patience.h"
#include "pool/stats.h"
#include "pool/trim.h"

#define EACH_BAG(limbo, bag) \
	for (struct gm_bag *bag = (limbo)->bags; bag < (limbo)->bags + (limbo)->top; bag++)

bool gm_limbo_is_past_bound(const struct gm_pool *pool)
{
	return GM_GET(pool->sealed) > pool->config.retire;
}

/* --- the bound, and its shares, one for each shelf that collects --- */

static unsigned pool_crew(const struct gm_pool *pool)
{
	unsigned n = GM_GET(pool->n_collecting);
	return n ? n : 1;
}

uint32_t gm_limbo_bag_size(const struct gm_pool *pool)
{
	unsigned n = pool_crew(pool);
	return GM_LIMBO_BAG * (n < GM_LIMBO_CREW ? n : GM_LIMBO_CREW);
}

/* The bytes that a collecting shelf may have in its open bag, if `bound` is for all. */
static uint64_t pool_share(const struct gm_pool *pool, uint64_t bound)
{
	return bound / GM_LIMBO_PART / pool_crew(pool);
}

uint64_t gm_limbo_small(const struct gm_pool *pool)
{
	return pool->config.retire / GM_LIMBO_PART / GM_SHELVES / GM_LIMBO_FEW;
}

bool gm_limbo_is_large(const struct gm_pool *pool, uint64_t held)
{
	return held * GM_LIMBO_FEW > pool_share(pool, pool->config.retire);
}

/* Each free reads pool->full, so it is written only on a change. */
static void pool_change_sealed(struct gm_pool *pool, uint64_t by)
{
	uint64_t sealed = atomic_fetch_add(&pool->sealed, by) + by;
	bool full = sealed > pool->config.retire - pool->config.retire / GM_LIMBO_PART;
	if (full != GM_GET(pool->full))
		atomic_store_explicit(&pool->full, full, memory_order_relaxed);
}

static void shelf_collect(struct gm_pool *pool, struct gm_shelf *shelf, bool collects)
{
	struct gm_limbo *limbo = &shelf->limbo;
	collects = collects && pool->config.defer && !gm_pool_trims_at_once(pool);
	if (collects != (limbo->most > 0))
		atomic_fetch_add(&pool->n_collecting, collects ? 1 : -1u);
	limbo->most = collects ? gm_limbo_bag_size(pool) : 0;
	limbo->share = pool_share(pool, gm_patience_bound(pool));
	limbo->turned = gm_limbo_number(pool);
}

uint64_t gm_limbo_number(const struct gm_pool *pool)
{
	return atomic_load_explicit(&pool->seals, memory_order_acquire);
}

/* --- bags; under the shelf's lock --- */

static void bag_add(struct gm_bag *bag, struct gm_piece *piece, uint64_t held)
{
	gm_lock_assert_held(GM_LOCK_RANK_SHELF);
	piece->next = NULL;
	*(bag->n ? &bag->last->next : &bag->first) = piece;
	bag->last = piece;
	bag->bytes += held;
	bag->n++;
}

/* Move the blocks of `from` behind those of `to`, in O(1). */
static void bag_join(struct gm_bag *to, struct gm_bag *from)
{
	gm_lock_assert_held(GM_LOCK_RANK_SHELF);
	*(to->n ? &to->last->next : &to->first) = from->first;
	to->last = from->last;
	to->n += from->n;
	to->bytes += from->bytes;
	*from = (struct gm_bag){0};
}

static bool bag_has_passed(const struct gm_bag *bag)
{
	gm_lock_assert_held(GM_LOCK_RANK_SHELF);
	return bag->n && bag->number && bag->number <= bag->epoch->passed;
}

/* May blocks of the context join the bag? Yes if it is open, or no event covers it. If the shelf
 * has few unused bags, yes for any bag of the context. */
static bool bag_suits(const struct gm_limbo *limbo, const struct gm_bag *bag, uint64_t context)
{
	gm_lock_assert_held(GM_LOCK_RANK_SHELF);
	if (!bag->n || bag->epoch->context != context || bag_has_passed(bag))
		return false;
	return !bag->number || bag->number > bag->epoch->recorded ||
	       limbo->used >= GM_LIMBO_BAGS - GM_LIMBO_RESERVED;
}

/* An open bag for a block of the context; NULL: limbo->epoch is of another context, or other
 * contexts have all bags. */
static struct gm_bag *limbo_find_bag(struct gm_pool *pool, struct gm_limbo *limbo, uint64_t context)
{
	gm_lock_assert_held(GM_LOCK_RANK_SHELF);
	struct gm_bag *unused = NULL;
	EACH_BAG(limbo, bag)
	{
		unused = bag->n || unused ? unused : bag;
		if (!bag_suits(limbo, bag, context))
			continue;
		if (bag->number) { /* open the bag again */
			limbo->sealed_n -= bag->n;
			pool_change_sealed(pool, -bag->bytes);
			bag->number = 0;
		}
		return bag;
	}
	if (limbo->used == GM_LIMBO_BAGS || !limbo->epoch || limbo->epoch->context != context)
		return NULL;
	if (!unused)
		unused = &limbo->bags[limbo->top++];
	limbo->used++;
	*unused = (struct gm_bag){.epoch = limbo->epoch};
	return unused;
}

/* Give each open bag a number. Under the shelf's lock. */
static void limbo_seal(struct gm_pool *pool, struct gm_shelf *shelf)
{
	struct gm_limbo *limbo = &shelf->limbo;
	gm_lock_assert_held(GM_LOCK_RANK_SHELF);
	EACH_BAG(limbo, bag)
	{
		if (!bag->n || bag->number)
			continue;
		limbo->sealed_n += bag->n;
		bag->tried_n = bag->n;
		bag->tried_bytes = bag->bytes;
		bag->number = atomic_fetch_add(&pool->seals, 1) + 1;
		gm_epoch_seal(bag->epoch, bag->number);
		pool_change_sealed(pool, bag->bytes);
	}
	limbo->open = NULL;
	gm_pool_count_retired_peak(pool);
}

/* Take all passed bags, joined into one; with `most`, take one bag, and more while they have at
 * most `most` blocks together. Under the shelf's lock; the blocks count as idle from here on. */
static struct gm_bag limbo_take(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t most)
{
	struct gm_limbo *limbo = &shelf->limbo;
	struct gm_bag taken = {0};
	gm_lock_assert_held(GM_LOCK_RANK_SHELF);
	if (!limbo->used)
		return taken;
	EACH_BAG(limbo, bag)
	{
		if (!bag_has_passed(bag) || (taken.n && taken.n + bag->n > most))
			continue;
		limbo->sealed_n -= bag->n;
		limbo->used--;
		bag_join(&taken, bag);
	}
	while (limbo->top && !limbo->bags[limbo->top - 1].n)
		limbo->top--;
	if (taken.n) {
		limbo->misses = 0;
		atomic_store_explicit(&shelf->retired, GM_GET(shelf->retired) - taken.bytes,
				      memory_order_relaxed);
		pool_change_sealed(pool, -taken.bytes);
		gm_pool_show_reclaimed(pool, taken.bytes);
	}
	return taken;
}

/*
 * --- is a bag worth an event? ---
 *
 * Of blocks since the last try:
 *
 *     on      enough                                enough while no event of the context is pending
 *     free    a bag; from LEAST blocks on bytes     fewer blocks with bytes of 1 / LEAST of the
 *             of a part of the bound, or past it    bound, or past it
 *     miss    -                                     half a bag; FEW blocks with half of the share,
 *                                                   for a bag of the largest blocks has few
 *     lack    LEAST blocks                          a block
 *
 * Three functions, since one for all made deferred pairs 1% slower on an H200:
 * tests/bench/results/2026-11-30-H200-turns.
 */

/* Is it time to seal the bag? At least one of its blocks is new. */
static bool bag_is_due(const struct gm_pool *pool, const struct gm_bag *bag)
{
	gm_lock_assert_held(GM_LOCK_RANK_SHELF);
	uint64_t retire = pool->config.retire;
	uint64_t n = bag->n - bag->tried_n, bytes = bag->bytes - bag->tried_bytes;
	bool past_bound = GM_GET(pool->sealed) + bag->bytes > retire;
	if (!pool->config.defer || n >= gm_limbo_bag_size(pool))
		return true;
	if (n < GM_LIMBO_LEAST)
		return (bytes > retire / GM_LIMBO_LEAST || past_bound) &&
		       !gm_epoch_is_pending(bag->epoch);
	return bytes > gm_patience_bound(pool) / GM_LIMBO_PARTS / pool_crew(pool) || past_bound;
}

/* Half a bag is worth an event while none is pending. A bag of the largest blocks has few: then
 * half of the share's bytes is enough. */
static bool bag_is_half_full(const struct gm_pool *pool, const struct gm_bag *bag)
{
	gm_lock_assert_held(GM_LOCK_RANK_SHELF);
	uint64_t half = gm_limbo_bag_size(pool) / 2;
	uint64_t n = bag->n - bag->tried_n, bytes = bag->bytes - bag->tried_bytes;
	return (n >= (half > GM_LIMBO_BAG ? half : GM_LIMBO_BAG) ||
		(n >= GM_LIMBO_FEW && bytes >= pool_share(pool, gm_patience_bound(pool)) / 2)) &&
	       !gm_epoch_is_pending(bag->epoch);
}

/* If too much is retired and an allocation lacks memory, a smaller bag is worth an event. */
static bool bag_is_worth(const struct gm_bag *bag)
{
	gm_lock_assert_held(GM_LOCK_RANK_SHELF);
	uint64_t n = bag->n - bag->tried_n;
	return n >= GM_LIMBO_LEAST || (n && !gm_epoch_is_pending(bag->epoch));
}

/* --- a block is added --- */

static __attribute__((noinline)) void retire_log(const struct gm_pool *pool,
						 const struct gm_piece *piece)
{
	gm_log_put(&(struct gm_record){.address = GM_GET(piece->base),
				       .size = GM_GET(piece->size),
				       .held = GM_GET(piece->held),
				       .id = GM_GET(piece->id),
				       .context = (uint32_t)GM_GET(piece->context),
				       .device = (uint8_t)pool->config.ordinal,
				       .kind = GM_RECORD_RETIRE});
}

static inline void piece_retire(struct gm_pool *pool, struct gm_shelf *shelf,
				struct gm_piece *piece, uint64_t held)
{
	gm_shelf_count_freed(pool, shelf, piece, GM_C_retired);
	atomic_store_explicit(&shelf->retired, GM_GET(shelf->retired) + held, memory_order_relaxed);
	piece->stamp = 0;
	gm_piece_begin(piece);
	GM_SET(piece->state, GM_RETIRED);
	gm_piece_end(piece);
	if (GM_UNLIKELY(gm_log_wants(GM_RECORD_RETIRE)))
		retire_log(pool, piece);
}

enum gm_limbo_put gm_limbo_put(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_piece *piece,
			       uint64_t users)
{
	struct gm_limbo *limbo = &shelf->limbo;
	uint64_t held = GM_GET(piece->held);
	gm_lock_assert_held(GM_LOCK_RANK_SHELF);
	if (GM_UNLIKELY(!limbo->open || limbo->context != users)) {
		limbo->open = limbo_find_bag(pool, limbo, users);
		limbo->context = users;
	}
	struct gm_bag *bag = limbo->open;
	if (GM_UNLIKELY(!bag))
		return GM_LIMBO_NONE;
	piece_retire(pool, shelf, piece, held);
	bag_add(bag, piece, held);
	if (GM_UNLIKELY(pool->config.idle && !GM_GET(pool->poll_at)))
		gm_pool_trim_retired(pool);
	if (GM_LIKELY(bag->n - bag->tried_n < limbo->most &&
		      bag->bytes - bag->tried_bytes <= limbo->share && !GM_GET(pool->full)))
		return GM_LIMBO_STORED;
	if (bag_is_due(pool, bag))
		return GM_LIMBO_FULL;
	if (!limbo->most)
		shelf_collect(pool, shelf, true);
	return GM_LIMBO_STORED;
}

/* --- blocks leave; no lock held unless stated --- */

/* Put passed blocks into the extents. Under the pool's lock. */
static uint64_t shelf_put_back(struct gm_pool *pool, struct gm_shelf *shelf)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	gm_futex_lock_take(&shelf->lock);
	struct gm_bag taken = limbo_take(pool, shelf, UINT64_MAX);
	gm_futex_lock_release(&shelf->lock);
	for (struct gm_piece *piece = taken.first, *next; piece; piece = next) {
		next = piece->next;
		gm_pool_put_back(pool, piece);
	}
	return taken.bytes;
}

static uint64_t pool_put_back(struct gm_pool *pool)
{
	uint64_t bytes = 0;
	for (unsigned i = 0; i < GM_GET(pool->n_shelves); i++)
		bytes += shelf_put_back(pool, &pool->shelves[i]);
	return bytes + gm_hot_return(pool);
}

/* Take passed blocks to the shelf, as many as fill a bag; past the bound all of them. Earlier
 * passed blocks that have no room on the shelf go into the extents, under the pool's lock. */
static void shelf_restock(struct gm_pool *pool, struct gm_shelf *shelf)
{
	bool any = false, sort;
	gm_futex_lock_take(&shelf->lock);
	EACH_BAG(&shelf->limbo, bag)
	{
		any = any || bag_has_passed(bag);
	}
	sort = any && (shelf->passed.first || gm_pool_trims_at_once(pool));
	if (sort) {
		gm_futex_lock_release(&shelf->lock);
		gm_pool_lock(pool);
		gm_futex_lock_take(&shelf->lock);
		gm_shelf_sort_passed(pool, shelf);
	}
	uint64_t most = gm_limbo_is_past_bound(pool) ? UINT64_MAX : gm_limbo_bag_size(pool);
	struct gm_bag taken = any ? limbo_take(pool, shelf, most) : (struct gm_bag){0};
	if (taken.n)
		shelf->passed = (struct gm_passed){taken.first, taken.bytes, gm_pool_now(pool)};
	if (sort && gm_pool_trims_at_once(pool))
		gm_shelf_sort_passed(pool, shelf);
	gm_futex_lock_release(&shelf->lock);
	if (sort)
		gm_pool_unlock(pool);
	if (taken.n)
		gm_pool_tell_idle(pool);
}

/* Seal the bags of the shelf, poll, and put its passed blocks into the extents. The shelf collects
 * no more until its next free. */
static uint64_t shelf_return(struct gm_pool *pool, struct gm_shelf *shelf)
{
	gm_futex_lock_take(&shelf->lock);
	limbo_seal(pool, shelf);
	shelf_collect(pool, shelf, false);
	gm_futex_lock_release(&shelf->lock);
	for (struct gm_epoch *epoch = pool->epochs; epoch; epoch = epoch->next)
		gm_epoch_poll(pool, epoch);
	gm_pool_lock(pool);
	uint64_t bytes = shelf_put_back(pool, shelf);
	gm_pool_unlock(pool);
	return bytes;
}

bool gm_limbo_open(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t context)
{
	gm_futex_lock_take(&shelf->lock);
	bool full = shelf->limbo.used == GM_LIMBO_BAGS;
	gm_futex_lock_release(&shelf->lock);
	if (full) /* the bags are of many contexts */
		shelf_return(pool, shelf);
	gm_pool_lock(pool);
	gm_shelves_lock(pool);
	struct gm_epoch *epoch = shelf->limbo.epoch = gm_epoch_open(pool, context);
	bool room = epoch && shelf->limbo.used < GM_LIMBO_BAGS;
	gm_shelves_unlock(pool);
	gm_pool_unlock(pool);
	return room;
}

/* After a seal by `mine`: from time to time, shelves without a seal in the last GM_LIMBO_TURN seals
 * lose their share. Past the bound all other shelves return their blocks. */
static void pool_sweep(struct gm_pool *pool, const struct gm_shelf *mine)
{
	uint64_t seals = gm_limbo_number(pool), at = pool->sweep_at;
	bool sweep = seals >= at &&
		     atomic_compare_exchange_strong(&pool->sweep_at, &at, seals + GM_LIMBO_TURN);
	for (unsigned i = 0; i < GM_GET(pool->n_shelves); i++) {
		struct gm_shelf *shelf = &pool->shelves[i];
		bool returns = shelf != mine && gm_limbo_is_past_bound(pool);
		if (sweep && !returns) {
			gm_futex_lock_take(&shelf->lock);
			returns = shelf->limbo.most && shelf->limbo.turned + GM_LIMBO_TURN < seals;
			gm_futex_lock_release(&shelf->lock);
		}
		if (returns)
			shelf_return(pool, shelf);
	}
}

void gm_limbo_turn(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t context)
{
	struct gm_limbo *limbo = &shelf->limbo;
	gm_futex_lock_take(&shelf->lock);
	struct gm_bag *bag = limbo->context == context ? limbo->open : NULL;
	struct gm_epoch *epoch = bag ? bag->epoch : NULL;
	limbo_seal(pool, shelf);
	shelf_collect(pool, shelf, true);
	gm_futex_lock_release(&shelf->lock);
	if (epoch)
		gm_epoch_poll(pool, epoch);
	shelf_restock(pool, shelf);
	pool_sweep(pool, shelf);
}

/* Many sealed blocks wait, and none is known to have passed. While the GPU is busy each allocation
 * misses: the first miss queries events, then the second, the fourth ... */
static bool limbo_is_worth_asking(struct gm_limbo *limbo)
{
	if (limbo->sealed_n < GM_LIMBO_MISSED)
		return false;
	EACH_BAG(limbo, bag)
	{
		if (bag_has_passed(bag))
			return false;
	}
	unsigned misses = limbo->misses++;
	return (misses & (misses + 1)) == 0;
}

bool gm_limbo_miss(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t context, bool must)
{
	struct gm_limbo *limbo = &shelf->limbo;
	struct gm_epoch *epoch = NULL;
	if (!GM_GET(shelf->retired))
		return false;
	gm_futex_lock_take(&shelf->lock);
	EACH_BAG(limbo, bag)
	{
		if (bag->n && bag->epoch->context == context)
			epoch = bag->epoch;
	}
	bool seal = epoch && limbo->open && limbo->context == context &&
		    (bag_is_half_full(pool, limbo->open) ||
		     (must && gm_patience_is_needed(pool) && bag_is_worth(limbo->open)));
	bool ask = epoch && (seal || limbo_is_worth_asking(limbo) || must);
	if (seal) {
		limbo_seal(pool, shelf);
		shelf_collect(pool, shelf, true);
	}
	gm_futex_lock_release(&shelf->lock);
	if (ask)
		gm_epoch_ask(pool, epoch, seal ? gm_epoch_record(pool, epoch) : 0);
	if (epoch)
		shelf_restock(pool, shelf);
	if (seal)
		pool_sweep(pool, shelf);
	return ask;
}

/* --- for all shelves --- */

void gm_limbo_passed(struct gm_pool *pool, uint64_t context, uint64_t number)
{
	if (number == 0 || (GM_GET(pool->sealed) == 0 && GM_GET(pool->stranded) == 0))
		return;
	gm_pool_lock(pool);
	for (struct gm_epoch *epoch = pool->epochs; epoch; epoch = epoch->next)
		if (epoch->used && epoch->context == context)
			gm_epoch_raise(epoch, number);
	pool_put_back(pool);
	gm_pool_unlock(pool);
}

uint64_t gm_limbo_glance(struct gm_pool *pool)
{
	if (gm_limbo_is_past_bound(pool))
		return gm_limbo_collect(pool);
	/* Only this shelf: the threads of others need their own blocks. */
	return shelf_put_back(pool, &pool->shelves[gm_thread_index() % GM_SHELVES]) +
	       gm_hot_return(pool);
}

uint64_t gm_limbo_ask(struct gm_pool *pool)
{
	gm_pool_unlock(pool);
	gm_epochs_ask(pool);
	gm_pool_lock(pool);
	return pool_put_back(pool);
}

uint64_t gm_limbo_collect(struct gm_pool *pool)
{
	uint64_t bytes = 0;
	if (!pool->config.defer)
		return 0;
	if (!pool->config.fences->record)
		return gm_pool_waiting(pool) > pool->config.retire ? gm_limbo_drain(pool) : 0;
	gm_pool_unlock(pool);
	for (unsigned i = 0; i < GM_GET(pool->n_shelves); i++)
		bytes += shelf_return(pool, &pool->shelves[i]);
	gm_pool_lock(pool);
	return bytes + gm_hot_return(pool);
}

uint64_t gm_limbo_drain(struct gm_pool *pool)
{
	gm_hot_cool(pool, true);
	for (unsigned i = 0; i < GM_GET(pool->n_shelves); i++) {
		gm_futex_lock_take(&pool->shelves[i].lock);
		limbo_seal(pool, &pool->shelves[i]);
		shelf_collect(pool, &pool->shelves[i], false);
		gm_futex_lock_release(&pool->shelves[i].lock);
	}
	gm_pool_unlock(pool);
	for (struct gm_epoch *epoch = pool->epochs; epoch; epoch = epoch->next)
		if (epoch->sealed > epoch->passed)
			gm_epoch_wait(pool, epoch);
	gm_pool_lock(pool);
	return pool_put_back(pool);
}

void gm_limbo_gone(struct gm_pool *pool, uint64_t context)
{
	for (struct gm_epoch *epoch = pool->epochs; epoch; epoch = epoch->next) {
		if (!epoch->used || epoch->context != context)
			continue;
		gm_shelves_lock(pool);
		for (unsigned i = 0; i < GM_GET(pool->n_shelves); i++) {
			limbo_seal(pool, &pool->shelves[i]);
			if (pool->shelves[i].limbo.epoch == epoch)
				pool->shelves[i].limbo.epoch = NULL;
		}
		/* A new number: the stamps of hot memory may be one above the last. */
		gm_epoch_raise(epoch, atomic_fetch_add(&pool->seals, 1) + 1);
		epoch->used = false;
		gm_shelves_unlock(pool);
		pool_put_back(pool);
		gm_pool_unlock(pool);
		gm_epoch_ask(pool, epoch, 0); /* drops its events */
		gm_pool_lock(pool);
	}
}

const char *gm_limbo_check(const struct gm_pool *pool, const struct gm_shelf *shelf, uint64_t *n,
			   uint64_t *sealed)
{
	uint64_t retired = 0, sealed_n = 0, used = 0, top = 0;
	const struct gm_limbo *limbo = &shelf->limbo;
	for (const struct gm_bag *bag = limbo->bags; bag < limbo->bags + GM_LIMBO_BAGS; bag++) {
		uint64_t bytes = 0, blocks = 0;
		const struct gm_piece *last = NULL;
		for (const struct gm_piece *p = bag->first; p; p = p->next, blocks++) {
			if (GM_GET(p->state) != GM_RETIRED)
				return "blocks in limbo are retired";
			bytes += GM_GET(p->held);
			last = p;
		}
		if (blocks != bag->n || bytes != bag->bytes || last != bag->last)
			return "blocks in limbo are counted";
		if (bag->n && !bag->epoch->used)
			return "no block waits for a context that has ended";
		if (bag->number > pool->seals || bag->tried_n > bag->n)
			return "bags have a number that was";
		used += bag->n > 0;
		top = bag->n ? (unsigned)(bag - limbo->bags) + 1 : top;
		retired += bytes;
		sealed_n += bag->number ? bag->n : 0;
		*sealed += bag->number ? bytes : 0;
		*n += bag->n;
	}
	if (used != limbo->used || top > limbo->top || sealed_n != limbo->sealed_n)
		return "bags are counted";
	return retired == GM_GET(shelf->retired) ? NULL : "retired bytes are counted";
}
