/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/futex_lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

static void futex_call(struct gm_futex_lock *lock, int operation, unsigned value)
{
	int saved = errno;
	syscall(SYS_futex, &lock->word, operation, value, NULL, NULL, 0);
	errno = saved;
}

/* A thread that has waited takes the lock as CONTENDED: others may be waiting still. */
void gm_futex_lock_wait(struct gm_futex_lock *lock)
{
	gm_lock_record_contended(lock->rank);
	while (atomic_exchange_explicit(&lock->word, GM_FUTEX_LOCK_CONTENDED,
					memory_order_acquire) != GM_FUTEX_LOCK_FREE)
		futex_call(lock, FUTEX_WAIT_PRIVATE, GM_FUTEX_LOCK_CONTENDED);
}

void gm_futex_lock_wake(struct gm_futex_lock *lock)
{
	futex_call(lock, FUTEX_WAKE_PRIVATE, 1);
}
