/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exchange of memory with the driver. Each step is planned under the pool's lock, calls the driver
 * without it, and publishes the result under it; a failure in between is undone.
 */
#ifndef GM_POOL_GROW_H
#define GM_POOL_GROW_H

#include "base/lock.h"
#include "pool/chunk.h"
#include "pool/fit.h"

/* --- the pool's lock is held --- */

/* The limit of mapped bytes; the bytes left under that limit. */
uint64_t gm_pool_most(const struct gm_pool *pool);
uint64_t gm_pool_room(const struct gm_pool *pool);

/* Bytes that count against the limit: mapped, less vacant places (vacant.h); lent; being mapped. */
uint64_t gm_pool_committed(const struct gm_pool *pool);

/* By how much `length` bytes exceed the room beside live, retired and lent memory. Spare loans
 * count as room. Empties the shelves. */
uint64_t gm_pool_excess(struct gm_pool *pool, uint64_t length);
static inline bool gm_pool_can_hold(struct gm_pool *pool, uint64_t length)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	return gm_pool_excess(pool, length) == 0;
}

/* The fewest bytes to map, at *at (0: anywhere), for an extent that serves `want`. An idle extent
 * followed by free addresses is extended, or a hot one that the context may get. */
uint64_t gm_pool_shortfall(const struct gm_pool *pool, struct gm_want want, CUdeviceptr *at);

/* The length of the handles for a growth by `bytes`. */
uint64_t gm_pool_piece(const struct gm_pool *pool, uint64_t bytes);

/* --- the pool's lock is held; it is released around driver calls --- */

/*
 * Map side by side, from `at`, the start of free addresses (0: anywhere): first the detached chunks
 * `idle`, which are moved there, then `bytes` (a multiple of 2 MiB) of new memory, in handles of at
 * most `piece` bytes. On failure there is no new memory, and the chunks are idle again, at the old
 * or the new addresses; a chunk that the driver maps at neither was returned to the driver.
 */
CUresult gm_pool_map(struct gm_pool *pool, CUdeviceptr at, struct gm_chunk *idle, uint64_t bytes,
		     uint64_t piece);

/* Return detached chunks to the driver. The result is their bytes, without chunks that the driver
 * did not unmap; these are idle again. */
uint64_t gm_pool_give(struct gm_pool *pool, struct gm_chunk *chunks);

/* Return wholly idle chunks of `bytes` to the driver, or all if they are fewer, to make room for
 * other chunks. Returns their bytes. */
uint64_t gm_pool_shed(struct gm_pool *pool, uint64_t bytes);

/* End of a move or return of chunks by a thread that counted itself in `giving`. */
void gm_pool_giving_end(struct gm_pool *pool);

/* Wait until no other thread is moving chunks or returning them to the driver. */
void gm_pool_await_given(struct gm_pool *pool);

#endif
