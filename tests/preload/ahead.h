/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The monotonic clock of a program of the tests, which gpumem reads by this function instead of
 * libc's: the program sets it forward, instead of a wait, and with TEST_CLOCK_SLOWER=n in the
 * environment it is n times slower, so that no time limit passes on a busy machine. Link the
 * program with -Wl,--export-dynamic. Include it in one source file.
 */
#ifndef AHEAD_H
#define AHEAD_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint64_t clock_ahead; /* ns */

static inline void clock_set_ahead(unsigned seconds)
{
	atomic_store(&clock_ahead, seconds * UINT64_C(1000000000));
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	static _Atomic uint64_t slower;
	int result = (int)syscall(SYS_clock_gettime, clock, t);
	if (result || (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE))
		return result;
	if (!atomic_load(&slower)) {
		const char *n = getenv("TEST_CLOCK_SLOWER");
		atomic_store(&slower, n && atoi(n) > 0 ? (uint64_t)atoi(n) : 1);
	}
	uint64_t ns = (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec;
	ns = ns / atomic_load(&slower) + atomic_load(&clock_ahead);
	t->tv_sec = (time_t)(ns / 1000000000);
	t->tv_nsec = (long)(ns % 1000000000);
	return 0;
}

#endif
