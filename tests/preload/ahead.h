/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A clock that a program of the tests sets forward, instead of a wait: gpumem calls this function
 * instead of libc's. Link the program with -Wl,--export-dynamic. Include it in one source file.
 */
#ifndef AHEAD_H
#define AHEAD_H

#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic time_t clock_ahead; /* seconds */

static inline void clock_set_ahead(time_t seconds)
{
	atomic_store(&clock_ahead, seconds);
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	int result = (int)syscall(SYS_clock_gettime, clock, t);
	if (result == 0 && (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE))
		t->tv_sec += atomic_load(&clock_ahead);
	return result;
}

#endif
