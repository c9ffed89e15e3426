/* SPDX-License-Identifier: BSD-3-Clause */
/* The shelves of a pool: their memory, their locks, their bounds. */
#include <sys/mman.h>

#include "pool/internal.h"
#include "pool/shelf.h"

#define BYTES (GM_SHELVES * sizeof(struct gm_shelf))

bool gm_shelves_open(struct gm_pool *pool)
{
	void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		return false;
	pool->shelves = memory;
	for (unsigned i = 0; i < GM_SHELVES; i++)
		gm_futex_lock_init(&pool->shelves[i].lock, GM_LOCK_RANK_SHELF);
	for (unsigned i = 0; i < GM_SHELVES; i++)
		pool->shelves[i].hot.device = pool->config.ordinal;
	return true;
}

void gm_shelves_close(struct gm_pool *pool)
{
	if (!pool->shelves)
		return;
	munmap(pool->shelves, BYTES);
}

void gm_shelves_resize(struct gm_pool *pool)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	unsigned n = gm_shelves_in_use(pool);
	atomic_store_explicit(&pool->shelf_bytes, pool->mapped / GM_SHELF_PART / (n ? n : 1),
			      memory_order_relaxed);
}

void gm_shelf_begin(struct gm_pool *pool, unsigned index)
{
	gm_pool_lock(pool);
	if (index >= gm_shelves_in_use(pool))
		atomic_store_explicit(&pool->n_shelves, index + 1, memory_order_relaxed);
	gm_shelves_resize(pool);
	gm_pool_unlock(pool);
}

void gm_shelves_lock(struct gm_pool *pool)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	for (unsigned i = 0; i < gm_shelves_in_use(pool); i++)
		gm_futex_lock_take_next(&pool->shelves[i].lock);
}

void gm_shelves_unlock(struct gm_pool *pool)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	for (unsigned i = gm_shelves_in_use(pool); i-- > 0;)
		gm_futex_lock_release(&pool->shelves[i].lock);
}

/* The oldest block of a bin is its last one. */
static uint64_t shelf_oldest(struct gm_shelf *shelf)
{
	gm_futex_lock_assert_held(&shelf->lock);
	uint64_t oldest = shelf->n_row ? gm_piece_shelved_at(shelf->row[0].piece) : UINT64_MAX;
	if (shelf->passed.first && shelf->passed.since < oldest)
		oldest = shelf->passed.since;
	for (unsigned i = 0; GM_GET(shelf->n) > shelf->n_row && i < GM_SLAB_CLASSES; i++)
		for (struct gm_piece *piece = shelf->bins[i].first; piece; piece = piece->next)
			if (!piece->next && gm_piece_shelved_at(piece) < oldest)
				oldest = gm_piece_shelved_at(piece);
	return oldest;
}

uint64_t gm_shelves_oldest(struct gm_pool *pool)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	uint64_t oldest = UINT64_MAX;
	for (unsigned i = 0; i < gm_shelves_in_use(pool); i++) {
		struct gm_shelf *shelf = &pool->shelves[i];
		gm_futex_lock_take(&shelf->lock);
		uint64_t since = shelf_oldest(shelf);
		gm_futex_lock_release(&shelf->lock);
		oldest = since < oldest ? since : oldest;
	}
	return oldest;
}
