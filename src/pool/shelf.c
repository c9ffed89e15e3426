/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/shelf.h"

#include <string.h>

#include "pool/internal.h"
#include "pool/stats.h"
#include "pool/trim.h"

/* --- no lock is needed --- */

static struct gm_piece *list_reverse(struct gm_piece *list)
{
	struct gm_piece *first = NULL;
	for (struct gm_piece *next; list; list = next) {
		next = list->next;
		list->next = first;
		first = list;
	}
	return first;
}

static struct gm_bin *shelf_bin(struct gm_shelf *shelf, uint64_t held)
{
	return held <= GM_SLAB_LARGEST ? &shelf->bins[gm_slab_class(held)] : NULL;
}

uint32_t gm_shelf_most_slots(const struct gm_pool *pool, uint64_t held)
{
	uint64_t n = GM_SHELF_BIN / held;
	if (pool->config.defer)
		return GM_SHELF_DEEP;
	return n < GM_SHELF_SLOTS ? (uint32_t)n : GM_SHELF_SLOTS;
}

uint32_t gm_shelf_most_in_row(const struct gm_pool *pool)
{
	return pool->config.defer ? GM_SHELF_WIDE : GM_SHELF_ROW;
}

/* Blocks of any size for which the row has room: one, or the fewest that share an event. */
static uint32_t row_least(const struct gm_pool *pool)
{
	return pool->config.defer ? GM_LIMBO_LEAST : 1;
}

static bool piece_may_be_shelved(const struct gm_pool *pool, const struct gm_piece *piece)
{
	return !piece->pinned && !gm_pool_trims_at_once(pool);
}

/* --- blocks on the shelf, under its lock --- */

static void shelf_count(struct gm_shelf *shelf, uint32_t more)
{
	gm_futex_lock_assert_held(&shelf->lock);
	atomic_store_explicit(&shelf->n, GM_GET(shelf->n) + more, memory_order_relaxed);
}

static struct gm_piece *bin_pop(struct gm_bin *bin)
{
	gm_lock_assert_held(GM_LOCK_RANK_SHELF);
	struct gm_piece *piece = bin->first;
	if (!piece)
		return NULL;
	bin->first = piece->next;
	bin->n--;
	return piece;
}

static void row_remove(struct gm_shelf *shelf, uint32_t at)
{
	gm_futex_lock_assert_held(&shelf->lock);
	shelf->row_bytes -= shelf->row[at].held;
	shelf->n_row--;
	memmove(&shelf->row[at], &shelf->row[at + 1], (shelf->n_row - at) * sizeof *shelf->row);
}

/* Remove the newest block of this size from the row. */
static struct gm_piece *row_pop(struct gm_shelf *shelf, uint64_t held)
{
	gm_futex_lock_assert_held(&shelf->lock);
	for (uint32_t i = shelf->n_row; i-- > 0;) {
		if (shelf->row[i].held != held)
			continue;
		struct gm_piece *piece = shelf->row[i].piece;
		row_remove(shelf, i);
		return piece;
	}
	return NULL;
}

static inline struct gm_piece *shelf_pop(struct gm_shelf *shelf, uint64_t held)
{
	gm_futex_lock_assert_held(&shelf->lock);
	struct gm_bin *bin = shelf_bin(shelf, held);
	struct gm_piece *piece = bin ? bin_pop(bin) : row_pop(shelf, held);
	if (piece)
		shelf_count(shelf, -1u);
	return piece;
}

/* Hot blocks whose run ends meanwhile are stranded. A function of its own, so that the warm path
 * saves few registers. */
static __attribute__((noinline)) struct gm_piece *
shelf_pop_among_hot(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t held, uint64_t context)
{
	gm_futex_lock_assert_held(&shelf->lock);
	struct gm_piece *piece;
	gm_hot_strand_shelf(pool, shelf);
	while ((piece = shelf_pop(shelf, held)) && piece->stamp) {
		gm_hot_count(&shelf->hot, -held);
		if (gm_hot_take(pool, &shelf->hot, piece) &&
		    gm_hot_suits(pool, &shelf->hot, piece, context))
			break;
	}
	return piece;
}

/* Pop a block that may be handed out. Without hot bytes all blocks of the shelf are cold. */
static inline struct gm_piece *shelf_pop_usable(struct gm_pool *pool, struct gm_shelf *shelf,
						uint64_t held, uint64_t context)
{
	gm_futex_lock_assert_held(&shelf->lock);
	if (GM_UNLIKELY(GM_GET(shelf->hot.bytes)))
		return shelf_pop_among_hot(pool, shelf, held, context);
	return shelf_pop(shelf, held);
}

static bool row_fits(const struct gm_pool *pool, const struct gm_shelf *shelf, uint64_t held)
{
	gm_futex_lock_assert_held(&shelf->lock);
	uint64_t bytes = shelf->row_bytes + held;
	return shelf->n_row < row_least(pool) ||
	       (shelf->n_row < gm_shelf_most_in_row(pool) &&
		(bytes <= GM_GET(pool->shelf_bytes) || bytes <= 2 * shelf->limbo.share));
}

/* For a block of `held` bytes with bin `bin`. */
static inline bool shelf_has_room(const struct gm_pool *pool, const struct gm_shelf *shelf,
				  const struct gm_bin *bin, uint64_t held)
{
	gm_futex_lock_assert_held(&shelf->lock);
	return bin ? bin->n < gm_shelf_most_slots(pool, held) : row_fits(pool, shelf, held);
}

static inline void shelf_push(struct gm_shelf *shelf, struct gm_bin *bin, struct gm_piece *piece)
{
	gm_futex_lock_assert_held(&shelf->lock);
	if (bin) {
		piece->next = bin->first;
		bin->first = piece;
		bin->n++;
	} else {
		uint64_t held = GM_GET(piece->held);
		shelf->row[shelf->n_row++] = (struct gm_shelved){held, piece};
		shelf->row_bytes += held;
	}
	shelf_count(shelf, 1);
}

/* --- sums, under the shelf's lock --- */

/* The bytes that the shelf's allowance lacks for a block of `size`; 0 or less: it suffices. */
static int64_t allowance_lacks(const struct gm_shelf *shelf, uint64_t size)
{
	gm_futex_lock_assert_held(&shelf->lock);
	return (int64_t)(shelf->requested + size) - shelf->allowance;
}

static bool allowance_allows(const struct gm_shelf *shelf, uint64_t size)
{
	gm_lock_assert_held(GM_LOCK_RANK_SHELF);
	return allowance_lacks(shelf, size) <= 0;
}

/* Lend up to `most` bytes of one shelf's unused allowance to another. */
static void allowance_lend(struct gm_shelf *from, struct gm_shelf *to, int64_t most)
{
	gm_lock_assert_held(GM_LOCK_RANK_SHELF);
	int64_t spare = from->allowance - (int64_t)from->requested;
	int64_t lent = spare < most ? spare : most;
	if (lent <= 0)
		return;
	from->allowance -= lent;
	to->allowance += lent;
	if (from->most > from->allowance)
		from->most = from->allowance;
}

/* pre: the shelf's allowance suffices. */
static inline void sums_count_live(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size,
				   uint64_t held)
{
	gm_futex_lock_assert_held(&shelf->lock);
	gm_shelf_count_change(pool, shelf, size, held, 1, GM_C_idle);
	if ((int64_t)shelf->requested > shelf->most)
		shelf->most = (int64_t)shelf->requested;
}

bool gm_shelf_count(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size, uint64_t held)
{
	gm_futex_lock_assert_held(&shelf->lock);
	if (!allowance_allows(shelf, size))
		return false;
	sums_count_live(pool, shelf, size, held);
	return true;
}

uint64_t gm_shelf_next_id(struct gm_shelf *shelf)
{
	gm_futex_lock_assert_held(&shelf->lock);
	static _Atomic uint64_t taken; /* by the shelves of all pools */
	if (shelf->id == shelf->id_end) {
		shelf->id = atomic_fetch_add_explicit(&taken, GM_SHELF_IDS, memory_order_relaxed);
		shelf->id_end = shelf->id + GM_SHELF_IDS;
	}
	return ++shelf->id;
}

/* --- blocks that have passed, under the shelf's lock --- */

/* Put an idle block on the shelf, into its bin or (NULL) the row, as shelved at `now`. */
static inline void shelf_put(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_bin *bin,
			     struct gm_piece *piece, uint64_t now)
{
	gm_futex_lock_assert_held(&shelf->lock);
	gm_piece_shelve(piece, now);
	if (GM_UNLIKELY(piece->stamp))
		gm_hot_count(&shelf->hot, GM_GET(piece->held));
	shelf_push(shelf, bin, piece);
	gm_pool_tell_idle(pool);
}

static struct gm_piece *passed_pop(struct gm_passed *stock)
{
	gm_lock_assert_held(GM_LOCK_RANK_SHELF);
	struct gm_piece *piece = stock->first;
	stock->first = piece->next;
	stock->bytes -= GM_GET(piece->held);
	return piece;
}

/* Take the first passed block of that size; blocks before it go into bins and row. NULL: there is
 * none, or a block before it has no room on the shelf. */
static struct gm_piece *passed_take(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t held)
{
	gm_futex_lock_assert_held(&shelf->lock);
	uint64_t now = 0;
	for (struct gm_piece *piece; (piece = shelf->passed.first) && !piece->pinned;) {
		uint64_t its = GM_GET(piece->held);
		if (its == held)
			return passed_pop(&shelf->passed);
		struct gm_bin *bin = shelf_bin(shelf, its);
		if (!shelf_has_room(pool, shelf, bin, its))
			return NULL;
		now = now ? now : gm_pool_now(pool);
		shelf_put(pool, shelf, bin, passed_pop(&shelf->passed), now);
	}
	return NULL;
}

/* Blocks without room on the shelf go into the extents. The pool's lock is held, too. */
void gm_shelf_sort_passed(struct gm_pool *pool, struct gm_shelf *shelf)
{
	gm_futex_lock_assert_held(&shelf->lock);
	uint64_t now = shelf->passed.first ? gm_pool_now(pool) : 0;
	while (shelf->passed.first) {
		struct gm_piece *piece = passed_pop(&shelf->passed);
		uint64_t held = GM_GET(piece->held);
		struct gm_bin *bin = shelf_bin(shelf, held);
		if (piece_may_be_shelved(pool, piece) && shelf_has_room(pool, shelf, bin, held))
			shelf_put(pool, shelf, bin, piece, now);
		else
			gm_pool_put_back_since(pool, piece, shelf->passed.since);
	}
}

/* --- the warm path --- */

/* Take a block from another shelf with a free lock. The caller's own lock is held, so that each
 * block is on a shelf or owned by a thread that holds a lock. */
static struct gm_piece *shelf_steal(struct gm_pool *pool, const struct gm_shelf *mine,
				    uint64_t held, uint64_t context)
{
	struct gm_piece *piece = NULL;
	unsigned n = gm_shelves_in_use(pool), tries = 0;
	unsigned first = (unsigned)(mine - pool->shelves) + 1;
	for (unsigned i = 0; i + 1 < n && !piece && tries < GM_SHELF_STEALS; i++) {
		struct gm_shelf *other = &pool->shelves[(first + i) % n];
		if (GM_GET(other->n) == 0)
			continue;
		tries++;
		if (!gm_futex_lock_try_acquire(&other->lock))
			continue;
		piece = shelf_pop_usable(pool, other, held, context);
		gm_futex_lock_release(&other->lock);
	}
	return piece;
}

/* Borrow the missing allowance from shelves that do not use theirs now. If all use theirs, the
 * block may be a new peak. The caller's own lock is held. */
static bool allowance_borrow(struct gm_pool *pool, struct gm_shelf *mine, uint64_t size)
{
	unsigned n = gm_shelves_in_use(pool), first = (unsigned)(mine - pool->shelves) + 1;
	for (unsigned i = 0; i + 1 < n && !allowance_allows(mine, size); i++) {
		struct gm_shelf *other = &pool->shelves[(first + i) % n];
		if (!gm_futex_lock_try_acquire(&other->lock))
			continue;
		allowance_lend(other, mine, allowance_lacks(mine, size));
		gm_futex_lock_release(&other->lock);
	}
	return allowance_allows(mine, size);
}

bool gm_shelf_alloc(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size, uint64_t held,
		    uint64_t context, struct gm_block *out)
{
	struct gm_piece *piece = NULL;
	gm_futex_lock_take(&shelf->lock);
	if (GM_LIKELY(allowance_allows(shelf, size)) || allowance_borrow(pool, shelf, size)) {
		piece = shelf_pop_usable(pool, shelf, held, context);
		if (!piece && shelf->passed.first)
			piece = passed_take(pool, shelf, held);
		/* Not with config.defer: each thread needs as many more blocks as wait in limbo,
		 * and threads that took blocks from one another would all lack them. */
		if (!piece && !pool->config.defer)
			piece = shelf_steal(pool, shelf, held, context);
	}
	if (piece) {
		sums_count_live(pool, shelf, size, held);
		gm_piece_hand_out(piece, size, gm_shelf_next_id(shelf), context);
		gm_piece_copy(piece, pool->config.ordinal, out);
	}
	gm_futex_lock_release(&shelf->lock);
	return piece;
}

static inline void shelf_put_freed(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_bin *bin,
				   struct gm_piece *piece, const struct gm_heat *heat)
{
	gm_shelf_count_freed(pool, shelf, piece, GM_C_idle);
	if (GM_UNLIKELY(heat) && !gm_hot_mark(pool, &shelf->hot, piece, heat))
		return;
	shelf_put(pool, shelf, bin, piece, gm_pool_now(pool));
}

bool gm_shelf_put(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_piece *piece,
		  const struct gm_heat *heat)
{
	gm_futex_lock_assert_held(&shelf->lock);
	uint64_t held = GM_GET(piece->held);
	struct gm_bin *bin = shelf_bin(shelf, held);
	if (!piece_may_be_shelved(pool, piece))
		return false;
	if (GM_UNLIKELY(heat))
		gm_hot_strand_shelf(pool, shelf);
	if (!shelf_has_room(pool, shelf, bin, held))
		return false;
	piece->stamp = 0;
	shelf_put_freed(pool, shelf, bin, piece, heat);
	return true;
}

/* --- under the pool's lock --- */

struct gm_piece *gm_shelf_take(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size,
			       uint64_t held, uint64_t context)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	gm_futex_lock_take(&shelf->lock);
	struct gm_piece *piece = shelf_pop_usable(pool, shelf, held, context);
	if (!piece)
		piece = passed_take(pool, shelf, held);
	if (!piece && shelf->passed.first) {
		gm_shelf_sort_passed(pool, shelf);
		piece = shelf_pop_usable(pool, shelf, held, context);
	}
	if (!piece && !allowance_allows(shelf, size))
		piece = shelf_steal(pool, shelf, held, context);
	gm_futex_lock_release(&shelf->lock);
	return piece;
}

void gm_shelf_refill(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	/* With an order shelves rarely collect. */
	unsigned threads =
		pool->config.order ? GM_GET(pool->n_shelves) : GM_GET(pool->n_collecting);
	if (threads < 2 || size > GM_SLAB_LARGEST || gm_pool_trims_at_once(pool))
		return;
	unsigned class = gm_slab_class(size);
	struct gm_bin *bin = &shelf->bins[class];
	uint64_t now = gm_pool_now(pool), held = gm_slab_slot(class);
	const struct gm_hot *from = &pool->extents.hot;
	gm_futex_lock_take(&shelf->lock);
	gm_hot_strand_shelf(pool, shelf);
	for (unsigned i = 0; i < GM_SHELF_REFILL && shelf_has_room(pool, shelf, bin, held); i++) {
		struct gm_piece *piece = gm_slab_take(&pool->slabs, class);
		if (!piece)
			break;
		gm_chunk_use(pool, GM_GET(piece->base), held);
		const struct gm_heat heat = {from->heat.epoch, from->heat.run, piece->stamp};
		if (!piece->stamp || gm_hot_mark(pool, &shelf->hot, piece, &heat))
			shelf_put(pool, shelf, bin, piece, now);
	}
	gm_futex_lock_release(&shelf->lock);
}

/* The pool's lock is held, too. */
static void piece_put_back(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_piece *piece)
{
	gm_futex_lock_assert_held(&shelf->lock);
	if (GM_UNLIKELY(piece->stamp))
		gm_hot_move(pool, &shelf->hot, piece);
	else
		gm_pool_put_back_since(pool, piece, gm_piece_shelved_at(piece));
}

/* Empty a bin except for its `keep` newest blocks and blocks shelved after `until`. The newest
 * block is first, so the tail of the list is given back, oldest block first. */
static void bin_empty(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_bin *bin,
		      uint32_t keep, uint64_t until)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_piece **link = &bin->first;
	for (; *link && (keep || gm_piece_shelved_at(*link) > until); link = &(*link)->next)
		keep -= keep > 0;
	struct gm_piece *piece = list_reverse(*link), *next;
	*link = NULL;
	for (; piece; piece = next) {
		next = piece->next;
		bin->n--;
		shelf_count(shelf, -1u);
		piece_put_back(pool, shelf, piece);
	}
}

static void row_put_back_oldest(struct gm_pool *pool, struct gm_shelf *shelf)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_piece *piece = shelf->row[0].piece;
	row_remove(shelf, 0);
	shelf_count(shelf, -1u);
	piece_put_back(pool, shelf, piece);
}

static void row_empty(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t until)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	while (shelf->n_row && gm_piece_shelved_at(shelf->row[0].piece) <= until)
		row_put_back_oldest(pool, shelf);
}

void gm_shelf_empty_row(struct gm_pool *pool, struct gm_shelf *shelf)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	gm_futex_lock_take(&shelf->lock);
	row_empty(pool, shelf, UINT64_MAX);
	gm_futex_lock_release(&shelf->lock);
}

static void passed_empty(struct gm_pool *pool, struct gm_shelf *shelf)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	while (shelf->passed.first)
		gm_pool_put_back_since(pool, passed_pop(&shelf->passed), shelf->passed.since);
}

static bool shelf_empty(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t until)
{
	gm_futex_lock_assert_held(&shelf->lock);
	uint32_t n = GM_GET(shelf->n);
	bool stocked = shelf->passed.first && shelf->passed.since <= until;
	if (stocked)
		passed_empty(pool, shelf);
	row_empty(pool, shelf, until);
	for (unsigned i = 0; GM_GET(shelf->n) > shelf->n_row && i < GM_SLAB_CLASSES; i++)
		bin_empty(pool, shelf, &shelf->bins[i], 0, until);
	return stocked || GM_GET(shelf->n) < n;
}

/* Free half of the bin or row at once, for more blocks will follow. */
static void shelf_make_room(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t held)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_bin *bin = shelf_bin(shelf, held);
	uint64_t half = GM_GET(pool->shelf_bytes) / 2;
	if (bin)
		bin_empty(pool, shelf, bin, bin->n / 2, UINT64_MAX);
	while (!bin && shelf->n_row &&
	       (shelf->n_row > gm_shelf_most_in_row(pool) / 2 || shelf->row_bytes + held > half))
		row_put_back_oldest(pool, shelf);
}

bool gm_shelf_put_making_room(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_piece *piece,
			      const struct gm_heat *heat)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (!piece_may_be_shelved(pool, piece))
		return false;
	uint64_t held = GM_GET(piece->held);
	struct gm_bin *bin = shelf_bin(shelf, held);
	gm_futex_lock_take(&shelf->lock);
	if (GM_UNLIKELY(heat))
		gm_hot_strand_shelf(pool, shelf);
	if (!shelf_has_room(pool, shelf, bin, held))
		shelf_make_room(pool, shelf, held);
	piece->stamp = 0;
	shelf_put_freed(pool, shelf, bin, piece, heat);
	gm_futex_lock_release(&shelf->lock);
	return true;
}

bool gm_shelves_flush(struct gm_pool *pool, uint64_t until)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	bool any = false;
	for (unsigned i = 0; i < gm_shelves_in_use(pool); i++)
		any |= shelf_empty(pool, &pool->shelves[i], until);
	gm_pool_sum_up(pool);
	return any;
}

bool gm_shelves_empty(struct gm_pool *pool)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	gm_shelves_lock(pool);
	bool any = gm_shelves_flush(pool, UINT64_MAX);
	gm_shelves_unlock(pool);
	return any;
}

bool gm_shelves_empty_old(struct gm_pool *pool)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	uint64_t now = pool->config.defer && !pool->config.order ? gm_pool_now(pool) : 0;
	bool any = false;
	if (now <= GM_SHELF_FRESH) /* or there is no clock */
		return gm_shelves_empty(pool);
	for (unsigned i = 0; i < gm_shelves_in_use(pool); i++) {
		struct gm_shelf *shelf = &pool->shelves[i];
		gm_futex_lock_take(&shelf->lock);
		any |= shelf_empty(pool, shelf, now - GM_SHELF_FRESH);
		gm_futex_lock_release(&shelf->lock);
	}
	return any;
}
