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
		gm_lock_init(&pool->shelves[i].lock, GM_RANK_SHELF);
	return true;
}

void gm_shelves_close(struct gm_pool *pool)
{
	if (!pool->shelves)
		return;
	for (unsigned i = 0; i < GM_SHELVES; i++)
		gm_lock_destroy(&pool->shelves[i].lock);
	munmap(pool->shelves, BYTES);
}

/* Those after the last one that was ever used need no lock and no look. */
static unsigned in_use(const struct gm_pool *pool)
{
	return GM_GET(pool->n_shelves);
}

struct gm_shelf *gm_shelf_mine(struct gm_pool *pool)
{
	static atomic_uint threads;
	static GM_TLS unsigned number; /* of the thread, from 1 on */
	if (GM_UNLIKELY(!number))
		number = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) + 1;
	unsigned index = (number - 1) % GM_SHELVES;
	if (GM_UNLIKELY(index >= in_use(pool))) {
		gm_pool_lock(pool);
		if (index >= in_use(pool))
			atomic_store_explicit(&pool->n_shelves, index + 1, memory_order_relaxed);
		gm_pool_unlock(pool);
	}
	return &pool->shelves[index];
}

/* --- bins, under the shelf's lock --- */

static unsigned hash(uint64_t held)
{
	return (unsigned)((held >> 9) * 0x9e3779b97f4a7c15u >> 32);
}

/* The bin of a size; NULL: there is none. With `make`, one is made of an empty one; NULL then: all
 * that it could be have blocks of other sizes. */
static struct gm_bin *bin_of(struct gm_shelf *shelf, uint64_t held, bool make)
{
	struct gm_bin *spare = NULL;
	unsigned at = hash(held);
	for (unsigned i = 0; i < GM_SHELF_PROBES; i++, at++) {
		struct gm_bin *bin = &shelf->bins[at % GM_SHELF_BINS];
		if (bin->held == held)
			return bin;
		if (!bin->first && !spare)
			spare = bin;
		if (!bin->held)
			break;
	}
	if (!make || !spare)
		return NULL;
	spare->held = held;
	return spare;
}

static void set_n(struct gm_shelf *shelf, uint32_t n)
{
	atomic_store_explicit(&shelf->n, n, memory_order_relaxed);
}

static struct gm_piece *pop(struct gm_shelf *shelf, uint64_t held)
{
	struct gm_bin *bin = bin_of(shelf, held, false);
	struct gm_piece *piece = bin ? bin->first : NULL;
	if (!piece)
		return NULL;
	bin->first = piece->next;
	shelf->bytes -= held;
	set_n(shelf, GM_GET(shelf->n) - 1);
	return piece;
}

/* --- sums, under the shelf's lock --- */

static void change(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size, uint64_t held,
		   uint64_t n)
{
	shelf->requested += size;
	shelf->live_blocks += n;
	atomic_store_explicit(&shelf->handed_out, GM_GET(shelf->handed_out) + held,
			      memory_order_relaxed);
	gm_pool_show_live(pool, size, held, n);
}

bool gm_shelf_count(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size, uint64_t held)
{
	int64_t requested = (int64_t)(shelf->requested + size);
	if (requested > shelf->allowance)
		return false;
	if (requested > shelf->most)
		shelf->most = requested;
	change(pool, shelf, size, held, 1);
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
		if (!gm_lock_try(&other->lock))
			continue;
		piece = pop(other, held);
		gm_lock_release(&other->lock);
	}
	return piece;
}

bool gm_shelf_alloc(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size, uint64_t held,
		    uint64_t context, struct gm_block *out)
{
	struct gm_piece *piece = NULL;
	gm_lock_take(&shelf->lock);
	if ((int64_t)(shelf->requested + size) <= shelf->allowance) {
		piece = pop(shelf, held);
		if (!piece)
			piece = steal(pool, shelf, held);
	}
	if (piece) {
		gm_shelf_count(pool, shelf, size, held);
		gm_piece_hand_out(piece, size, gm_shelf_next_id(shelf), context);
		gm_piece_copy(piece, pool->config.ordinal, out);
	}
	gm_lock_release(&shelf->lock);
	return piece;
}

/* A bin for a block, if it may be shelved. */
static struct gm_bin *room_for(struct gm_pool *pool, struct gm_shelf *shelf,
			       const struct gm_piece *piece)
{
	const struct gm_pool_config *config = &pool->config;
	uint64_t held = GM_GET(piece->held);
	if (piece->pinned || GM_GET(shelf->n) >= GM_SHELF_BLOCKS ||
	    shelf->bytes + held > pool->memory / GM_SHELF_PART)
		return NULL;
	if (config->idle && config->trim_after == 0) /* it goes back at once */
		return NULL;
	return bin_of(shelf, held, true);
}

bool gm_shelf_put(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_piece *piece)
{
	const struct gm_pool_config *config = &pool->config;
	struct gm_bin *bin = room_for(pool, shelf, piece);
	if (!bin)
		return false;
	change(pool, shelf, -GM_GET(piece->size), -bin->held, (uint64_t)-1);
	gm_piece_begin(piece);
	GM_SET(piece->state, GM_SHELVED);
	GM_SET(piece->size, 0);
	GM_SET(piece->id, 0);
	GM_SET(piece->context, 0);
	gm_piece_end(piece);
	piece->retired_at = gm_pool_now(pool);
	piece->next = bin->first;
	bin->first = piece;
	shelf->bytes += bin->held;
	set_n(shelf, GM_GET(shelf->n) + 1);
	if (config->idle && (config->keep == 0 || gm_pool_idle(pool) > config->keep))
		config->idle(config->idle_arg);
	return true;
}

/* --- under the pool's lock --- */

struct gm_piece *gm_shelf_take(struct gm_shelf *shelf, uint64_t held)
{
	gm_lock_take(&shelf->lock);
	struct gm_piece *piece = pop(shelf, held);
	gm_lock_release(&shelf->lock);
	return piece;
}

void gm_shelves_lock(struct gm_pool *pool)
{
	for (unsigned i = 0; i < in_use(pool); i++)
		gm_lock_take_next(&pool->shelves[i].lock);
}

void gm_shelves_unlock(struct gm_pool *pool)
{
	for (unsigned i = in_use(pool); i-- > 0;)
		gm_lock_release(&pool->shelves[i].lock);
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

/* The last one in comes first, so the old ones are the end of the list. The oldest goes first. */
static void empty_bin(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_bin *bin,
		      uint64_t until)
{
	struct gm_piece **link = &bin->first;
	while (*link && (*link)->retired_at > until)
		link = &(*link)->next;
	struct gm_piece *piece = reversed(*link), *next;
	*link = NULL;
	for (; piece; piece = next) {
		next = piece->next;
		shelf->bytes -= bin->held;
		set_n(shelf, GM_GET(shelf->n) - 1);
		gm_pool_put_back_since(pool, piece, piece->retired_at);
	}
}

static bool empty(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t until)
{
	uint32_t n = GM_GET(shelf->n);
	for (unsigned i = 0; GM_GET(shelf->n) && i < GM_SHELF_BINS; i++)
		empty_bin(pool, shelf, &shelf->bins[i], until);
	if (GM_GET(shelf->n) == 0)
		memset(shelf->bins, 0, sizeof shelf->bins);
	return GM_GET(shelf->n) < n;
}

void gm_shelf_empty(struct gm_pool *pool, struct gm_shelf *shelf)
{
	gm_lock_take(&shelf->lock);
	empty(pool, shelf, UINT64_MAX);
	gm_lock_release(&shelf->lock);
}

bool gm_shelves_flush(struct gm_pool *pool, uint64_t until)
{
	bool any = false;
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

uint64_t gm_shelves_oldest(struct gm_pool *pool)
{
	uint64_t oldest = UINT64_MAX;
	for (unsigned i = 0; i < in_use(pool); i++) {
		struct gm_shelf *shelf = &pool->shelves[i];
		gm_lock_take(&shelf->lock);
		for (unsigned k = 0; GM_GET(shelf->n) && k < GM_SHELF_BINS; k++)
			for (struct gm_piece *p = shelf->bins[k].first; p; p = p->next)
				if (p->retired_at < oldest)
					oldest = p->retired_at;
		gm_lock_release(&shelf->lock);
	}
	return oldest;
}

/* --- checking --- */

static const char *check_bin(struct gm_shelf *shelf, const struct gm_bin *bin, uint64_t *n,
			     uint64_t *bytes)
{
	uint64_t last = UINT64_MAX;
	if (bin->first && bin_of(shelf, bin->held, false) != bin)
		return "a bin is found by its size";
	for (const struct gm_piece *piece = bin->first; piece; piece = piece->next) {
		if (GM_GET(piece->state) != GM_SHELVED || piece->pinned)
			return "what is on a shelf is shelved";
		if (GM_GET(piece->held) != bin->held)
			return "blocks on a shelf have the size of their bin";
		if (piece->retired_at > last)
			return "shelved blocks are listed by age";
		last = piece->retired_at;
		(*n)++;
		*bytes += bin->held;
	}
	return NULL;
}

static const char *check(const struct gm_pool *pool, struct gm_shelf *shelf, uint64_t *n_all)
{
	uint64_t n = 0, bytes = 0;
	const char *why = NULL;
	for (unsigned i = 0; i < GM_SHELF_BINS && !why; i++)
		why = check_bin(shelf, &shelf->bins[i], &n, &bytes);
	if (why)
		return why;
	if (n != GM_GET(shelf->n) || bytes != shelf->bytes)
		return "shelved blocks are counted";
	if (n > GM_SHELF_BLOCKS || bytes > pool->memory / GM_SHELF_PART)
		return "a shelf has its bounds";
	if ((int64_t)shelf->requested > shelf->most || shelf->most > shelf->allowance)
		return "a shelf keeps to its allowance";
	*n_all += n;
	return shelf->id <= shelf->id_end ? NULL : "a shelf keeps to its ids";
}

const char *gm_shelves_check(const struct gm_pool *pool, uint64_t *n)
{
	const char *why = NULL;
	int64_t granted = 0;
	for (unsigned i = 0; i < GM_SHELVES && !why; i++) {
		if (i >= in_use(pool) && pool->shelves[i].n)
			return "shelves in use are counted";
		why = check(pool, &pool->shelves[i], n);
		granted += pool->shelves[i].allowance;
	}
	if (!why && granted != pool->granted)
		why = "allowances are counted";
	if (!why && (int64_t)pool->requested + granted > (int64_t)pool->requested_peak)
		why = "allowances do not reach beyond the peak";
	return why;
}
