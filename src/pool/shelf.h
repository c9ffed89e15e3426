/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shelves: idle blocks as they were freed, uncoalesced, for the next request of exactly their size,
 * which is most of them. They stand between the program and the extents: an allocation or a free
 * that a shelf can answer takes neither the pool's lock nor a cache line that threads of other
 * shelves write.
 *
 * A pool has GM_SHELVES of them. A thread uses the one of its number; on a miss it looks at some
 * others. A shelf has a bin for each size, last in first out, found by hashing the size. One that
 * is full (blocks, bytes, or distinct sizes) is emptied into the extents, where neighbours
 * coalesce; so are all before the pool grows, gives back, lends or counts its idle runs, and what
 * nobody took for config.trim_after before it is trimmed.
 *
 * To the extents and to struct gm_chunk a shelved block is in use; to everybody else it is idle.
 *
 * A shelf has sums of its own, of what its threads allocated and freed: the pool's sums are what it
 * keeps itself and those of all shelves. The peak of requested bytes is exact nevertheless: a shelf
 * may let its sum grow to an allowance, and all allowances together do not reach beyond the peak so
 * far. Only an allocation beyond its shelf's allowance sums up, under all locks.
 *
 * Locks: that of the pool, then those of the shelves, in their order if more than one.
 */
#ifndef GM_POOL_SHELF_H
#define GM_POOL_SHELF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"

#define GM_SHELVES 32 /* ThreadSanitizer follows 64 locks held at once */
#define GM_SHELF_BINS 128
#define GM_SHELF_PROBES 8   /* bins looked at for a size */
#define GM_SHELF_STEALS 4   /* other shelves looked at */
#define GM_SHELF_BLOCKS 256 /* most of them on one shelf */
#define GM_SHELF_PART 8	    /* most bytes: this part of the device's memory */
#define GM_SHELF_IDS 1024   /* block ids that a shelf takes at once */

struct gm_pool;
struct gm_piece;
struct gm_block;

/* Blocks of one size. A bin keeps its size when the last block is taken, until it is needed for
 * another one. */
struct gm_bin {
	uint64_t held;		/* 0: never used */
	struct gm_piece *first; /* the last one in; linked through `next` */
};

struct gm_shelf {
	_Alignas(128) struct gm_lock lock; /* of all that follows */
	_Atomic uint32_t n;		   /* blocks in the bins; also read without the lock */
	uint64_t bytes;
	uint64_t id, id_end; /* the next block's id, unless it is the end */
	/* What allocations and frees here changed of the pool's sums, modulo 2^64. */
	uint64_t requested, live_blocks;
	_Atomic uint64_t handed_out; /* also read without the lock */
	int64_t allowance;	     /* `requested` may grow to this */
	int64_t most; /* and has grown to this since it was last added to the pool's */
	struct gm_bin bins[GM_SHELF_BINS];
};

/* False: no host memory. */
bool gm_shelves_open(struct gm_pool *pool);
void gm_shelves_close(struct gm_pool *pool);

/* The calling thread's shelf. No lock held. */
struct gm_shelf *gm_shelf_mine(struct gm_pool *pool);

/* The warm path, no lock held: a block of `size` bytes from this shelf or another one. False: none
 * has a block of exactly `held` bytes, or it would be a new peak of requested bytes. */
bool gm_shelf_alloc(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size, uint64_t held,
		    uint64_t context, struct gm_block *out);

/* Under the shelf's lock: a block that the caller claimed (gm_table_claim) becomes idle on the
 * shelf, and is counted so. False: it has to go the slow way, for it is pinned or the shelf is
 * full. */
bool gm_shelf_put(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_piece *piece);

/* Under the shelf's lock: count one block more, if its allowance lets it; an id for a block. */
bool gm_shelf_count(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size, uint64_t held);
uint64_t gm_shelf_next_id(struct gm_shelf *shelf);

/* --- under the pool's lock --- */

/* A block of `held` bytes, which is the caller's from now on; NULL: none is on this shelf. */
struct gm_piece *gm_shelf_take(struct gm_shelf *shelf, uint64_t held);

/* Empty a shelf into the extents, or all of them; true if there was any block. */
void gm_shelf_empty(struct gm_pool *pool, struct gm_shelf *shelf);
bool gm_shelves_empty(struct gm_pool *pool);

/* The locks of all shelves: nobody else allocates, frees or writes a piece. */
void gm_shelves_lock(struct gm_pool *pool);
void gm_shelves_unlock(struct gm_pool *pool);

/* Under these locks, too: empty the shelves of what is there since `until` (of config.clock) or
 * earlier, and add their sums to the pool's. */
bool gm_shelves_flush(struct gm_pool *pool, uint64_t until);

/* Since when the longest shelved block is there; UINT64_MAX: there is none. */
uint64_t gm_shelves_oldest(struct gm_pool *pool);

/* NULL, or the invariant that is broken; *n: how many blocks are shelved. Under all locks. */
const char *gm_shelves_check(const struct gm_pool *pool, uint64_t *n);

#endif
