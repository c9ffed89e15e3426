/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/freed.h"

#include "pool/internal.h"

/* Of all shelves. */
static uint64_t most_bytes(const struct gm_pool *pool)
{
	return pool->config.retire / GM_FREED_PART;
}

bool gm_freed_is_large(const struct gm_pool *pool, uint64_t held)
{
	return held * GM_FREED_LEAST > GM_GET(pool->freed_share);
}

/* Each free reads it: written only when it changes. */
static void set_share(struct gm_pool *pool)
{
	uint64_t share = most_bytes(pool) / (pool->n_collecting ? pool->n_collecting : 1);
	if (share != GM_GET(pool->freed_share))
		atomic_store_explicit(&pool->freed_share, share, memory_order_relaxed);
}

static bool takes(const struct gm_pool *pool, const struct gm_freed *freed, uint64_t held,
		  uint64_t context)
{
	return freed->list.n < freed->most && freed->context == context &&
	       freed->list.bytes + held <= freed->share && GM_GET(pool->may_collect);
}

static void append(struct gm_retiring *list, struct gm_piece *piece)
{
	piece->next = NULL;
	*(list->last ? &list->last->next : &list->first) = piece;
	list->last = piece;
	list->bytes += GM_GET(piece->held);
	list->n++;
}

bool gm_freed_put(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_piece *piece,
		  uint64_t context)
{
	if (!takes(pool, &shelf->freed, GM_GET(piece->held), context))
		return false;
	gm_shelf_count_freed(pool, shelf, piece);
	gm_piece_begin(piece);
	GM_SET(piece->state, GM_RETIRED);
	gm_piece_end(piece);
	gm_retired_note(pool, piece);
	append(&shelf->freed.list, piece);
	gm_pool_tell_idle(pool);
	return true;
}

void gm_freed_hand_over(struct gm_pool *pool, struct gm_shelf *shelf)
{
	pool->n_collecting -= shelf->freed.most > 0;
	shelf->freed.most = 0;
	gm_retired_add(pool, shelf->freed.into, &shelf->freed.list);
}

/* As many as make a batch with what is there; another batch, if that is one. */
static uint32_t most_blocks(const struct gm_pool *pool, const struct gm_retired *into)
{
	uint64_t there = into->fresh_n, batch = gm_retired_batch(pool);
	return (uint32_t)(batch - 1 - (there < batch ? there : 0));
}

void gm_freed_allow(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_retired *into)
{
	struct gm_freed *freed = &shelf->freed;
	if (!pool->config.defer || gm_pool_trims_at_once(pool))
		return; /* each is looked at when it is freed */
	freed->into = into;
	freed->context = into->context;
	freed->allowed = ++pool->n_allowed;
	pool->n_collecting++;
	freed->most = most_blocks(pool, into);
	pool->n_collecting -= freed->most == 0;
	set_share(pool);
	freed->share = GM_GET(pool->freed_share);
}

void gm_freed_hand_over_all(struct gm_pool *pool)
{
	for (unsigned i = 0; i < GM_GET(pool->n_shelves); i++)
		gm_freed_hand_over(pool, &pool->shelves[i]);
}

void gm_freed_collect(struct gm_pool *pool)
{
	for (unsigned i = 0; i < GM_GET(pool->n_shelves); i++) {
		struct gm_shelf *shelf = &pool->shelves[i];
		gm_quick_take(&shelf->lock);
		if (shelf->freed.most)
			gm_freed_hand_over(pool, shelf);
		gm_quick_release(&shelf->lock);
	}
}

/* Hand over what a shelf collects that has not done so for a while. */
static bool retire_old(struct gm_pool *pool, struct gm_shelf *shelf)
{
	gm_quick_take(&shelf->lock);
	bool old = shelf->freed.most && shelf->freed.allowed + GM_FREED_TURN < pool->n_allowed;
	if (old)
		gm_freed_hand_over(pool, shelf);
	gm_quick_release(&shelf->lock);
	return old;
}

void gm_freed_sweep(struct gm_pool *pool)
{
	if (GM_LIKELY(pool->n_allowed < pool->sweep_at))
		return;
	pool->sweep_at = pool->n_allowed + GM_FREED_TURN;
	for (unsigned i = 0; i < GM_GET(pool->n_shelves); i++)
		if (retire_old(pool, &pool->shelves[i]))
			gm_retired_return(pool, pool->shelves[i].freed.into);
}

void gm_freed_open(struct gm_pool *pool)
{
	set_share(pool);
	gm_freed_bound(pool);
}

void gm_freed_bound(struct gm_pool *pool)
{
	bool may = pool->retired <= pool->config.retire - most_bytes(pool);
	if (may != GM_GET(pool->may_collect))
		atomic_store_explicit(&pool->may_collect, may, memory_order_relaxed);
}

const char *gm_freed_check(const struct gm_freed *freed)
{
	uint64_t bytes = 0, n = 0;
	const struct gm_piece *last = NULL;
	for (const struct gm_piece *piece = freed->list.first; piece; piece = piece->next, n++) {
		if (GM_GET(piece->state) != GM_RETIRED)
			return "what a shelf has freed is retired";
		bytes += GM_GET(piece->held);
		last = piece;
	}
	if (n != freed->list.n || bytes != freed->list.bytes || last != freed->list.last)
		return "what a shelf has freed is counted";
	return n <= freed->most && bytes <= freed->share ? NULL : "a shelf has its bounds";
}
