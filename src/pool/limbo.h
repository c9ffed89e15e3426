/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limbo: blocks that are freed while the GPU may still use them.
 *
 *                put            seal              fence passed
 *     live --------> open bag ------> sealed bags ------------> passed list, then bins and row
 *                   |....... retired bytes .....|            |..... idle bytes on the shelf ....|
 *
 * Each shelf has a limbo, so threads that free at once get their own blocks back, warm in their
 * caches. A bag is a list of blocks of one context that are reused together. No list is walked, for
 * each block is a cache line, most likely in another processor's cache.
 *
 * Sealing gives a bag the next number of the pool. Then one event is recorded in its context. When
 * that or a later fence passes, all bags of the context up to this number are idle, on whichever
 * shelf they lie (epoch.h). Where no event can be recorded (a capture is open, the driver has none)
 * the bag is opened again by the next block, and the next fence of any kind covers it.
 *
 * Locks: the shelf's guards its limbo.
 */
#ifndef GM_POOL_LIMBO_H
#define GM_POOL_LIMBO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/epoch.h"

#define GM_LIMBO_BAG 64	     /* blocks that fill a bag, */
#define GM_LIMBO_CREW 8	     /* times the shelves that collect, up to so many */
#define GM_LIMBO_PART 2	     /* of config.retire: the bytes of all open bags */
#define GM_LIMBO_PARTS 4     /* of config.retire: the bytes that fill the bags of all shelves */
#define GM_LIMBO_LEAST 2     /* blocks of a bag while an older event is pending */
#define GM_LIMBO_FEW 4	     /* blocks of a bag that is sealed for its bytes by an allocation */
#define GM_LIMBO_MISSED 16   /* sealed blocks for which an allocation asks events */
#define GM_LIMBO_BAGS 80     /* of a shelf; */
#define GM_LIMBO_RESERVED 16 /* of them for contexts that have none */
#define GM_LIMBO_TURN 64     /* seals of the pool during which a shelf that collects seals once */

struct gm_piece;
struct gm_pool;
struct gm_shelf;

/* Blocks, linked through piece->next, that are reused together. */
struct gm_bag {
	struct gm_piece *first, *last;
	uint64_t n, bytes;
	uint64_t number; /* while sealed: idle once the epoch has reached it; else 0 */
	uint64_t tried_n, tried_bytes; /* of it, that was sealed before without an event */
	uint64_t stream; /* the one stream that may still use the blocks, or GM_STREAM_ANY */
	struct gm_epoch *epoch;
};

struct gm_limbo {
	struct gm_bag bags[GM_LIMBO_BAGS]; /* in no order; unused: n is 0 */
	struct gm_bag *open;	/* the last one that a block was put into, if it is open, */
	uint64_t context;	/* and its context */
	struct gm_epoch *epoch; /* last prepared by gm_limbo_open, if the context has not ended */
	unsigned used, top;	/* bags; all are below bags[top] */
	unsigned misses;	/* allocations that found nothing since bags were last taken */
	uint64_t sealed_n;	/* blocks in sealed bags */
	uint32_t most;		/* blocks, and bytes, in the open bag before each free asks */
	uint64_t share;		/* whether it is full; 0: the shelf does not collect */
	uint64_t turned;	/* number of the seal when the shelf last began to collect */
};

enum gm_limbo_put {
	GM_LIMBO_STORED, /* nothing more to do */
	GM_LIMBO_FULL,	 /* stored; call gm_limbo_turn, with no lock held */
	GM_LIMBO_NONE,	 /* not stored: call gm_limbo_open, with no lock held, and put again */
};

/* A block that the caller claimed is retired, and counted so. Under the shelf's lock. */
enum gm_limbo_put gm_limbo_put(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_piece *piece,
			       struct gm_users users);

/* Prepare this shelf for blocks of the context. False: no host memory. No lock held. */
bool gm_limbo_open(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t context);

/* After GM_LIMBO_FULL: seal the bag, record an event, ask the oldest ones, and take what has passed
 * to the shelf, as much as fills a bag. Past config.retire take all, and ask for other shelves. No
 * lock held. */
void gm_limbo_turn(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t context);

/*
 * For an allocation that found nothing on its shelf: take what has passed to the shelf. While no
 * event is pending, half a bag is sealed. If many sealed blocks wait, or it `must`, the oldest
 * events are asked: of many misses in a row the first, second, fourth ... True: that was done. No
 * lock held.
 */
bool gm_limbo_miss(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t context, bool must);

/* The number of the last seal. A fence that is asked for after this call covers all bags up to it.
 * Acquire: the work that used their blocks was submitted before. */
uint64_t gm_limbo_number(const struct gm_pool *pool);

/* A fence of the context that was asked for after the seal `number` has passed. No lock held. */
void gm_limbo_passed(struct gm_pool *pool, uint64_t context, uint64_t number);

/* Is more sealed than config.retire? */
bool gm_limbo_is_past_bound(const struct gm_pool *pool);

/* Would the share of a shelf hold fewer than GM_LIMBO_FEW blocks of that size? Then asking whether
 * the GPU is idle costs less than an event. */
bool gm_limbo_is_large(const struct gm_pool *pool, uint64_t held);

/* The bytes up to which no block is large, however many shelves collect. */
uint64_t gm_limbo_small(const struct gm_pool *pool);

/* Blocks that fill a bag: the more shelves collect, the more, for the driver serves one thread at a
 * time. */
uint32_t gm_limbo_bag_size(const struct gm_pool *pool);

/*
 * Put blocks into the extents; return their bytes. Under the pool's lock, which is dropped
 * meanwhile. glance: what has passed on the calling thread's shelf; past config.retire as collect.
 * collect: seal all bags, ask all events; waits only where the driver has no events and more than
 * config.retire is retired. drain: wait for all that is retired now, by one fence a context.
 */
uint64_t gm_limbo_glance(struct gm_pool *pool);
uint64_t gm_limbo_collect(struct gm_pool *pool);
uint64_t gm_limbo_drain(struct gm_pool *pool);

/* The context has ended: its retired blocks are idle. Under the pool's lock; drops it at the end.
 */
void gm_limbo_gone(struct gm_pool *pool, uint64_t context);

/* NULL, or the invariant that is broken; *n and *sealed grow by the blocks of the shelf and the
 * bytes of its sealed bags. Under all locks. */
const char *gm_limbo_check(const struct gm_pool *pool, const struct gm_shelf *shelf, uint64_t *n,
			   uint64_t *sealed);

#endif
