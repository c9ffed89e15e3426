/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sums of a pool, their copies in the live counters, and figures computed from them.
 *
 * The pool has its own sums, and each shelf has sums of the calls of its threads; a figure of the
 * pool is the total. It is exact under all locks; without them calls in progress may be missing.
 */
#ifndef GM_POOL_STATS_H
#define GM_POOL_STATS_H

#include "log/count.h"
#include "pool/internal.h"

/* --- no lock is needed --- */

/*
 *     mapped = live + idle + hot + waiting
 *                     |- stock -|            what an allocation of the program may get
 *                            |- retired -|   what work may still use
 */
uint64_t gm_pool_live(const struct gm_pool *pool);
uint64_t gm_pool_idle(const struct gm_pool *pool);
uint64_t gm_pool_waiting(const struct gm_pool *pool); /* in limbo, or stranded (hot.h) */
uint64_t gm_pool_stock(const struct gm_pool *pool);
uint64_t gm_pool_retired(const struct gm_pool *pool);

/* Add to the live counters of blocks; `other` is the gauge for their bytes while they are not
 * handed out. */
static inline void gm_pool_show_live(const struct gm_pool *pool, uint64_t size, uint64_t held,
				     uint64_t n, enum gm_counter other)
{
	unsigned device = pool->config.ordinal;
	_Atomic uint64_t *parts = gm_count_device(device);
	gm_count_in(parts, device, GM_C_requested, size);
	gm_count_in(parts, device, GM_C_handed_out, held);
	gm_count_in(parts, device, other, -held);
	gm_count_in(parts, device, GM_C_live_blocks, n);
}

/* --- the shelf's lock is held --- */

/* Change the sums of the shelf and the live counters. */
static inline void gm_shelf_count_change(struct gm_pool *pool, struct gm_shelf *shelf,
					 uint64_t size, uint64_t held, uint64_t n,
					 enum gm_counter other)
{
	gm_lock_assert_held(GM_LOCK_RANK_SHELF);
	shelf->requested += size;
	shelf->live_blocks += n;
	atomic_store_explicit(&shelf->handed_out, GM_GET(shelf->handed_out) + held,
			      memory_order_relaxed);
	gm_pool_show_live(pool, size, held, n, other);
}

/* Count a claimed block as freed; its bytes become `into`: idle or retired. */
static inline void gm_shelf_count_freed(struct gm_pool *pool, struct gm_shelf *shelf,
					const struct gm_piece *piece, enum gm_counter into)
{
	gm_lock_assert_held(GM_LOCK_RANK_SHELF);
	gm_shelf_count_change(pool, shelf, -GM_GET(piece->size), -GM_GET(piece->held), (uint64_t)-1,
			      into);
}

/* --- no lock is needed --- */

/* Live counters: move bytes from retired to idle. */
void gm_pool_show_reclaimed(const struct gm_pool *pool, uint64_t bytes);

/* Live counters: raise the peak of retired bytes to the present sum. */
void gm_pool_count_retired_peak(const struct gm_pool *pool);

/* Count the wait of `call` for a fence, which ends now. Returns gm_tick; 0: untimed call. */
uint64_t gm_pool_count_fence(const struct gm_pool *pool, struct gm_timing call);

/* --- the pool's lock is held: sums and live counters --- */

/* Count one more block, allocated by a thread of this shelf. No shelf's lock is held. */
void gm_pool_count_live(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size, uint64_t held);
void gm_pool_count_freed(struct gm_pool *pool, uint64_t size, uint64_t held);
void gm_pool_count_chunk(struct gm_pool *pool, uint64_t size);
void gm_pool_count_chunk_gone(struct gm_pool *pool, uint64_t size);
void gm_pool_count_lent(struct gm_pool *pool, uint64_t lent);
void gm_pool_count_spare(struct gm_pool *pool, uint64_t spare);

/* --- the pool's lock and the locks of all shelves are held --- */

/* Add the sums of the shelves to the pool's, and set the shelves' to 0. */
void gm_pool_sum_up(struct gm_pool *pool);

#endif
