/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/lock.h"

#include <stdatomic.h>

#include "base/debug.h"
#include "base/thread.h"

#ifdef GM_DEBUG

static GM_TLS unsigned char held[GM_LOCK_RANK_COUNT]; /* locks of each rank held by this thread */

static atomic_ulong contended[GM_LOCK_RANK_COUNT];

/* No lock of rank `from` or above may be held. */
void gm_lock_record_taken(enum gm_lock_rank rank, unsigned from)
{
	for (unsigned r = from; r < GM_LOCK_RANK_COUNT; r++)
		GM_ASSERT(held[r] == 0 && "locks are taken in the order of their ranks");
	held[rank]++;
}

void gm_lock_record_contended(enum gm_lock_rank rank)
{
	atomic_fetch_add_explicit(&contended[rank], 1, memory_order_relaxed);
}

static void mutex_lock(struct gm_lock *lock)
{
	if (pthread_mutex_trylock(&lock->mutex) == 0)
		return;
	gm_lock_record_contended(lock->rank);
	pthread_mutex_lock(&lock->mutex);
}

unsigned long gm_lock_contended(enum gm_lock_rank rank)
{
	return atomic_load_explicit(&contended[rank], memory_order_relaxed);
}

void gm_lock_record_released(enum gm_lock_rank rank)
{
	GM_ASSERT(held[rank] > 0);
	held[rank]--;
}

unsigned gm_lock_holds(enum gm_lock_rank rank)
{
	return held[rank];
}

bool gm_lock_none_held(enum gm_lock_rank from, enum gm_lock_rank to)
{
	for (unsigned r = from; r < (unsigned)to; r++)
		if (held[r])
			return false;
	return true;
}

#else

static inline void mutex_lock(struct gm_lock *lock)
{
	pthread_mutex_lock(&lock->mutex);
}

unsigned long gm_lock_contended(enum gm_lock_rank rank)
{
	(void)rank;
	return 0;
}

bool gm_lock_none_held(enum gm_lock_rank from, enum gm_lock_rank to)
{
	(void)from;
	(void)to;
	return true;
}

#endif

void gm_lock_init(struct gm_lock *lock, enum gm_lock_rank rank)
{
	/* Sections under these locks are short: spinning is cheaper than sleeping. */
	lock->mutex = (pthread_mutex_t)PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
	lock->rank = rank;
}

void gm_lock_destroy(struct gm_lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

/* A second lock of the same rank is refused as well: nothing orders the two. */
void gm_lock_take(struct gm_lock *lock)
{
	gm_lock_record_taken(lock->rank, lock->rank);
	mutex_lock(lock);
}

void gm_lock_take_next(struct gm_lock *lock)
{
	gm_lock_record_taken(lock->rank, lock->rank + 1);
	mutex_lock(lock);
}

/* The next owner may destroy the lock: it is not read after the unlock. */
void gm_lock_release(struct gm_lock *lock)
{
	gm_lock_record_released(lock->rank);
	pthread_mutex_unlock(&lock->mutex);
}

void gm_lock_wait(struct gm_lock *lock, pthread_cond_t *condition)
{
	gm_thread_hold_cancel();
	pthread_cond_wait(condition, &lock->mutex);
	gm_thread_let_cancel();
}

void gm_rwlock_init(struct gm_rwlock *lock, enum gm_lock_rank rank)
{
	/* Writers have precedence: many readers must not starve them. Readers never nest. */
	pthread_rwlockattr_t attr;
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&lock->rwlock, &attr);
	pthread_rwlockattr_destroy(&attr);
	lock->rank = rank;
}

void gm_rwlock_destroy(struct gm_rwlock *lock)
{
	pthread_rwlock_destroy(&lock->rwlock);
}

void gm_rwlock_read(struct gm_rwlock *lock)
{
	gm_lock_record_taken(lock->rank, lock->rank);
	pthread_rwlock_rdlock(&lock->rwlock);
}

void gm_rwlock_write(struct gm_rwlock *lock)
{
	gm_lock_record_taken(lock->rank, lock->rank);
	pthread_rwlock_wrlock(&lock->rwlock);
}

void gm_rwlock_release(struct gm_rwlock *lock)
{
	pthread_rwlock_unlock(&lock->rwlock);
	gm_lock_record_released(lock->rank);
}
