/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Epochs: the progress of each context's work, for all shelves of a pool. The bags of retired
 * blocks (limbo.h) have numbers in the order of their seals. An event that is recorded after the
 * seal of a number covers all bags of its context up to that number. `passed` is the largest number
 * covered by a fence of the context that has passed.
 *
 * Locks: the epoch's lock guards its ring of events. No lock is held across a call of
 * config.fences: a thread takes an event out of the ring before it queries the event. An epoch
 * lives as long as the pool, and serves another context when its own has ended: numbers are the
 * pool's, so they never fall.
 *
 * Source: epoch-based reclamation (K. Fraser, Practical lock-freedom, 2004); here the readers are
 * the kernels of a context.
 */
#ifndef GM_POOL_EPOCH_H
#define GM_POOL_EPOCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/futex_lock.h"
#include "pool/hot.h"
#include "pool/pool.h"

#define GM_EPOCH_EVENTS 64 /* most pending events of a context; in a full ring none is recorded */

struct gm_epoch_event {
	uint64_t number; /* covers bags up to this one */
	uint64_t context;
	CUevent event;
};

struct gm_epoch {
	uint64_t context;	 /* written under all locks of the pool and `lock` */
	bool used;		 /* read and written under all locks of the pool */
	_Atomic uint64_t passed; /* bags up to this number are idle */
	_Atomic uint64_t sealed; /* number of the newest sealed bag */
	_Atomic uint64_t
		recorded; /* an event covers bags up to this number, or is being recorded */
	struct gm_futex_lock lock; /* guards the rest */
	unsigned asking;	   /* threads that are querying an event */
	unsigned first, n;	   /* a ring, oldest first, without events being queried */
	struct gm_epoch_event events[GM_EPOCH_EVENTS];
	struct gm_stranded stranded[2];	 /* older, younger */
	_Atomic(struct gm_epoch *) next; /* of the pool; new epochs are appended */
};

/* Find or make the epoch of a context; NULL: no host memory. Under all locks. */
struct gm_epoch *gm_epoch_open(struct gm_pool *pool, uint64_t context);

/* Seal: a bag of this number was sealed, or an alias with this stamp was made. Raise: a fence that
 * covers this number has passed. Any lock may be held. */
void gm_epoch_seal(struct gm_epoch *epoch, uint64_t number);
void gm_epoch_raise(struct gm_epoch *epoch, uint64_t number);

/* Is a recorded event pending, as far as is known? A shelf's lock may be held. */
bool gm_epoch_is_pending(struct gm_epoch *epoch);

/* --- no lock is held --- */

/* Record an event, unless an event covers all sealed bags of the context, or none can be recorded.
 * Returns the number that the new event covers, or 0. */
uint64_t gm_epoch_record(struct gm_pool *pool, struct gm_epoch *epoch);

/* Query the oldest events, until one is pending or has the number `just`. Up to config.retire one
 * thread queries at a time. */
void gm_epoch_ask(struct gm_pool *pool, struct gm_epoch *epoch, uint64_t just);

/* Query the events of all contexts, and the order's if memory is stranded (hot.h). */
void gm_epochs_ask(struct gm_pool *pool);

/* Record an event, then query older events. */
void gm_epoch_poll(struct gm_pool *pool, struct gm_epoch *epoch);

/* Wait for all bags of the context that are sealed now. While a capture is open no fence is
 * possible: then wait for the newest event. */
void gm_epoch_wait(struct gm_pool *pool, struct gm_epoch *epoch);

/* Drop all events and epochs. No other thread uses the pool. */
void gm_epoch_close(struct gm_pool *pool);

#endif
