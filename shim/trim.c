/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Idle memory that nobody needed for GPUMEM_TRIM_AFTER goes back to the driver also while the
 * program sleeps: a thread sees to it, sleeping itself until the first chunk is due. It is made by
 * the call that leaves memory idle, and ends when there is none. With 0 the call gives the memory
 * back itself.
 *
 * What the heap of a context holds, and kernels no longer use, becomes idle memory of its pool once
 * no kernel was in flight for as long. That takes a kernel, which the thread waits for: a call of
 * the program should not, and the thread that serves the heap must not, so it is this thread with
 * 0, too. The heap's thread makes it, for when kernels end no call of the program does.
 *
 * Once the process exits the thread makes no call of the driver any more, and exit waits for the
 * one that it is in.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/msg.h"
#include "handlers.h"
#include "inkernel.h"
#include "knob/knob.h"

#define STACK ((size_t)512 << 10)
#define LEAST_NAP 1000000u /* ns, when what is due could not go */
#ifndef EXIT_WAITS
#define EXIT_WAITS 1000000000u /* ns at most: whoever exits may hold a lock of the driver */
#endif

atomic_bool gm_trim_wanted;
/* There is a thread, or none can be made; and what it sees to. */
enum { NOBODY, FOR_HEAPS, FOR_ALL };
static atomic_uint alive;
static atomic_bool exiting;
static atomic_uint busy; /* the thread may be calling the driver; a futex */

/* Calls of the program give back what pools have; the thread is for heaps alone. */
static bool at_once(void)
{
	return gm_knob_get()->trim_after.ns == 0;
}

static unsigned task(void)
{
	return at_once() ? FOR_HEAPS : FOR_ALL;
}

void gm_trim_idle(void *unused)
{
	(void)unused;
	if (atomic_load_explicit(&alive, memory_order_relaxed) != FOR_ALL)
		atomic_store_explicit(&gm_trim_wanted, true, memory_order_relaxed);
}

/* --- against exit: either the thread sees `exiting`, or exit sees `busy` --- */

static void end_busy(void)
{
	atomic_store(&busy, 0);
	if (atomic_load(&exiting))
		syscall(SYS_futex, &busy, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static bool begin_busy(void)
{
	atomic_store(&busy, 1);
	if (!atomic_load(&exiting))
		return true;
	end_busy();
	return false;
}

void gm_trim_exit(void)
{
	uint64_t end = gm_clock_ns() + EXIT_WAITS, now;
	atomic_store(&exiting, true);
	while (atomic_load(&busy) && (now = gm_clock_ns()) < end) {
		struct timespec left = {.tv_sec = (time_t)((end - now) / 1000000000u),
					.tv_nsec = (long)((end - now) % 1000000000u)};
		syscall(SYS_futex, &busy, FUTEX_WAIT_PRIVATE, 1, &left, NULL, 0);
	}
}

/* --- what is due --- */

static uint64_t next_due(void)
{
	uint64_t next = gm_inkernel_trim_next();
	for (unsigned i = 0; i < gm_shim_n_devices && !at_once(); i++) {
		struct gm_pool *pool = gm_shim_pool_if_any(i);
		uint64_t due = pool ? gm_pool_trim_next(pool) : UINT64_MAX;
		next = due < next ? due : next;
	}
	return next;
}

/* The chunk of any pool that is due at `now`; returns its bytes. */
static uint64_t trim_pools(uint64_t now)
{
	uint64_t given = 0;
	for (unsigned i = 0; i < gm_shim_n_devices && !given; i++) {
		struct gm_pool *pool = gm_shim_pool_if_any(i);
		if (pool)
			given = gm_pool_trim(pool, now);
	}
	return given;
}

/* Likewise, or what a heap holds. */
static uint64_t trim_one(uint64_t now)
{
	uint64_t given = trim_pools(now);
	return given ? given : gm_inkernel_trim(now);
}

/* --- the thread --- */

static void sleep_until(uint64_t due)
{
	uint64_t now = gm_clock_ns(), nap = gm_knob_get()->trim_after.ns;
	if (due <= now)
		due = now + (nap > LEAST_NAP ? nap : LEAST_NAP);
	struct timespec until = {.tv_sec = (time_t)(due / 1000000000u),
				 .tv_nsec = (long)(due % 1000000000u)};
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

/* Give back what is due; false: the process exits. */
static bool trim_due(void)
{
	uint64_t given, sum = 0;
	do {
		if (!begin_busy())
			return false;
		given = trim_one(gm_clock_ns());
		sum += given;
		if (!given && sum) {
			gm_shim_sample(gm_clock_ns(), false);
			gm_log_poll();
		}
		end_busy();
	} while (given);
	return true;
}

/* When something is due, or UINT64_MAX, and the thread ends. Whoever leaves memory idle once
 * `alive` is NOBODY asks for another one. */
static uint64_t stay(void)
{
	uint64_t due = next_due();
	if (due != UINT64_MAX)
		return due;
	atomic_store(&alive, NOBODY);
	due = next_due();
	return due != UINT64_MAX && !atomic_exchange(&alive, task()) ? due : UINT64_MAX;
}

static void *run(void *unused)
{
	uint64_t due;
	(void)unused;
	prctl(PR_SET_NAME, "gpumem");
	gm_shim_inside = 1;
	do {
		due = stay();
		if (due != UINT64_MAX)
			sleep_until(due);
	} while (due != UINT64_MAX && trim_due());
	return NULL;
}

/* --- making it --- */

static int make_thread(size_t stack)
{
	pthread_attr_t attr;
	pthread_t thread;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (stack)
		pthread_attr_setstacksize(&attr, stack);
	int error = pthread_create(&thread, &attr, run, NULL);
	pthread_attr_destroy(&attr);
	return error;
}

static void start_thread(void)
{
	if (atomic_load(&exiting) || next_due() == UINT64_MAX || atomic_exchange(&alive, task()))
		return;
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = make_thread(STACK);
	if (error == EINVAL) /* the program has much thread-local memory */
		error = make_thread(0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (error)
		gm_msg(GM_MSG_WARN, "no thread for GPUMEM_TRIM_AFTER: %s; idle memory stays",
		       strerror(error));
}

void gm_trim_start(void)
{
	int saved = errno;
	atomic_store_explicit(&gm_trim_wanted, false, memory_order_relaxed);
	if (at_once())
		while (trim_pools(gm_clock_ns()))
			;
	else
		start_thread();
	errno = saved;
}

void gm_trim_heap_idle(void *unused)
{
	(void)unused;
	start_thread();
}

void gm_trim_forget(void)
{
	atomic_store(&gm_trim_wanted, false);
	atomic_store(&alive, NOBODY);
	atomic_store(&exiting, false);
	atomic_store(&busy, 0);
}
