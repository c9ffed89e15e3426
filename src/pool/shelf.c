/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/shelf.h"

#include <string.h>
#include <sys/mman.h>

#include "pool/internal.h"

#define BYTES (GM_SHELVES * sizeof(struct gm_shelf))

bool gm_shelves_open(struct gm_pool *pool)
{
	void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return false;
	pool->shelves = memory;
	for (unsigned i = 0; i < GM_SHELVES; i++)
		gm_quick_init(&pool->shelves[i].lock, GM_RANK_SHELF);
	return true;
}

void gm_shelves_close(struct gm_pool *pool)
{
	if (!pool->shelves)
		return;
	munmap(pool->shelves, BYTES);
}

/* Those after the last one that was ever used need no lock and no look. */
static unsigned in_use(const struct gm_pool *pool)
{
	return GM_GET(pool->n_shelves);
}

void gm_shelves_resize(struct gm_pool *pool)
{
	unsigned n = in_use(pool);
	atomic_store_explicit(&pool->shelf_bytes, pool->mapped / GM_SHELF_PART / (n ? n : 1),
			      memory_order_relaxed);
}

void gm_shelf_begin(struct gm_pool *pool, unsigned index)
{
	gm_pool_lock(pool);
	if (index >= in_use(pool))
		atomic_store_explicit(&pool->n_shelves, index + 1, memory_order_relaxed);
	gm_shelves_resize(pool);
	gm_pool_unlock(pool);
}

/* --- blocks on it, under the shelf's lock --- */

static void count(struct gm_shelf *shelf, uint32_t more)
{
	atomic_store_explicit(&shelf->n, GM_GET(shelf->n) + more, memory_order_relaxed);
}

static struct gm_bin *bin_of(struct gm_shelf *shelf, uint64_t held)
{
	return held <= GM_SLAB_LARGEST ? &shelf->bins[gm_slab_class(held)] : NULL;
}

static struct gm_piece *pop_bin(struct gm_bin *bin)
{
	struct gm_piece *piece = bin->first;
	if (!piece)
		return NULL;
	bin->first = piece->next;
	bin->n--;
	return piece;
}

static void leave_row(struct gm_shelf *shelf, uint32_t at)
{
	shelf->row_bytes -= shelf->row[at].held;
	shelf->n_row--;
	memmove(&shelf->row[at], &shelf->row[at + 1], (shelf->n_row - at) * sizeof *shelf->row);
}

/* The last one in of its size. */
static struct gm_piece *pop_row(struct gm_shelf *shelf, uint64_t held)
{
	for (uint32_t i = shelf->n_row; i-- > 0;) {
		if (shelf->row[i].held != held)
			continue;
		struct gm_piece *piece = shelf->row[i].piece;
		leave_row(shelf, i);
		return piece;
	}
	return NULL;
}

static struct gm_piece *pop(struct gm_shelf *shelf, uint64_t held)
{
	struct gm_bin *bin = bin_of(shelf, held);
	struct gm_piece *piece = bin ? pop_bin(bin) : pop_row(shelf, held);
	if (piece)
		count(shelf, -1u);
	return piece;
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

/* So many fit whatever their size: one, or those behind one fence. */
static uint32_t least_in_row(const struct gm_pool *pool)
{
	return pool->config.defer ? GM_RETIRE_LEAST : 1;
}

static bool fits_row(const struct gm_pool *pool, const struct gm_shelf *shelf, uint64_t held)
{
	uint64_t bytes = shelf->row_bytes + held;
	return shelf->n_row < least_in_row(pool) ||
	       (shelf->n_row < gm_shelf_most_in_row(pool) &&
		(bytes <= GM_GET(pool->shelf_bytes) || bytes <= 2 * shelf->freed.share));
}

static bool has_room(const struct gm_pool *pool, struct gm_shelf *shelf, uint64_t held)
{
	const struct gm_bin *bin = bin_of(shelf, held);
	return bin ? bin->n < gm_shelf_most_slots(pool, held) : fits_row(pool, shelf, held);
}

static void push(struct gm_shelf *shelf, struct gm_piece *piece)
{
	uint64_t held = GM_GET(piece->held);
	struct gm_bin *bin = bin_of(shelf, held);
	if (bin) {
		piece->next = bin->first;
		bin->first = piece;
		bin->n++;
	} else {
		shelf->row[shelf->n_row++] = (struct gm_shelved){held, piece};
		shelf->row_bytes += held;
	}
	count(shelf, 1);
}

/* --- sums, under the shelf's lock --- */

static inline void change(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size,
			  uint64_t held, uint64_t n)
{
	shelf->requested += size;
	shelf->live_blocks += n;
	atomic_store_explicit(&shelf->handed_out, GM_GET(shelf->handed_out) + held,
			      memory_order_relaxed);
	gm_pool_show_live(pool, size, held, n);
}

/* What the shelf's allowance lacks for that; not above 0: nothing. */
static int64_t lacks(const struct gm_shelf *shelf, uint64_t size)
{
	return (int64_t)(shelf->requested + size) - shelf->allowance;
}

static bool is_allowed(const struct gm_shelf *shelf, uint64_t size)
{
	return lacks(shelf, size) <= 0;
}

/* Up to `most` of what is left of another shelf's allowance. */
static void lend(struct gm_shelf *from, struct gm_shelf *to, int64_t most)
{
	int64_t left = from->allowance - (int64_t)from->requested;
	int64_t lent = left < most ? left : most;
	if (lent <= 0)
		return;
	from->allowance -= lent;
	to->allowance += lent;
	if (from->most > from->allowance)
		from->most = from->allowance;
}

/* The shelf's allowance lets it. */
static inline void count_live(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size,
			      uint64_t held)
{
	change(pool, shelf, size, held, 1);
	if ((int64_t)shelf->requested > shelf->most)
		shelf->most = (int64_t)shelf->requested;
}

bool gm_shelf_count(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size, uint64_t held)
{
	if (!is_allowed(shelf, size))
		return false;
	count_live(pool, shelf, size, held);
	return true;
}

uint64_t gm_shelf_next_id(struct gm_shelf *shelf)
{
	static _Atomic uint64_t taken; /* by the shelves of all pools */
	if (shelf->id == shelf->id_end) {
		shelf->id = atomic_fetch_add_explicit(&taken, GM_SHELF_IDS, memory_order_relaxed);
		shelf->id_end = shelf->id + GM_SHELF_IDS;
	}
	return ++shelf->id;
}

/* --- what came back at once, under the shelf's lock --- */

static bool may_be_shelved(const struct gm_pool *pool, const struct gm_piece *piece)
{
	return !piece->pinned && !gm_pool_trims_at_once(pool);
}

/* What is idle since `now` is put on the shelf. */
static void put(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_piece *piece, uint64_t now)
{
	gm_piece_begin(piece);
	GM_SET(piece->state, GM_SHELVED);
	GM_SET(piece->size, 0);
	GM_SET(piece->id, 0);
	GM_SET(piece->context, 0);
	gm_piece_end(piece);
	piece->shelved_at = now;
	push(shelf, piece);
	gm_pool_tell_idle(pool);
}

static struct gm_piece *pop_stock(struct gm_stock *stock)
{
	struct gm_piece *piece = stock->first;
	stock->first = piece->next;
	stock->bytes -= GM_GET(piece->held);
	return piece;
}

/* The first one of that size; those before it find their places. NULL: there is none, or one that
 * has no place. */
static struct gm_piece *take_stock(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t held)
{
	uint64_t now = 0;
	for (struct gm_piece *piece; (piece = shelf->stock.first) && !piece->pinned;) {
		uint64_t its = GM_GET(piece->held);
		if (its == held)
			return pop_stock(&shelf->stock);
		if (!has_room(pool, shelf, its))
			return NULL;
		now = now ? now : gm_pool_now(pool);
		put(pool, shelf, pop_stock(&shelf->stock), now);
	}
	return NULL;
}

/* Under the pool's lock, too: all of it, and what has no place goes into the extents. */
static void sort_stock(struct gm_pool *pool, struct gm_shelf *shelf)
{
	uint64_t now = shelf->stock.first ? gm_pool_now(pool) : 0;
	while (shelf->stock.first) {
		struct gm_piece *piece = pop_stock(&shelf->stock);
		if (may_be_shelved(pool, piece) && has_room(pool, shelf, GM_GET(piece->held)))
			put(pool, shelf, piece, now);
		else
			gm_pool_put_back_since(pool, piece, shelf->stock.since);
	}
}

/* --- the warm path --- */

/* From another shelf, unless its lock is taken. The caller's own is held; blocks never are between
 * two shelves without a lock. */
static struct gm_piece *steal(struct gm_pool *pool, const struct gm_shelf *mine, uint64_t held)
{
	struct gm_piece *piece = NULL;
	unsigned n = in_use(pool), tries = 0;
	unsigned first = (unsigned)(mine - pool->shelves) + 1;
	for (unsigned i = 0; i + 1 < n && !piece && tries < GM_SHELF_STEALS; i++) {
		struct gm_shelf *other = &pool->shelves[(first + i) % n];
		if (GM_GET(other->n) == 0)
			continue;
		tries++;
		if (!gm_quick_try(&other->lock))
			continue;
		piece = pop(other, held);
		gm_quick_release(&other->lock);
	}
	return piece;
}

/* With the caller's own lock held: what is missing, of other shelves, whose threads have nothing
 * live for it just now. If all have, it may be a new peak. */
static bool borrow(struct gm_pool *pool, struct gm_shelf *mine, uint64_t size)
{
	unsigned n = in_use(pool), first = (unsigned)(mine - pool->shelves) + 1;
	for (unsigned i = 0; i + 1 < n && !is_allowed(mine, size); i++) {
		struct gm_shelf *other = &pool->shelves[(first + i) % n];
		if (!gm_quick_try(&other->lock))
			continue;
		lend(other, mine, lacks(mine, size));
		gm_quick_release(&other->lock);
	}
	return is_allowed(mine, size);
}

bool gm_shelf_alloc(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size, uint64_t held,
		    uint64_t context, struct gm_block *out)
{
	struct gm_piece *piece = NULL;
	gm_quick_take(&shelf->lock);
	if (GM_LIKELY(is_allowed(shelf, size)) || borrow(pool, shelf, size)) {
		piece = pop(shelf, held);
		if (!piece && shelf->stock.first)
			piece = take_stock(pool, shelf, held);
		/* Under config.defer each needs what it waits for and as much again: taking it from
		 * one another, none would ever have enough. */
		if (!piece && !pool->config.defer)
			piece = steal(pool, shelf, held);
	}
	if (piece) {
		count_live(pool, shelf, size, held);
		gm_piece_hand_out(piece, size, gm_shelf_next_id(shelf), context);
		gm_piece_copy(piece, pool->config.ordinal, out);
	}
	gm_quick_release(&shelf->lock);
	return piece;
}

void gm_shelf_count_freed(struct gm_pool *pool, struct gm_shelf *shelf,
			  const struct gm_piece *piece)
{
	change(pool, shelf, -GM_GET(piece->size), -GM_GET(piece->held), (uint64_t)-1);
}

static void put_freed(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_piece *piece)
{
	gm_shelf_count_freed(pool, shelf, piece);
	put(pool, shelf, piece, gm_pool_now(pool));
}

bool gm_shelf_put(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_piece *piece)
{
	if (!may_be_shelved(pool, piece) || !has_room(pool, shelf, GM_GET(piece->held)))
		return false;
	put_freed(pool, shelf, piece);
	return true;
}

/* --- under the pool's lock --- */

struct gm_piece *gm_shelf_take(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size,
			       uint64_t held)
{
	gm_quick_take(&shelf->lock);
	struct gm_piece *piece = pop(shelf, held);
	if (!piece)
		piece = take_stock(pool, shelf, held);
	if (!piece && shelf->stock.first) {
		sort_stock(pool, shelf);
		piece = pop(shelf, held);
	}
	if (!piece && !is_allowed(shelf, size))
		piece = steal(pool, shelf, held);
	gm_quick_release(&shelf->lock);
	return piece;
}

void gm_shelf_refill(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size)
{
	if (pool->n_collecting < 2 || size > GM_SLAB_LARGEST || gm_pool_trims_at_once(pool))
		return;
	unsigned class = gm_slab_class(size);
	uint64_t now = gm_pool_now(pool), held = gm_slab_slot(class);
	gm_quick_take(&shelf->lock);
	for (unsigned i = 0; i < GM_SHELF_REFILL && has_room(pool, shelf, held); i++) {
		struct gm_piece *piece = gm_slab_take(&pool->slabs, class);
		if (!piece)
			break;
		gm_chunk_use(pool, GM_GET(piece->base), held);
		put(pool, shelf, piece, now);
	}
	gm_quick_release(&shelf->lock);
}

void gm_shelves_lock(struct gm_pool *pool)
{
	for (unsigned i = 0; i < in_use(pool); i++)
		gm_quick_take_next(&pool->shelves[i].lock);
}

void gm_shelves_unlock(struct gm_pool *pool)
{
	for (unsigned i = in_use(pool); i-- > 0;)
		gm_quick_release(&pool->shelves[i].lock);
}

static struct gm_piece *reversed(struct gm_piece *list)
{
	struct gm_piece *first = NULL;
	for (struct gm_piece *next; list; list = next) {
		next = list->next;
		list->next = first;
		first = list;
	}
	return first;
}

/* The last one in comes first, so the end of the list is the old ones: those after the `keep`
 * newest that are there since `until` or longer go, the oldest first. */
static void empty_bin(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_bin *bin,
		      uint32_t keep, uint64_t until)
{
	struct gm_piece **link = &bin->first;
	for (; *link && (keep || (*link)->shelved_at > until); link = &(*link)->next)
		keep -= keep > 0;
	struct gm_piece *piece = reversed(*link), *next;
	*link = NULL;
	for (; piece; piece = next) {
		next = piece->next;
		bin->n--;
		count(shelf, -1u);
		gm_pool_put_back_since(pool, piece, piece->shelved_at);
	}
}

static void put_back_oldest(struct gm_pool *pool, struct gm_shelf *shelf)
{
	struct gm_piece *piece = shelf->row[0].piece;
	leave_row(shelf, 0);
	count(shelf, -1u);
	gm_pool_put_back_since(pool, piece, piece->shelved_at);
}

static void empty_row(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t until)
{
	while (shelf->n_row && shelf->row[0].piece->shelved_at <= until)
		put_back_oldest(pool, shelf);
}

void gm_shelf_empty_row(struct gm_pool *pool, struct gm_shelf *shelf)
{
	gm_quick_take(&shelf->lock);
	empty_row(pool, shelf, UINT64_MAX);
	gm_quick_release(&shelf->lock);
}

static void empty_stock(struct gm_pool *pool, struct gm_shelf *shelf)
{
	while (shelf->stock.first)
		gm_pool_put_back_since(pool, pop_stock(&shelf->stock), shelf->stock.since);
}

static bool empty(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t until)
{
	uint32_t n = GM_GET(shelf->n);
	bool stocked = shelf->stock.first && shelf->stock.since <= until;
	if (stocked)
		empty_stock(pool, shelf);
	empty_row(pool, shelf, until);
	for (unsigned i = 0; GM_GET(shelf->n) > shelf->n_row && i < GM_SLAB_CLASSES; i++)
		empty_bin(pool, shelf, &shelf->bins[i], 0, until);
	return stocked || GM_GET(shelf->n) < n;
}

/* More than this one block needs, for more will come. */
static void make_room(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t held)
{
	struct gm_bin *bin = bin_of(shelf, held);
	uint64_t half = GM_GET(pool->shelf_bytes) / 2;
	if (bin)
		empty_bin(pool, shelf, bin, bin->n / 2, UINT64_MAX);
	while (!bin && shelf->n_row &&
	       (shelf->n_row > gm_shelf_most_in_row(pool) / 2 || shelf->row_bytes + held > half))
		put_back_oldest(pool, shelf);
}

bool gm_shelf_put_making_room(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_piece *piece)
{
	if (!may_be_shelved(pool, piece))
		return false;
	gm_quick_take(&shelf->lock);
	if (!has_room(pool, shelf, GM_GET(piece->held)))
		make_room(pool, shelf, GM_GET(piece->held));
	put_freed(pool, shelf, piece);
	gm_quick_release(&shelf->lock);
	return true;
}

void gm_shelf_stock(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_piece *list,
		    uint64_t bytes)
{
	gm_quick_take(&shelf->lock);
	sort_stock(pool, shelf);
	shelf->stock = (struct gm_stock){list, bytes, gm_pool_now(pool)};
	if (gm_pool_trims_at_once(pool))
		sort_stock(pool, shelf);
	gm_quick_release(&shelf->lock);
	gm_pool_tell_idle(pool);
}

bool gm_shelves_flush(struct gm_pool *pool, uint64_t until)
{
	bool any = false;
	gm_freed_hand_over_all(pool);
	for (unsigned i = 0; i < in_use(pool); i++)
		any |= empty(pool, &pool->shelves[i], until);
	gm_pool_sum_up(pool);
	return any;
}

bool gm_shelves_empty(struct gm_pool *pool)
{
	gm_shelves_lock(pool);
	bool any = gm_shelves_flush(pool, UINT64_MAX);
	gm_shelves_unlock(pool);
	return any;
}

bool gm_shelves_empty_old(struct gm_pool *pool)
{
	uint64_t now = pool->config.defer ? gm_pool_now(pool) : 0;
	bool any = false;
	if (now <= GM_SHELF_FRESH) /* or nobody knows since when */
		return gm_shelves_empty(pool);
	for (unsigned i = 0; i < in_use(pool); i++) {
		struct gm_shelf *shelf = &pool->shelves[i];
		gm_quick_take(&shelf->lock);
		any |= empty(pool, shelf, now - GM_SHELF_FRESH);
		gm_quick_release(&shelf->lock);
	}
	return any;
}

/* The oldest of a bin is its last. */
static uint64_t oldest_on(struct gm_shelf *shelf)
{
	uint64_t oldest = shelf->n_row ? shelf->row[0].piece->shelved_at : UINT64_MAX;
	if (shelf->stock.first && shelf->stock.since < oldest)
		oldest = shelf->stock.since;
	for (unsigned i = 0; GM_GET(shelf->n) > shelf->n_row && i < GM_SLAB_CLASSES; i++)
		for (struct gm_piece *piece = shelf->bins[i].first; piece; piece = piece->next)
			if (!piece->next && piece->shelved_at < oldest)
				oldest = piece->shelved_at;
	return oldest;
}

uint64_t gm_shelves_oldest(struct gm_pool *pool)
{
	uint64_t oldest = UINT64_MAX;
	for (unsigned i = 0; i < in_use(pool); i++) {
		struct gm_shelf *shelf = &pool->shelves[i];
		gm_quick_take(&shelf->lock);
		uint64_t since = oldest_on(shelf);
		gm_quick_release(&shelf->lock);
		oldest = since < oldest ? since : oldest;
	}
	return oldest;
}
