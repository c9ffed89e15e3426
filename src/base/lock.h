/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranked locks. A thread may take a lock only if its rank is higher than the ranks of all locks
 * that it holds; the exceptions for two locks of one rank are below. Debug builds check this, and
 * that no lock but the first two is held across a driver call (gm_lock_none_held), and abort with a
 * message.
 */
#ifndef GM_BASE_LOCK_H
#define GM_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

#include "base/debug.h"

/* In the order in which they may be taken. */
enum gm_lock_rank {
	GM_LOCK_RANK_MOVER,   /* the one thread that moves contents off the devices or back; held
				 across driver calls, and waits for the GPU */
	GM_LOCK_RANK_CAPTURE, /* one a context: orders stream captures and fences; may be held
				 across driver calls, which wait for the GPU only before
				 driver 12.5 (see context/fence.h) */
	GM_LOCK_RANK_SHIM,    /* start-up and tables of the shim */
	GM_LOCK_RANK_CONTEXT, /* the table of contexts */
	GM_LOCK_RANK_POOL,    /* one a pool */
	GM_LOCK_RANK_SHELF,   /* several a pool */
	GM_LOCK_RANK_EPOCH,   /* the events of a context in a pool */
	GM_LOCK_RANK_TABLE,   /* tables of streams, modules, foreign memory */
	GM_LOCK_RANK_STACK,   /* call stacks, loaded objects */
	GM_LOCK_RANK_LOG,     /* segments of the log */
	GM_LOCK_RANK_STRING,  /* interned strings of the log */
	GM_LOCK_RANK_COUNTER, /* owners of the rows of counters */
	GM_LOCK_RANK_SIM,     /* the simulated driver: taken inside driver calls, so the last */
	GM_LOCK_RANK_COUNT
};

struct gm_lock {
	pthread_mutex_t mutex;
	enum gm_lock_rank rank;
};

struct gm_rwlock {
	pthread_rwlock_t rwlock;
	enum gm_lock_rank rank;
};

#define GM_LOCK_INIT(r)                        \
	{                                      \
		PTHREAD_MUTEX_INITIALIZER, (r) \
	}
#define GM_RWLOCK_INIT(r)                       \
	{                                       \
		PTHREAD_RWLOCK_INITIALIZER, (r) \
	}

void gm_lock_init(struct gm_lock *lock, enum gm_lock_rank rank);
void gm_lock_destroy(struct gm_lock *lock);
void gm_lock_take(struct gm_lock *lock);
/* As gm_lock_take, while locks of the same rank are held; the caller orders these among
 * themselves. */
void gm_lock_take_next(struct gm_lock *lock);
void gm_lock_release(struct gm_lock *lock);
/* Release the lock, wait for the condition, take the lock again. May wake spuriously. pre: the
 * caller holds no other lock, but perhaps that of the mover. */
void gm_lock_wait(struct gm_lock *lock, pthread_cond_t *condition);

void gm_rwlock_init(struct gm_rwlock *lock, enum gm_lock_rank rank);
void gm_rwlock_destroy(struct gm_rwlock *lock);
void gm_rwlock_read(struct gm_rwlock *lock);
void gm_rwlock_write(struct gm_rwlock *lock);
void gm_rwlock_release(struct gm_rwlock *lock);

/* The bookkeeping of debug builds, for locks of other kinds: a lock was taken (asserts that no lock
 * of rank `from` or above is held), was found taken by another thread, was released. */
#ifdef GM_DEBUG
void gm_lock_record_taken(enum gm_lock_rank rank, unsigned from);
void gm_lock_record_contended(enum gm_lock_rank rank);
void gm_lock_record_released(enum gm_lock_rank rank);
#else
#define gm_lock_record_taken(rank, from) ((void)(rank), (void)(from))
#define gm_lock_record_contended(rank) ((void)(rank))
#define gm_lock_record_released(rank) ((void)(rank))
#endif

/* Debug builds abort, and name the function's line, unless the calling thread holds a lock of this
 * rank, or all `n` locks of the rank. */
#ifdef GM_DEBUG
unsigned gm_lock_holds(enum gm_lock_rank rank);
#define gm_lock_assert_held(rank) GM_ASSERT(gm_lock_holds(rank) > 0)
#define gm_lock_assert_all_held(rank, n) GM_ASSERT(gm_lock_holds(rank) >= (n))
#else
#define gm_lock_assert_held(rank) ((void)(rank))
#define gm_lock_assert_all_held(rank, n) ((void)(rank), (void)(n))
#endif

/* How often a thread found a lock of this rank taken by another. Always 0 in release builds. */
unsigned long gm_lock_contended(enum gm_lock_rank rank);

/* True if the calling thread holds no lock of a rank in [from, to). Always true in release builds.
 * The simulated driver, built with GM_DEBUG, checks it at each of its entry points. */
#ifdef GM_DEBUG
__attribute__((visibility("default"))) /* the simulated driver calls the preload's function */
#endif
bool gm_lock_none_held(enum gm_lock_rank from, enum gm_lock_rank to);

#endif
