/* SPDX-License-Identifier: BSD-3-Clause */
/* Wait for a change of a word of memory, within the process: futex(2). Any thread, any lock. */
#ifndef GM_BASE_FUTEX_H
#define GM_BASE_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Wake all threads that wait. */
static inline void gm_futex_wake(atomic_uint *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Wait while *word is `seen`, for `ns` at most; may return early. */
static inline void gm_futex_wait(atomic_uint *word, unsigned seen, uint64_t ns)
{
	struct timespec most = {.tv_sec = (time_t)(ns / 1000000000u),
				.tv_nsec = (long)(ns % 1000000000u)};
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &most, NULL, 0);
}

#endif
