/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hot memory: freed, and handed out again in the order of the one stream whose work may still use
 * it (context/order.h). Each piece of it has a *stamp*: a number of the pool, as the bags of limbo
 * have. A fence of its context that covers the number makes the piece idle.
 *
 *                 put           take, while the run goes on
 *     live ------------> hot --------------------------------> live
 *                         | \---- strand: the run has ended ----> retired, in its epoch
 *                         | cool: a fence has passed                 | return: a fence has passed
 *                         v                                          v
 *                        idle <--------------------------------------+
 *
 * A *stock* is a place with hot memory: a shelf, or the extents with their slabs. All hot memory of
 * a stock is of one run, so one comparison tells whether it may be handed out. The first call that
 * uses a stock after the end of its run strands it. So an allocation takes idle memory, or hot
 * memory in its order, and waits for no other.
 *
 * A wholly hot chunk may move to other addresses (alias.h). It is returned to the driver, lent or
 * exported only when it is idle.
 *
 * Hot and stranded bytes count as retired. A hot extent joins hot neighbours, and gets the newest
 * stamp; if a request fits nowhere, it joins idle ones as well.
 *
 * Locks: a shelf's lock guards its stock, the pool's lock that of the extents. Stranded memory is
 * guarded by the lock of its epoch.
 */
#ifndef GM_POOL_HOT_H
#define GM_POOL_HOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "context/order.h"

struct gm_epoch;
struct gm_piece;
struct gm_pool;
struct gm_shelf;

/* Which work may still use a piece: that of the stream of a run, in the context of an epoch. */
struct gm_heat {
	struct gm_epoch *epoch;
	uint64_t run, stamp;
};

/* The hot memory of a stock. */
struct gm_hot {
	_Atomic uint64_t bytes; /* also read without the lock */
	struct gm_heat heat;	/* of all of it, with the newest stamp; run is 0: it is stranded */
	unsigned device;
};

/* Pieces through piece->next. */
struct gm_stranded {
	struct gm_piece *first, *last;
	uint64_t n, bytes, number; /* idle once a fence covers this number */
};

/* The calls of the pool that the order needs. */
const struct gm_order_memory *gm_hot_memory(void);

/* --- any lock may be held, or none --- */

/* Hot bytes, which an allocation may get while their run goes on. */
uint64_t gm_hot_bytes(const struct gm_pool *pool);

/* May work from before it was handed out still use a live block of the context, with this stamp? */
bool gm_hot_is_pending(struct gm_pool *pool, uint64_t context, uint64_t stamp);

/* Wait until no such work is left. */
void gm_hot_await(struct gm_pool *pool);

/* The stamp of a block that is about to become hot. It may be one above the pool's number: then a
 * segment is open, and its event gets that number (context/order.h). */
uint64_t gm_hot_stamp(struct gm_pool *pool);

/* --- stocks; the caller has the lock of the stock's shelf, of the pool's stock the pool's --- */

/* Change the bytes of a stock, and the live counters. */
void gm_hot_count(struct gm_hot *hot, uint64_t by);

/* Give the piece its stamp: hot memory of this heat is about to enter the stock. True: the caller
 * puts the piece into it. False: the run has ended, so the piece is stranded, and the caller is
 * done with it. pre: gm_hot_strand_shelf or _extents under this lock. */
bool gm_hot_mark(struct gm_pool *pool, struct gm_hot *hot, struct gm_piece *piece,
		 const struct gm_heat *heat);

/* Has the stock hot memory, whose run goes on? */
bool gm_hot_goes_on(const struct gm_pool *pool, const struct gm_hot *hot);

/* May a block of the context get the hot memory of the extents? */
bool gm_hot_is_for(const struct gm_pool *pool, uint64_t context);

/* A piece with a stamp was taken out of the stock for an allocation. False: its run has ended, and
 * it is stranded. A piece that a fence covers by now loses its stamp. */
bool gm_hot_take(struct gm_pool *pool, struct gm_hot *hot, struct gm_piece *piece);

/* A piece was taken out of the stock for an allocation of the context. False: it has a stamp of
 * another context, and is stranded: the fences of a block's own context must cover its work. */
bool gm_hot_suits(struct gm_pool *pool, struct gm_hot *hot, struct gm_piece *piece,
		  uint64_t context);

/* If the run of the stock has ended, strand it; what a fence covers becomes idle. */
void gm_hot_strand_shelf(struct gm_pool *pool, struct gm_shelf *shelf);
void gm_hot_strand_extents(struct gm_pool *pool);

/* --- the pool's lock is held --- */

/* A piece with a stamp was taken off the shelf with this stock, whose lock is held: put it into the
 * extents. */
void gm_hot_move(struct gm_pool *pool, struct gm_hot *hot, struct gm_piece *piece);

/* Put a claimed block that is counted as freed into the extents, hot. */
void gm_hot_put_back(struct gm_pool *pool, struct gm_piece *piece, const struct gm_heat *heat);

/* Make newly mapped memory of this heat hot; or idle, if a fence covers it by now; or stranded, if
 * its run has ended. Uses one promised extent. */
void gm_hot_add(struct gm_pool *pool, CUdeviceptr base, uint64_t length,
		const struct gm_heat *heat);

/* Join hot extents that may be handed out with idle neighbours. True: a longer extent came of
 * it. */
bool gm_hot_join(struct gm_pool *pool);

/* Put back stranded memory that a fence covers; returns its bytes. */
uint64_t gm_hot_return(struct gm_pool *pool);

/* Poll the last event behind hot memory, or `wait` for it, and make idle what it covers; drops the
 * lock meanwhile. The shelves are not looked at. */
void gm_hot_cool(struct gm_pool *pool, bool wait);

/* Is any memory of this wholly free chunk hot? */
struct gm_chunk;
bool gm_hot_has_chunk(const struct gm_pool *pool, const struct gm_chunk *chunk);

/* NULL, or the broken invariant; adds the stranded pieces to *n. Under all locks. */
const char *gm_hot_check(const struct gm_pool *pool, uint64_t *n);

#endif
