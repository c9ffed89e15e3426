/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/quick.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

static void call(struct gm_quick *lock, int what, unsigned value)
{
	int saved = errno;
	syscall(SYS_futex, &lock->word, what, value, NULL, NULL, 0);
	errno = saved;
}

/* Whoever was waiting takes it as awaited, for there may be others. */
void gm_quick_wait(struct gm_quick *lock)
{
	gm_lock_note_contended(lock->rank);
	while (atomic_exchange_explicit(&lock->word, GM_QUICK_AWAITED, memory_order_acquire) !=
	       GM_QUICK_FREE)
		call(lock, FUTEX_WAIT_PRIVATE, GM_QUICK_AWAITED);
}

void gm_quick_wake(struct gm_quick *lock)
{
	call(lock, FUTEX_WAKE_PRIVATE, 1);
}
