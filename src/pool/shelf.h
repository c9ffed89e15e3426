/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shelves: idle blocks as they were freed, uncoalesced, for the next request of exactly their size.
 * They serve the program ahead of the extents: an allocation or a free that a shelf can answer
 * takes neither the pool's lock nor a cache line that threads of other shelves write.
 *
 *     free ---------> bins   slots, by class; last in, first out          ---> alloc
 *       |         +-> row    larger blocks, oldest first, few of them
 *       v         |
 *     limbo ---> passed      blocks of bags that have passed, untouched   ---> alloc
 *
 * A pool has GM_SHELVES shelves. A thread uses the shelf of its number; on a miss it tries a few
 * others. Neighbours of a larger block cannot coalesce with it, so the rows hold a small part of
 * the mapped memory. The older half of a full bin or row goes to the extents, and the whole row
 * when a request of GM_POOL_BIG or more is not found in it: best fit loses less when all neighbours
 * are joined. Shelves are emptied into the extents before the pool grows, returns memory to the
 * driver, lends, or counts its idle runs. Blocks older than config.trim_after are, before it is
 * trimmed.
 *
 * Where frees are deferred, all blocks of a bag become idle at once and are reused at once: then a
 * shelf has room for two bags (limbo.h).
 *
 * Extents and struct gm_chunk treat a shelved block as in use; all other code, as idle.
 *
 * A shelf has sums of the calls of its threads; a figure of the pool adds them to its own sum. The
 * peak of requested bytes is exact nevertheless: a shelf may let its sum grow to an allowance, and
 * all allowances together do not exceed the peak so far. An allocation beyond the allowance of its
 * shelf borrows from other shelves. If none has any left, the sums are added up under all locks.
 *
 * Locks: the pool's, then the shelves', in their order if more than one.
 */
#ifndef GM_POOL_SHELF_H
#define GM_POOL_SHELF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/futex_lock.h"
#include "pool/hot.h"
#include "pool/limbo.h"
#include "pool/slab.h"

#define GM_SHELVES 32	   /* ThreadSanitizer follows at most 64 held locks */
#define GM_SHELF_ROW 16	   /* most larger blocks of a shelf */
#define GM_SHELF_WIDE 1024 /* likewise with config.defer */
#define GM_SHELF_PART 32   /* all rows together have at most 1/32 of the mapped bytes */
#define GM_SHELF_SLOTS 64  /* most slots in a bin; of large slots, at most so many bytes: */
#define GM_SHELF_BIN (256 * GM_KIB)
#define GM_SHELF_DEEP 1024 /* slots in a bin with config.defer */
#define GM_SHELF_REFILL 15 /* slots taken beside the requested one */
#define GM_SHELF_STEALS 4  /* other shelves tried */
#define GM_SHELF_IDS 1024  /* block ids that a shelf takes at once */
#define GM_SHELF_FRESH ((uint64_t)20 * 1000 * 1000)

struct gm_pool;

/* Slots of one class. */
struct gm_bin {
	struct gm_piece *first; /* the last one in; linked through `next` */
	uint32_t n;
};

/* A larger block, with a copy of its size, so that a search touches no other block. */
struct gm_shelved {
	uint64_t held;
	struct gm_piece *piece;
};

/* Blocks of bags that have passed. They are idle, but untouched, so still GM_RETIRED. */
struct gm_passed {
	struct gm_piece *first;
	uint64_t bytes, since;
};

struct gm_shelf {
	_Alignas(128) struct gm_futex_lock lock; /* guards all that follows */
	_Atomic uint32_t n;			 /* blocks here; also read without the lock */
	uint64_t id, id_end;			 /* the next block's id, unless it is id_end */
	/* Changes of the pool's sums by allocations and frees here, modulo 2^64. */
	uint64_t requested, live_blocks;
	_Atomic uint64_t handed_out; /* also read without the lock */
	int64_t allowance;	     /* `requested` may grow to this */
	int64_t most; /* the peak of `requested` since it was added to the pool's sum */
	struct gm_bin bins[GM_SLAB_CLASSES];
	struct gm_hot hot; /* of bins and row */
	struct gm_limbo limbo;
	_Atomic uint64_t retired; /* bytes in limbo; also read without the lock */
	struct gm_passed passed;
	uint32_t n_row;
	uint64_t row_bytes;
	struct gm_shelved row[GM_SHELF_WIDE]; /* oldest first */
};

/* False: no host memory. */
bool gm_shelves_open(struct gm_pool *pool);
void gm_shelves_close(struct gm_pool *pool);

/* Put a shelf into use; gm_shelf_mine (internal.h) is the calling thread's. No lock held. */
void gm_shelf_begin(struct gm_pool *pool, unsigned index);

/* The warm path, no lock held: a block of `size` bytes from this shelf or another one. False: no
 * shelf has a block of exactly `held` bytes, or the block would make a new peak of requested
 * bytes. */
bool gm_shelf_alloc(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size, uint64_t held,
		    uint64_t context, struct gm_block *out);

/* Under the shelf's lock: put a block that the caller claimed (gm_piece_claim) on the shelf, and
 * count it as idle, or (`heat` is not NULL) as hot. False: the caller takes the slow path, for the
 * block is pinned or the shelf is full. */
bool gm_shelf_put(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_piece *piece,
		  const struct gm_heat *heat);

/* Under the shelf's lock: count one more block, if the allowance suffices; get an id for a block.
 */
bool gm_shelf_count(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size, uint64_t held);
uint64_t gm_shelf_next_id(struct gm_shelf *shelf);

/* The most blocks of a bin with slots of `held` bytes, and of a row. */
uint32_t gm_shelf_most_slots(const struct gm_pool *pool, uint64_t held);
uint32_t gm_shelf_most_in_row(const struct gm_pool *pool);

/* --- under the pool's lock --- */

/* Adapt the bounds of the shelves to the mapped bytes. */
void gm_shelves_resize(struct gm_pool *pool);

/* After gm_shelf_alloc: take a block that it refused because of the peak. The caller owns the block
 * from now on. NULL: no block. */
struct gm_piece *gm_shelf_take(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size,
			       uint64_t held, uint64_t context);

/* After an allocation of `size` bytes out of a slab, if several threads defer their frees: take the
 * next slots as well, for each thread needs many. Taken one by one, neighbours would belong to
 * different threads, and their pieces share pairs of cache lines. */
void gm_shelf_refill(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size);

/* As gm_shelf_put, but takes the lock of the shelf, and makes room on it. False: the block is
 * pinned, or idle memory is returned to the driver at once. */
bool gm_shelf_put_making_room(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_piece *piece,
			      const struct gm_heat *heat);

/* Under the shelf's lock, too: move passed blocks to bins and row while there is room, else into
 * the extents. */
void gm_shelf_sort_passed(struct gm_pool *pool, struct gm_shelf *shelf);

/* Empty the row into the extents. */
void gm_shelf_empty_row(struct gm_pool *pool, struct gm_shelf *shelf);

/* Empty all shelves into the extents; true if there was any block. If frees are deferred, the
 * second function leaves blocks shelved in the last GM_SHELF_FRESH ns: each thread needs its own
 * while others wait in limbo. Threads that took blocks from one another would all lack them. */
bool gm_shelves_empty(struct gm_pool *pool);
bool gm_shelves_empty_old(struct gm_pool *pool);

/* The locks of all shelves: no other thread allocates, frees or writes a piece. */
void gm_shelves_lock(struct gm_pool *pool);
void gm_shelves_unlock(struct gm_pool *pool);

/* Under these locks, too: empty the shelves of blocks shelved at `until` (of config.clock) or
 * earlier, and add the sums of the shelves to the pool's. */
bool gm_shelves_flush(struct gm_pool *pool, uint64_t until);

/* Time at which the oldest shelved block was shelved; UINT64_MAX: there is none. */
uint64_t gm_shelves_oldest(struct gm_pool *pool);

/* NULL, or the broken invariant; *n, *n_retired: blocks on the shelves, and GM_RETIRED blocks
 * there. Under all locks. shelf_check.c. */
const char *gm_shelves_check(const struct gm_pool *pool, uint64_t *n, uint64_t *n_retired);

#endif
