/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limbo: blocks that are freed while the GPU may still use them.
 *
 *                put            seal              fence passed
 *     live --------> open bag ------> sealed bags ------------> passed list, then bins and row
 *                   |....... retired bytes .....|            |..... idle bytes on the shelf ....|
 *
 * Each shelf has a limbo, so threads that free at once get their own blocks back, warm in their
 * caches. A bag is a list of blocks of one context that are reused together. No list is walked:
 * each block is a cache line, most likely in another processor's cache.
 *
 * Sealing gives a bag the next number of the pool. Then one event is recorded in its context. When
 * this event or a later fence passes, all bags of the context up to this number are idle, on all
 * shelves (epoch.h). If no event can be recorded (a capture is open, the driver has none), the next
 * block opens the bag again, and the next fence of any kind covers it.
 *
 * Locks: the shelf's lock guards its limbo.
 */
#ifndef GM_POOL_LIMBO_H
#define GM_POOL_LIMBO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/epoch.h"

#define GM_LIMBO_BAG 64	     /* blocks that fill a bag, times the shelves that collect, */
#define GM_LIMBO_CREW 8	     /* of which at most so many count */
#define GM_LIMBO_PART 2	     /* all open bags have at most 1/2 of the bytes that may be retired */
#define GM_LIMBO_PARTS 4     /* the bags of all shelves are full at 1/4 of these bytes */
#define GM_LIMBO_LEAST 2     /* fewest blocks of a sealed bag while an older event is pending */
#define GM_LIMBO_FEW 4	     /* fewest blocks of a bag that an allocation seals for its bytes */
#define GM_LIMBO_MISSED 16   /* sealed blocks for which an allocation queries events */
#define GM_LIMBO_BAGS 80     /* bags of a shelf */
#define GM_LIMBO_RESERVED 16 /* bags of them for contexts that have none */
#define GM_LIMBO_TURN 64     /* seals of the pool within which a collecting shelf seals once */

struct gm_piece;
struct gm_pool;
struct gm_shelf;

/* Blocks, linked through piece->next, that are reused together. */
struct gm_bag {
	struct gm_piece *first, *last;
	uint64_t n, bytes;
	uint64_t number; /* while sealed: idle once epoch->passed reaches it; else 0 */
	uint64_t tried_n, tried_bytes; /* of n and bytes: sealed before without an event */
	struct gm_epoch *epoch;
};

struct gm_limbo {
	struct gm_bag bags[GM_LIMBO_BAGS]; /* in no order; unused: n is 0 */
	struct gm_bag *open;		   /* the bag of the last block, if it is open */
	uint64_t context;		   /* its context */
	struct gm_epoch *epoch; /* last prepared by gm_limbo_open, if the context has not ended */
	unsigned used, top;	/* bags; all are below bags[top] */
	unsigned misses;	/* allocations that found no block since bags were last taken */
	uint64_t sealed_n;	/* blocks in sealed bags */
	uint32_t most;		/* blocks in the open bag before each free checks if it is full */
	uint64_t share;		/* likewise bytes; `most` is 0: the shelf does not collect */
	uint64_t turned;	/* number of the seal when the shelf last began to collect */
};

enum gm_limbo_put {
	GM_LIMBO_STORED, /* stored; the caller is done */
	GM_LIMBO_FULL,	 /* stored; call gm_limbo_turn, with no lock held */
	GM_LIMBO_NONE,	 /* not stored: call gm_limbo_open, with no lock held, and put again */
};

/* Retire a block that the caller claimed, and count it so. Under the shelf's lock. */
enum gm_limbo_put gm_limbo_put(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_piece *piece,
			       uint64_t users);

/* Prepare this shelf for blocks of the context. False: no host memory or no bag. No lock held. */
bool gm_limbo_open(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t context);

/* After GM_LIMBO_FULL: seal the bag, record an event, query the oldest, and take passed blocks
 * to the shelf, as many as fill a bag. Past config.retire take all, and do the same for other
 * shelves. No lock held. */
void gm_limbo_turn(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t context);

/*
 * For an allocation that missed its shelf: take passed blocks to the shelf. While no event is
 * pending, half a bag is sealed; if the allocation `must` get memory and too much is retired
 * (patience.h), any bag. If many sealed blocks wait, or it `must`, query the oldest events: of many
 * misses in a row at the first, second, fourth ... Returns whether events were queried. No lock
 * held.
 */
bool gm_limbo_miss(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t context, bool must);

/* The number of the last seal. A fence that is requested after this call covers all bags up to it.
 * Acquire: the work that used their blocks was submitted before. */
uint64_t gm_limbo_number(const struct gm_pool *pool);

/* A fence of the context, requested after the seal `number`, has passed. No lock held. */
void gm_limbo_passed(struct gm_pool *pool, uint64_t context, uint64_t number);

/* Is more sealed than config.retire? */
bool gm_limbo_is_past_bound(const struct gm_pool *pool);

/* Would the share of a shelf hold fewer than GM_LIMBO_FEW blocks of that size? Then a poll of the
 * GPU costs less than an event. */
bool gm_limbo_is_large(const struct gm_pool *pool, uint64_t held);

/* Blocks of up to so many bytes are never large, for any number of collecting shelves. */
uint64_t gm_limbo_small(const struct gm_pool *pool);

/* Blocks that fill a bag. It grows with the number of collecting shelves, for the driver serves one
 * thread at a time. */
uint32_t gm_limbo_bag_size(const struct gm_pool *pool);

/*
 * Put blocks into the extents; return their bytes. Under the pool's lock, which is dropped
 * meanwhile. glance: passed blocks of the calling thread's shelf; past config.retire as collect.
 * ask: query the recorded events. collect: seal all bags, query all events; waits only if the
 * driver has no events and more than config.retire is retired. drain: wait for all memory that is
 * retired now, by one fence a context.
 */
uint64_t gm_limbo_glance(struct gm_pool *pool);
uint64_t gm_limbo_ask(struct gm_pool *pool);
uint64_t gm_limbo_collect(struct gm_pool *pool);
uint64_t gm_limbo_drain(struct gm_pool *pool);

/* The context has ended: make its retired blocks idle. Under the pool's lock; drops it at the end.
 */
void gm_limbo_gone(struct gm_pool *pool, uint64_t context);

/* NULL, or the broken invariant; adds the blocks of the shelf to *n, and the bytes of its sealed
 * bags to *sealed. Under all locks. */
const char *gm_limbo_check(const struct gm_pool *pool, const struct gm_shelf *shelf, uint64_t *n,
			   uint64_t *sealed);

#endif
