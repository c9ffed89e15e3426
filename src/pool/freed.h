/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the threads of one shelf have freed and retire.h does not know yet. A deferred free puts its
 * block there under the lock of the shelf alone; with enough of them for a fence the next one hands
 * all over, under the pool's lock. They are blocks of one context. Whoever looks at retired memory
 * takes them over first.
 *
 * Such a block is retired. Only the pool's sums and the live counters take it for idle until it is
 * handed over.
 */
#ifndef GM_POOL_FREED_H
#define GM_POOL_FREED_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/retire.h"

#define GM_FREED_PART 2	 /* of config.retire, for all shelves that collect */
#define GM_FREED_LEAST 4 /* blocks: with fewer a fence costs more than a look */
#define GM_FREED_TURN 64 /* lists handed over, in which a shelf that collects has its turn */

struct gm_piece;
struct gm_pool;
struct gm_shelf;

/* Under the lock of the shelf. */
struct gm_freed {
	struct gm_retiring list;
	struct gm_retired *into; /* where they go */
	uint64_t context;	 /* which is this one's */
	uint64_t share;		 /* the most bytes there may be, */
	uint32_t most;		 /* and so many blocks; 0: none of any context */
	uint64_t allowed;	 /* when that was, in pool->n_allowed */
};

/* Of a new pool. */
void gm_freed_open(struct gm_pool *pool);

/* Has a shelf no place for GM_FREED_LEAST blocks of that size, whatever is there? As it was when
 * one last shared out; no lock. */
bool gm_freed_is_large(const struct gm_pool *pool, uint64_t held);

/* Under the shelf's lock: a block that the caller claimed, used by `context`, is retired, and
 * counted as freed. False: it has to go the slow way. */
bool gm_freed_put(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_piece *piece,
		  uint64_t context);

/* Under the locks of the pool and the shelf: hand over what is there; none is taken any more until
 * gm_freed_allow, after that, names the context and where its blocks go. */
void gm_freed_hand_over(struct gm_pool *pool, struct gm_shelf *shelf);
void gm_freed_allow(struct gm_pool *pool, struct gm_shelf *shelf, struct gm_retired *into);

/* For all shelves: under all locks, and under the pool's lock alone, when they take more at once.
 */
void gm_freed_hand_over_all(struct gm_pool *pool);
void gm_freed_collect(struct gm_pool *pool);

/* Under the pool's lock alone, which it may drop; now and then it looks: shelves whose threads free
 * no more, or seldom, have no part of the bound, and what they collected goes back to the pool. */
void gm_freed_sweep(struct gm_pool *pool);

/* Under the pool's lock: what is retired has changed. */
void gm_freed_bound(struct gm_pool *pool);

/* NULL, or the invariant that is broken. Under all locks. */
const char *gm_freed_check(const struct gm_freed *freed);

#endif
