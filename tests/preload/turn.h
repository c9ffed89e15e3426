/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread stops in the middle of a driver call until another thread has made a call of its own.
 * Only the library orders what follows in the two threads: `turn_begun` is relaxed, so that
 * ThreadSanitizer reports a missing order. Once a process. */
#ifndef GM_TESTS_TURN_H
#define GM_TESTS_TURN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

static atomic_bool turn_begun, turn_ended;

/* For gm_sim_before: the first call stops here. */
static void turn_hold(void)
{
	if (atomic_exchange_explicit(&turn_begun, true, memory_order_relaxed))
		return;
	while (!atomic_load(&turn_ended))
		usleep(100);
}

/* The other thread waits for the first call. */
static void turn_await(void)
{
	while (!atomic_load_explicit(&turn_begun, memory_order_relaxed))
		usleep(100);
}

static void turn_end(void)
{
	atomic_store(&turn_ended, true);
}

#endif
