/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shelves: idle blocks as they were freed, uncoalesced, for the next request of exactly their size,
 * which is most of them. They stand between the program and the extents: an allocation or a free
 * that a shelf can answer takes neither the pool's lock nor a cache line that threads of other
 * shelves write.
 *
 * A pool has GM_SHELVES of them. A thread uses the one of its number; on a miss it looks at some
 * others. A shelf has a bin for each class of slots, last in first out, and a short row of larger
 * blocks, for their neighbours wait to coalesce: of those it keeps few, in all a small part of what
 * is mapped, and one whatever its size. From what is full, the older half goes to the extents,
 * and the whole row when a request from GM_POOL_BIG on is not found on it: best fit loses less when
 * all neighbours are joined. Everything goes there before the pool grows, gives back, lends or
 * counts its idle runs, and what nobody took for config.trim_after before it is trimmed.
 *
 * Where frees are deferred a batch of blocks becomes idle at once, and is used again at once: then
 * a shelf has room for two batches as it collects them (freed.h).
 *
 * To the extents and to struct gm_chunk a shelved block is in use; to everybody else it is idle.
 *
 * A shelf has sums of its own, of what its threads allocated and freed: the pool's sums are what it
 * keeps itself and those of all shelves. The peak of requested bytes is exact nevertheless: a shelf
 * may let its sum grow to an allowance, and all allowances together do not reach beyond the peak so
 * far. An allocation beyond its shelf's allowance borrows from the others, and only where nothing
 * is left of theirs sums up, under all locks.
 *
 * Locks: that of the pool, then those of the shelves, in their order if more than one.
 */
#ifndef GM_POOL_SHELF_H
#define GM_POOL_SHELF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/quick.h"
#include "pool/freed.h"
#include "pool/slab.h"

#define GM_SHELVES 32	   /* ThreadSanitizer follows 64 locks held at once */
#define GM_SHELF_ROW 16	   /* most larger blocks of a shelf */
#define GM_SHELF_WIDE 1024 /* likewise with config.defer */
#define GM_SHELF_PART 32   /* most of them on all shelves: this part of what is mapped */
#define GM_SHELF_SLOTS 64  /* most slots in a bin; of large ones, as many as make this: */
#define GM_SHELF_BIN (256 * GM_KIB)
#define GM_SHELF_DEEP 1024 /* slots in a bin with config.defer */
#define GM_SHELF_REFILL 15 /* slots taken beside one that is asked for */
#define GM_SHELF_STEALS 4  /* other shelves looked at */
#define GM_SHELF_IDS 1024  /* block ids that a shelf takes at once */
#define GM_SHELF_FRESH ((uint64_t)20 * 1000 * 1000)

struct gm_pool;

/* Slots of one class. */
struct gm_bin {
	struct gm_piece *first; /* the last one in; linked through `next` */
	uint32_t n;
};

/* A larger block; its size is here as well, so that looking for one touches no others. */
struct gm_shelved {
	uint64_t held;
	struct gm_piece *piece;
};

/* Blocks that came back at once. Nobody has looked at them since, so they are GM_RETIRED still. */
struct gm_stock {
	struct gm_piece *first;
	uint64_t bytes, since;
};

struct gm_shelf {
	_Alignas(128) struct gm_quick lock; /* of all that follows */
	_Atomic uint32_t n;		    /* blocks on it; also read without the lock */
	uint64_t id, id_end;		    /* the next block's id, unless it is the end */
	/* What allocations and frees here changed of the pool's sums, modulo 2^64. */
	uint64_t requested, live_blocks;
	_Atomic uint64_t handed_out; /* also read without the lock */
	int64_t allowance;	     /* `requested` may grow to this */
	int64_t most; /* and has grown to this since it was last added to the pool's */
	struct gm_bin bins[GM_SLAB_CLASSES];
	struct gm_freed freed;
	struct gm_stock stock;
	uint32_t n_row;
	uint64_t row_bytes;
	struct gm_shelved row[GM_SHELF_WIDE]; /* oldest first */
};

/* False: no host memory. */
bool gm_shelves_open(struct gm_pool *pool);
void gm_shelves_close(struct gm_pool *pool);

/* A shelf comes into use; gm_shelf_mine (internal.h) is the calling thread's. No lock held. */
void gm_shelf_begin(struct gm_pool *pool, unsigned index);

/* The warm path, no lock held: a block of `size` bytes from this shelf or another one. False: none
 * has a block of exactly `held` bytes, or it would be a new peak of requested bytes. */
bool gm_shelf_alloc(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size, uint64_t held,
		    uint64_t context, struct gm_block *out);

/* Under the shelf's lock: a block that the caller claimed (gm_piece_claim) becomes idle on the
 * shelf, and is counted so. False: it has to go the slow way, for it is pinned or the shelf is
 * full. */
bool gm_shelf_put(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_piece *piece);

/* Under the shelf's lock: a claimed block is alive no more. */
void gm_shelf_count_freed(struct gm_pool *pool, struct gm_shelf *shelf,
			  const struct gm_piece *piece);

/* Under the shelf's lock: count one block more, if its allowance lets it; an id for a block. */
bool gm_shelf_count(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size, uint64_t held);
uint64_t gm_shelf_next_id(struct gm_shelf *shelf);

/* --- under the pool's lock --- */

/* What is mapped has changed. */
void gm_shelves_resize(struct gm_pool *pool);

/* After gm_shelf_alloc: the block that it did not take because of the peak, and which is the
 * caller's from now on; NULL: there is none. */
struct gm_piece *gm_shelf_take(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size,
			       uint64_t held);

/* After an allocation of `size` bytes out of a slab, where several threads defer their frees: the
 * next slots, too, for each thread needs many. Taken one by one by turns, neighbours would belong
 * to different threads, and their books lie side by side in pairs of cache lines. */
void gm_shelf_refill(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t size);

/* Likewise gm_shelf_put, which takes the lock of the shelf, and makes room on it. False: the block
 * is not to be shelved. */
bool gm_shelf_put_making_room(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_piece *piece);

/* Put a list of pieces back that are used no more and count as idle (gm_retired_take), all at once.
 * Each is looked at when it is wanted: then it goes where it belongs on the shelf, as long as there
 * is room, and else into the extents. */
void gm_shelf_stock(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_piece *list,
		    uint64_t bytes);

/* Empty the row into the extents. */
void gm_shelf_empty_row(struct gm_pool *pool, struct gm_shelf *shelf);

/* Empty all shelves into the extents; true if there was any block. Where frees are deferred, the
 * second one leaves what came there in the last GM_SHELF_FRESH ns: each thread needs that for what
 * it waits for, and threads that took it from one another would all be short of it, for ever. */
bool gm_shelves_empty(struct gm_pool *pool);
bool gm_shelves_empty_old(struct gm_pool *pool);

/* The locks of all shelves: nobody else allocates, frees or writes a piece. */
void gm_shelves_lock(struct gm_pool *pool);
void gm_shelves_unlock(struct gm_pool *pool);

/* Under these locks, too: empty the shelves of what is there since `until` (of config.clock) or
 * earlier, take over what they have freed, and add their sums to the pool's. */
bool gm_shelves_flush(struct gm_pool *pool, uint64_t until);

/* Since when the longest shelved block is there; UINT64_MAX: there is none. */
uint64_t gm_shelves_oldest(struct gm_pool *pool);

/* The most blocks of a bin, whose slots have `held` bytes, and of a row. */
uint32_t gm_shelf_most_slots(const struct gm_pool *pool, uint64_t held);
uint32_t gm_shelf_most_in_row(const struct gm_pool *pool);

/* NULL, or the invariant that is broken; *n, *n_retired: how many blocks are shelved, and
 * GM_RETIRED there. Under all locks. shelf_check.c. */
const char *gm_shelves_check(const struct gm_pool *pool, uint64_t *n, uint64_t *n_retired);

#endif
