/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Retired blocks: freed, but the GPU may still be using them. What the threads of a shelf
 * retired of a context is a queue of its own, in the order in which they handed it over, with a
 * queue of fences: threads that free at once get their own blocks back, warm in their caches.
 *
 * Retirements count in the order in which blocks are handed over, and a batch has the number of its
 * last one. A fence was recorded after the retirement with the number `up_to`, so when it has
 * passed all batches up to that number can be used again. One fence serves many blocks: it is
 * recorded when there are enough of them (GM_RETIRE_BATCH, or bytes in proportion to
 * config.retire), when an allocation finds nothing, or when somebody settles. What is handed over
 * while no fence is asked for joins the newest batch, for one fence will cover both.
 *
 * All of this is called under the pool's lock. What says so drops it around driver calls and holds
 * it again when it returns. Lists of pieces are linked through piece->next and end with NULL.
 */
#ifndef GM_POOL_RETIRE_H
#define GM_POOL_RETIRE_H

#include "pool/batch.h"
#include "pool/pool.h"

#define GM_RETIRE_BATCH 64  /* blocks behind one fence, */
#define GM_RETIRE_CREW 8    /* times the shelves that collect, up to so many */
#define GM_RETIRE_PARTS 4   /* or this part of config.retire bytes, but */
#define GM_RETIRE_LEAST 2   /* blocks at least, where another fence is yet to pass */
#define GM_RETIRE_FEW 4	    /* blocks behind a fence that is asked for before they are more */
#define GM_RETIRE_MISSED 16 /* blocks behind fences that an allocation asks for */
#define GM_RETIRE_FENCES 64 /* of one context that have not passed */

struct gm_piece;
struct gm_retire_fence;
struct gm_shelf;

/* What one shelf has retired of one context. Lives as long as the pool; another context takes it
 * over when its own one is gone. */
struct gm_retired {
	const struct gm_shelf *shelf;
	uint64_t context;
	bool used;
	uint64_t n; /* blocks in `batches` */
	/* Numbers of retirements: the last one, the last that a fence was asked for, the last
	 * behind a recorded fence, and the last that can be used again. */
	uint64_t newest, asked, covered, passed;
	uint64_t fresh_n, fresh_bytes;	/* since a fence was last asked for */
	struct gm_retire_fence *fences; /* oldest first */
	unsigned n_fences;
	unsigned polling; /* threads that ask whether one has passed, without the lock */
	unsigned misses;  /* allocations that found nothing here since the last one passed */
	uint64_t epoch;	  /* grows when the context goes */
	struct gm_retired *next;
	struct gm_batches batches;
};

/* What `shelf` has retired of `context`; NULL: no host memory for it. */
struct gm_retired *gm_retired_of(struct gm_pool *pool, const struct gm_shelf *shelf,
				 uint64_t context);

/* Record that a block is retired, once it is GM_RETIRED. Under the lock of its shelf. */
void gm_retired_note(const struct gm_pool *pool, const struct gm_piece *piece);

/* Retire freed blocks, which are GM_RETIRED and count as idle (gm_pool_count_freed) already, and
 * empty the list; never fails. */
void gm_retired_add(struct gm_pool *pool, struct gm_retired *retired, struct gm_retiring *list);

/* Blocks that make a batch: the more threads free, the more of them, for the driver serves one
 * thread at a time. */
uint32_t gm_retired_batch(const struct gm_pool *pool);

/* Is it time for gm_retired_poll, after a free? */
bool gm_retired_due(const struct gm_pool *pool, const struct gm_retired *retired);

/* Record a fence behind what has none yet, and ask the oldest ones whether they have passed. Waits
 * for nothing; drops the lock. */
void gm_retired_poll(struct gm_pool *pool, struct gm_retired *retired);

/* Likewise, and put back what has passed. Returns bytes. */
uint64_t gm_retired_return(struct gm_pool *pool, struct gm_retired *retired);

/* Likewise for all others while more than config.retire is retired, and put back
 * what has passed. */
void gm_retired_poll_others(struct gm_pool *pool, const struct gm_retired *but);

/* The oldest batches that have passed, taken out of the queue as one list, and their bytes: one, if
 * there is any, and more while they are not above `most` blocks together. They count as idle from
 * here on, so the caller puts each block back (gm_pool_put_back) or keeps it elsewhere before it
 * lets go of the lock. */
struct gm_piece *gm_retired_take(struct gm_pool *pool, struct gm_retired *retired, uint64_t most,
				 uint64_t *bytes);

/* What the shelf has retired of `context` comes back to it as far as fences are known to have
 * passed: as many as gm_retired_batch at a time, past config.retire all of it. */
void gm_retired_restock(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t context);

/*
 * Likewise, for an allocation that finds nothing on the shelf. With half a batch of several
 * threads freed there, and no fence recorded, it does not wait for the rest; if many blocks wait
 * for fences, or it `must`, the oldest are asked: for many again and again, but ever less often.
 * True: that was done. Drops the lock.
 */
bool gm_retired_miss(struct gm_pool *pool, struct gm_shelf *shelf, uint64_t context, bool must);

/* A fence that was asked for after the retirement number `up_to` (of pool->retirements) has passed
 * for the context: put back what that settles. Drops the lock. */
void gm_retired_passed(struct gm_pool *pool, uint64_t context, uint64_t up_to);

/* The context is gone: put back all it has retired. Drops the lock, after that. */
void gm_retired_gone(struct gm_pool *pool, uint64_t context);

/* For an allocation that found nothing: put back what the thread's shelf has that has passed. Past
 * config.retire it is gm_retired_collect. Returns bytes. Drops the lock. */
uint64_t gm_retired_glance(struct gm_pool *pool);

/*
 * For one that cannot have new memory: poll for all contexts, and put back what has passed.
 * Returns bytes. Drops the lock. Waits only where the driver has no fences to poll and more than
 * config.retire bytes are retired.
 */
uint64_t gm_retired_collect(struct gm_pool *pool);

/* Wait for all that is retired now, and put it back. Returns bytes. Drops the lock. */
uint64_t gm_retired_settle(struct gm_pool *pool);

/* For gm_pool_destroy. */
void gm_retired_close(struct gm_pool *pool);

/* NULL, or the invariant that is broken; *n grows by the blocks that are retired. */
const char *gm_retired_check(const struct gm_pool *pool, uint64_t *n);

#endif
