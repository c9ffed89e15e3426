/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Epochs: how far the work of each context has come, for all shelves of a pool. The bags of retired
 * blocks (limbo.h) have numbers in the order of their seals. An event that is recorded after the
 * seal of a number covers all bags of its context up to that number. `passed` is the largest number
 * that any fence of the context has covered and passed.
 *
 * Locks: the epoch's guards its ring of events. No lock is held across a call of config.fences: a
 * thread takes an event out of the ring while it asks it. An epoch lives as long as the pool, and
 * serves another context when its own has ended: numbers are the pool's, so they never fall.
 *
 * Source: epoch-based reclamation (K. Fraser, Practical lock-freedom, 2004); the readers are here
 * the kernels of a context.
 */
#ifndef GM_POOL_EPOCH_H
#define GM_POOL_EPOCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/futex_lock.h"
#include "pool/pool.h"

#define GM_EPOCH_EVENTS 64 /* pending events of a context; without a place none is recorded */

struct gm_epoch_event {
	uint64_t number; /* covers bags up to this one */
	uint64_t context;
	CUevent event;
};

struct gm_epoch {
	uint64_t context;	   /* written under all locks of the pool and this one's */
	bool used;		   /* under all locks of the pool */
	_Atomic uint64_t passed;   /* bags up to this number are idle */
	_Atomic uint64_t sealed;   /* the newest bag */
	_Atomic uint64_t recorded; /* an event was recorded, or begun, for bags up to this number */
	struct gm_futex_lock lock; /* of the rest */
	unsigned asking;	   /* threads that ask an event */
	unsigned first, n;	   /* a ring, oldest first, without events that are being asked */
	struct gm_epoch_event events[GM_EPOCH_EVENTS];
	_Atomic(struct gm_epoch *) next; /* of the pool; new ones come at the end */
};

/* The epoch of a context, made if there is none; NULL: no host memory. Under all locks. */
struct gm_epoch *gm_epoch_open(struct gm_pool *pool, uint64_t context);

/* A bag of this number was sealed; a fence that covers this number has passed. Any lock may be
 * held.
 */
void gm_epoch_seal(struct gm_epoch *epoch, uint64_t number);
void gm_epoch_raise(struct gm_epoch *epoch, uint64_t number);

/* Is an event recorded that is not known to have passed? A shelf's lock may be held. */
bool gm_epoch_is_pending(struct gm_epoch *epoch);

/* --- no lock is held --- */

/* Record an event, unless one covers all sealed bags of the context, or none is possible. Returns
 * the number that it covers, or 0. */
uint64_t gm_epoch_record(struct gm_pool *pool, struct gm_epoch *epoch);

/* Ask the oldest events whether they have passed, until one has not, or is of number `just`. Below
 * the bound one thread asks at a time. */
void gm_epoch_ask(struct gm_pool *pool, struct gm_epoch *epoch, uint64_t just);

/* Both. */
void gm_epoch_poll(struct gm_pool *pool, struct gm_epoch *epoch);

/* Wait for all bags of the context that are sealed now. While captures are open no fence is
 * possible: then for the newest event. */
void gm_epoch_wait(struct gm_pool *pool, struct gm_epoch *epoch);

/* Drop all events and epochs. No other thread uses the pool. */
void gm_epoch_close(struct gm_pool *pool);

#endif
