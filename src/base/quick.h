/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranked locks (lock.h) for what is held for a moment and seldom by two: taking and letting go are
 * one instruction each. Nobody waits for a condition under one, and nothing needs to end it.
 */
#ifndef GM_BASE_QUICK_H
#define GM_BASE_QUICK_H

#include <stdatomic.h>

#include "base/debug.h"
#include "base/lock.h"

struct gm_quick {
	atomic_uint word; /* enum gm_quick_word; a futex */
	enum gm_lock_rank rank;
};
enum gm_quick_word { GM_QUICK_FREE, GM_QUICK_TAKEN, GM_QUICK_AWAITED };

/* Until it was taken; let the next one have it. */
void gm_quick_wait(struct gm_quick *lock);
void gm_quick_wake(struct gm_quick *lock);

static inline void gm_quick_init(struct gm_quick *lock, enum gm_lock_rank rank)
{
	atomic_init(&lock->word, GM_QUICK_FREE);
	lock->rank = rank;
}

static inline bool gm_quick_is_had(struct gm_quick *lock)
{
	unsigned word = GM_QUICK_FREE;
	return GM_LIKELY(atomic_compare_exchange_strong_explicit(
		&lock->word, &word, GM_QUICK_TAKEN, memory_order_acquire, memory_order_relaxed));
}

static inline void gm_quick_take(struct gm_quick *lock)
{
	gm_lock_note_taken(lock->rank, lock->rank);
	if (!gm_quick_is_had(lock))
		gm_quick_wait(lock);
}

/* As gm_lock_take_next and gm_lock_try. */
static inline void gm_quick_take_next(struct gm_quick *lock)
{
	gm_lock_note_taken(lock->rank, (unsigned)lock->rank + 1);
	if (!gm_quick_is_had(lock))
		gm_quick_wait(lock);
}

static inline bool gm_quick_try(struct gm_quick *lock)
{
	if (!gm_quick_is_had(lock))
		return false;
	gm_lock_note_taken(lock->rank, (unsigned)lock->rank + 1);
	return true;
}

static inline void gm_quick_release(struct gm_quick *lock)
{
	gm_lock_note_released(lock->rank);
	unsigned word = atomic_exchange_explicit(&lock->word, GM_QUICK_FREE, memory_order_release);
	if (GM_UNLIKELY(word == GM_QUICK_AWAITED))
		gm_quick_wake(lock);
}

#endif
