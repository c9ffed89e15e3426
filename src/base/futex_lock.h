/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranked locks (lock.h) for short sections with little contention: take and release are one atomic
 * instruction each. No condition variables. Nothing to destroy. The thread that took a lock
 * releases it.
 */
#ifndef GM_BASE_FUTEX_LOCK_H
#define GM_BASE_FUTEX_LOCK_H

#include <stdatomic.h>

#include "base/debug.h"
#include "base/lock.h"

struct gm_futex_lock {
	atomic_uint word; /* enum gm_futex_lock_word; a futex */
	enum gm_lock_rank rank;
};
enum gm_futex_lock_word { GM_FUTEX_LOCK_FREE, GM_FUTEX_LOCK_TAKEN, GM_FUTEX_LOCK_CONTENDED };

/* Slow paths: block until the lock is taken; wake one waiting thread. */
void gm_futex_lock_wait(struct gm_futex_lock *lock);
void gm_futex_lock_wake(struct gm_futex_lock *lock);

static inline void gm_futex_lock_init(struct gm_futex_lock *lock, enum gm_lock_rank rank)
{
	atomic_init(&lock->word, GM_FUTEX_LOCK_FREE);
	lock->rank = rank;
}

static inline bool gm_futex_lock_grab(struct gm_futex_lock *lock)
{
	unsigned word = GM_FUTEX_LOCK_FREE;
	return GM_LIKELY(atomic_compare_exchange_strong_explicit(
		&lock->word, &word, GM_FUTEX_LOCK_TAKEN, memory_order_acquire,
		memory_order_relaxed));
}

static inline void gm_futex_lock_take(struct gm_futex_lock *lock)
{
	gm_lock_record_taken(lock->rank, lock->rank);
	if (!gm_futex_lock_grab(lock))
		gm_futex_lock_wait(lock);
}

/* As gm_lock_take_next. */
static inline void gm_futex_lock_take_next(struct gm_futex_lock *lock)
{
	gm_lock_record_taken(lock->rank, (unsigned)lock->rank + 1);
	if (!gm_futex_lock_grab(lock))
		gm_futex_lock_wait(lock);
}

static inline bool gm_futex_lock_try_acquire(struct gm_futex_lock *lock)
{
	if (!gm_futex_lock_grab(lock))
		return false;
	gm_lock_record_taken(lock->rank, (unsigned)lock->rank + 1);
	return true;
}

/* Debug builds abort unless this lock is taken, and the calling thread holds one of its rank. */
#define gm_futex_lock_assert_held(lock)                                         \
	(GM_ASSERT(atomic_load_explicit(&(lock)->word, memory_order_relaxed) != \
		   GM_FUTEX_LOCK_FREE),                                         \
	 gm_lock_assert_held((lock)->rank))

static inline void gm_futex_lock_release(struct gm_futex_lock *lock)
{
	gm_lock_record_released(lock->rank);
	unsigned word =
		atomic_exchange_explicit(&lock->word, GM_FUTEX_LOCK_FREE, memory_order_release);
	if (GM_UNLIKELY(word == GM_FUTEX_LOCK_CONTENDED))
		gm_futex_lock_wake(lock);
}

#endif
