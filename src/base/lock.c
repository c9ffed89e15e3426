/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/lock.h"

#include "base/debug.h"

#ifdef GM_DEBUG

static GM_TLS unsigned char held[GM_RANK_COUNT]; /* locks of each rank held by this thread */

/* Two locks of one rank are refused as well: nothing orders them. */
static void note_taken(enum gm_lock_rank rank)
{
	for (unsigned r = rank; r < GM_RANK_COUNT; r++)
		GM_ASSERT(held[r] == 0 && "locks are taken in the order of their ranks");
	held[rank]++;
}

static void note_released(enum gm_lock_rank rank)
{
	GM_ASSERT(held[rank] > 0);
	held[rank]--;
}

bool gm_lock_none_held(enum gm_lock_rank from, enum gm_lock_rank to)
{
	for (unsigned r = from; r < (unsigned)to; r++)
		if (held[r])
			return false;
	return true;
}

#else

static inline void note_taken(enum gm_lock_rank rank)
{
	(void)rank;
}

static inline void note_released(enum gm_lock_rank rank)
{
	(void)rank;
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
	pthread_mutex_init(&lock->mutex, NULL);
	lock->rank = rank;
}

void gm_lock_destroy(struct gm_lock *lock)
{
	pthread_mutex_destroy(&lock->mutex);
}

void gm_lock_take(struct gm_lock *lock)
{
	note_taken(lock->rank);
	pthread_mutex_lock(&lock->mutex);
}

void gm_lock_release(struct gm_lock *lock)
{
	pthread_mutex_unlock(&lock->mutex);
	note_released(lock->rank);
}

void gm_lock_wait(struct gm_lock *lock, pthread_cond_t *condition)
{
	pthread_cond_wait(condition, &lock->mutex);
}

void gm_rwlock_init(struct gm_rwlock *lock, enum gm_lock_rank rank)
{
	/* A writer goes first: a storm of readers must not keep it out. Readers never nest. */
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
	note_taken(lock->rank);
	pthread_rwlock_rdlock(&lock->rwlock);
}

void gm_rwlock_write(struct gm_rwlock *lock)
{
	note_taken(lock->rank);
	pthread_rwlock_wrlock(&lock->rwlock);
}

void gm_rwlock_release(struct gm_rwlock *lock)
{
	pthread_rwlock_unlock(&lock->rwlock);
	note_released(lock->rank);
}
