/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranked locks. A thread may take a lock only if its rank is higher than that of every lock it
 * already holds, but for two of one rank as the functions below say; debug builds check this, and
 * that no lock is held across a driver call (gm_lock_none_held), and abort with both names.
 */
#ifndef GM_BASE_LOCK_H
#define GM_BASE_LOCK_H

#include <pthread.h>
#include <stdbool.h>

/* In the order in which they may be taken. */
enum gm_lock_rank {
	GM_RANK_CAPTURE, /* one a context: stream capture against fences; may span driver calls that
			    do not wait for the GPU (see pool/fence.h) */
	GM_RANK_SHIM,	 /* start-up and tables of the shim */
	GM_RANK_CONTEXT, /* the table of contexts */
	GM_RANK_POOL,	 /* one a pool */
	GM_RANK_SHELF,	 /* some a pool */
	GM_RANK_TABLE,	 /* tables of streams, modules, foreign memory */
	GM_RANK_LOG,	 /* segments of the log */
	GM_RANK_STRING,	 /* interned strings of the log */
	GM_RANK_COUNTER, /* whose rows of counters are whose */
	GM_RANK_SIM,	 /* the simulated driver: below everything, as a driver is */
	GM_RANK_COUNT
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
/* Likewise, while locks of the same rank are held: the caller orders these among themselves. */
void gm_lock_take_next(struct gm_lock *lock);
/* Take it unless another thread has it. Waits for nothing, so locks of its rank may be held. */
bool gm_lock_try(struct gm_lock *lock);
void gm_lock_release(struct gm_lock *lock);
/* Let go of the lock, the only one held, until the condition is signalled; may wake for nothing. */
void gm_lock_wait(struct gm_lock *lock, pthread_cond_t *condition);

void gm_rwlock_init(struct gm_rwlock *lock, enum gm_lock_rank rank);
void gm_rwlock_destroy(struct gm_rwlock *lock);
void gm_rwlock_read(struct gm_rwlock *lock);
void gm_rwlock_write(struct gm_rwlock *lock);
void gm_rwlock_release(struct gm_rwlock *lock);

/* What debug builds check, for locks of other kinds: one is taken, while none of rank `from` or
 * above may be held; it was another's; it is let go. */
#ifdef GM_DEBUG
void gm_lock_note_taken(enum gm_lock_rank rank, unsigned from);
void gm_lock_note_contended(enum gm_lock_rank rank);
void gm_lock_note_released(enum gm_lock_rank rank);
#else
#define gm_lock_note_taken(rank, from) ((void)(rank), (void)(from))
#define gm_lock_note_contended(rank) ((void)(rank))
#define gm_lock_note_released(rank) ((void)(rank))
#endif

/* How often a thread found a lock of the rank taken by another. Always 0 in release builds. */
unsigned long gm_lock_contended(enum gm_lock_rank rank);

/* True if the calling thread holds no lock of a rank in [from, to). Always true in release builds;
 * the simulated driver, built with GM_DEBUG, asks it at each of its entries. */
#ifdef GM_DEBUG
__attribute__((visibility("default"))) /* a debug build of the preload lets the simulator ask it */
#endif
bool gm_lock_none_held(enum gm_lock_rank from, enum gm_lock_rank to);

#endif
