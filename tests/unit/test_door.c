/* SPDX-License-Identifier: BSD-3-Clause */
/* The door (residency/door.h): submissions of many threads against a mover that shuts it. */
#include "residency/door.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "log/count.h"

#include "../tap.h"

#define HOUR (3600 * (uint64_t)1000000000)
enum { THREADS = 4, ROUNDS = 300, ENDED = 600, LIVE = 600, WAITERS = 50, STORMS = 30 };

static atomic_bool stop, moving;
static atomic_uint wakes, broken, entered;
static atomic_ulong switches;
static atomic_uint refused;
static CUresult wake_result;

static atomic_bool failing;
static atomic_uint failed;	    /* the wake has failed; threads that came before its end */
static _Atomic uint64_t failed_end; /* 0: no wake is in progress yet */

/* One wake fails while other threads wait for it. */
static CUresult wake_fail(uint64_t since)
{
	static atomic_bool begun;
	if (atomic_exchange(&begun, true)) {
		if (!atomic_load(&failed_end))
			return CUDA_SUCCESS; /* the wake is in progress */
		atomic_fetch_add(&failed, since <= atomic_load(&failed_end));
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	uint64_t before = gm_counter_get(0, GM_C_door_waits);
	gm_door_set(GM_DOOR_SHUT);
	while (gm_counter_get(0, GM_C_door_waits) - before < THREADS - 1)
		usleep(1000);
	atomic_store(&failed_end, gm_clock_ns());
	gm_door_set(GM_DOOR_ASLEEP);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static pthread_mutex_t mover = PTHREAD_MUTEX_INITIALIZER; /* of those that shut and open */

/* The first thread opens the door; the others find it open, or shut again by the mover. */
static CUresult wake(uint64_t since)
{
	atomic_fetch_add(&wakes, 1);
	if (atomic_load(&failing))
		return wake_fail(since);
	pthread_mutex_lock(&mover);
	if (wake_result == CUDA_SUCCESS && gm_door_state() == GM_DOOR_ASLEEP)
		gm_door_set(GM_DOOR_OPEN);
	pthread_mutex_unlock(&mover);
	return wake_result;
}

static void *submit(void *unused)
{
	while (!atomic_load(&stop)) {
		if (gm_door_enter() != CUDA_SUCCESS)
			continue;
		gm_door_enter(); /* nested */
		if (atomic_load_explicit(&moving, memory_order_relaxed))
			atomic_fetch_add(&broken, 1);
		gm_door_leave();
		atomic_fetch_add(&entered, 1);
		gm_door_leave();
	}
	return unused;
}

/* Work that can wait: enters if the door is open, else carries on without. */
static void *submit_if_open(void *unused)
{
	while (!atomic_load(&stop)) {
		if (!gm_door_try())
			continue;
		if (atomic_load_explicit(&moving, memory_order_relaxed))
			atomic_fetch_add(&broken, 1);
		gm_door_leave();
	}
	return unused;
}

/* No thread is inside while the mover moves. */
static void excludes(void)
{
	pthread_t threads[THREADS];
	unsigned shut = 0;
	for (unsigned i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, i ? submit : submit_if_open, NULL);
	for (unsigned round = 0; round < ROUNDS; round++) {
		unsigned before = atomic_load(&entered);
		while (atomic_load(&entered) == before)
			sched_yield();
		pthread_mutex_lock(&mover);
		shut += gm_door_shut(gm_clock_ns() + HOUR);
		atomic_store_explicit(&moving, true, memory_order_relaxed);
		sched_yield();
		atomic_store_explicit(&moving, false, memory_order_relaxed);
		gm_door_set(round % 2 ? GM_DOOR_OPEN : GM_DOOR_ASLEEP);
		pthread_mutex_unlock(&mover);
	}
	atomic_store(&stop, true);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	TAP_IS(shut, ROUNDS, "the door shuts, however many come and go");
	TAP_IS(atomic_load(&broken), 0, "no thread is inside while the mover moves");
	TAP_OK(atomic_load(&wakes) > 0, "a thread that finds the process asleep wakes it");
}

static atomic_int stage;

static void *stay_inside(void *unused)
{
	gm_door_enter();
	atomic_store(&stage, 1);
	while (atomic_load(&stage) != 2)
		sched_yield();
	gm_door_leave();
	return unused;
}

static void *end_inside(void *unused)
{
	gm_door_enter();
	return unused;
}

static void bounds(void)
{
	pthread_t thread;
	uint64_t before = gm_door_passages();
	pthread_create(&thread, NULL, stay_inside, NULL);
	while (atomic_load(&stage) != 1)
		sched_yield();
	TAP_OK(!gm_door_shut(gm_clock_ns()) && gm_door_state() == GM_DOOR_OPEN,
	       "a submission that does not return keeps it open");
	TAP_OK(gm_door_passages() != before, "passages of the door are counted");
	atomic_store(&stage, 2);
	pthread_join(thread, NULL);
	unsigned shut = 0;
	for (unsigned i = 0; i < ENDED; i++) { /* more threads than the first seats */
		pthread_create(&thread, NULL, end_inside, NULL);
		pthread_join(thread, NULL);
	}
	shut += gm_door_shut(gm_clock_ns() + HOUR);
	TAP_IS(shut, 1, "threads that have ended inside are no submissions any more");
	gm_door_set(GM_DOOR_ASLEEP);
	wake_result = CUDA_ERROR_OUT_OF_MEMORY;
	TAP_IS(gm_door_enter(), CUDA_ERROR_OUT_OF_MEMORY, "a wake that fails is the answer");
	wake_result = CUDA_SUCCESS;
	TAP_IS(gm_door_enter(), CUDA_SUCCESS, "the next submission wakes again");
	TAP_OK(gm_door_shut(gm_clock_ns() + HOUR), "the mover's own submission is not waited for");
	gm_door_set(GM_DOOR_OPEN);
	gm_door_leave();
}

static atomic_uint seated;

static void *pass_and_stay(void *unused)
{
	gm_door_enter();
	gm_door_leave();
	atomic_fetch_add(&seated, 1);
	while (atomic_load(&stage) != 3)
		usleep(1000);
	gm_door_enter();
	gm_door_leave();
	return unused;
}

/* Live threads beyond the first seats have seats of their own: the mover waits for one inside. */
static void many_live(void)
{
	static pthread_t threads[LIVE];
	pthread_t inside;
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	atomic_store(&stage, 0);
	unsigned n = 0;
	while (n < LIVE && !pthread_create(&threads[n], &small, pass_and_stay, NULL))
		n++;
	while (atomic_load(&seated) < n)
		sched_yield();
	TAP_OK(n == LIVE && gm_door_shut(gm_clock_ns() + HOUR), "%u threads that have left", n);
	gm_door_set(GM_DOOR_OPEN);
	pthread_create(&inside, &small, stay_inside, NULL);
	while (atomic_load(&stage) != 1)
		sched_yield();
	TAP_OK(!gm_door_shut(gm_clock_ns()), "one more of them inside keeps the door open");
	TAP_OK(!gm_door_await(gm_clock_ns()), "a wait for those inside has its bound");
	atomic_store(&stage, 2);
	pthread_join(inside, NULL);
	TAP_OK(gm_door_await(gm_clock_ns()) && gm_door_state() == GM_DOOR_OPEN,
	       "a wait ends once they have left, and leaves the door open");
	atomic_store(&stage, 3);
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	TAP_OK(gm_door_shut(gm_clock_ns() + HOUR), "the door shuts after all have ended");
	gm_door_set(GM_DOOR_OPEN);
	pthread_attr_destroy(&small);
}

static void *wait_outside(void *unused)
{
	struct rusage before, after;
	getrusage(RUSAGE_THREAD, &before);
	gm_door_enter();
	gm_door_leave();
	getrusage(RUSAGE_THREAD, &after);
	atomic_fetch_add(&switches, (unsigned long)(after.ru_nvcsw - before.ru_nvcsw));
	return unused;
}

static void *fail_to_enter(void *unused)
{
	atomic_fetch_add(&refused, gm_door_enter() == CUDA_ERROR_OUT_OF_MEMORY);
	return unused;
}

/* Threads that waited for a wake that fails can see that they came before its end. */
static void wakes_fail(void)
{
	pthread_t threads[THREADS];
	atomic_store(&failing, true);
	gm_door_set(GM_DOOR_ASLEEP);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, fail_to_enter, NULL);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	TAP_IS(atomic_load(&refused), THREADS, "a wake that fails is the answer of all");
	TAP_IS(atomic_load(&failed), THREADS - 1, "each waiting thread tells since when it waits");
	atomic_store(&failing, false);
	gm_door_set(GM_DOOR_OPEN);
}

/* Many threads that look again and again would take all cores from the mover. */
static void waiters_rest(void)
{
	static pthread_t threads[WAITERS];
	uint64_t before = gm_counter_get(0, GM_C_door_waits);
	TAP_OK(gm_door_shut(gm_clock_ns() + HOUR), "the door is shut");
	for (unsigned i = 0; i < WAITERS; i++)
		pthread_create(&threads[i], NULL, wait_outside, NULL);
	while (gm_counter_get(0, GM_C_door_waits) - before < WAITERS)
		usleep(1000);
	usleep(200000); /* for waits that must not end */
	gm_door_set(GM_DOOR_OPEN);
	for (unsigned i = 0; i < WAITERS; i++)
		pthread_join(threads[i], NULL);
	TAP_OK(atomic_load(&switches) < 20 * WAITERS, "threads rest while they wait: %lu switches",
	       atomic_load(&switches));
}

/* A submission is a passage; a try is none, nor what is nested in it. */
static void passages(void)
{
	uint64_t before = gm_door_passages();
	bool in = gm_door_try();
	uint64_t within = gm_door_passages();
	gm_door_enter();
	gm_door_leave();
	gm_door_leave();
	TAP_OK(in && within == before && gm_door_passages() == before, "a try is no passage");
	gm_door_enter();
	TAP_OK(gm_door_passages() != before, "a submission is a passage when it begins");
	within = gm_door_passages();
	gm_door_leave();
	TAP_OK(gm_door_passages() != within, "a submission is a passage when it ends");
	gm_door_set(GM_DOOR_ASLEEP);
	before = gm_door_passages();
	TAP_OK(!gm_door_try() && gm_door_passages() == before, "a try that fails is no passage");
	gm_door_set(GM_DOOR_OPEN);
}

static void forks(void)
{
	int status = -1;
	gm_door_shut(gm_clock_ns() + HOUR);
	pid_t pid = fork();
	if (pid == 0) {
		gm_door_forget();
		gm_door_begin(wake);
		_exit(gm_door_enter() != CUDA_SUCCESS || gm_door_state() != GM_DOOR_OPEN);
	}
	waitpid(pid, &status, 0);
	TAP_IS(status, 0, "a forked child begins with an open door");
	gm_door_set(GM_DOOR_OPEN);
}

static void tries(void)
{
	unsigned before = atomic_load(&wakes);
	TAP_OK(gm_door_try() && gm_door_try(), "a try enters an open door, also twice");
	gm_door_leave();
	gm_door_leave();
	gm_door_enter();
	TAP_OK(gm_door_shut(gm_clock_ns() + HOUR) && gm_door_try(),
	       "a try inside a submission enters a shut door");
	gm_door_leave();
	gm_door_leave();
	TAP_OK(!gm_door_try(), "a try from outside does not enter a shut door");
	gm_door_set(GM_DOOR_ASLEEP);
	TAP_OK(!gm_door_try() && atomic_load(&wakes) == before, "a try does not wake the process");
	gm_door_set(GM_DOOR_OPEN);
	TAP_OK(gm_door_try() && gm_door_shut(gm_clock_ns() + HOUR), "a failed try leaves no trace");
	gm_door_leave();
	gm_door_set(GM_DOOR_OPEN);
}

/* A submission that waits for other processes. */
static void steps_out(void)
{
	TAP_OK(!gm_door_is_inside() && !gm_door_step_out(), "who is outside cannot step out");
	gm_door_enter();
	gm_door_enter();
	TAP_OK(!gm_door_step_out(), "a part of another submission cannot step out");
	gm_door_leave();
	TAP_OK(gm_door_is_inside() && gm_door_step_out() && !gm_door_is_inside(),
	       "a submission can step out");
	TAP_OK(gm_door_shut(gm_clock_ns()), "the door shuts once a submission has stepped out");
	gm_door_set(GM_DOOR_ASLEEP);
	gm_door_step_in();
	TAP_OK(gm_door_is_inside() && !gm_door_try(),
	       "a submission that stepped in again has no memory");
	gm_door_leave();
	gm_door_set(GM_DOOR_OPEN);
	TAP_OK(gm_door_try() && gm_door_step_out(), "a try can step out of the door");
	gm_door_step_in();
	TAP_OK(gm_door_try(), "the step in changes nothing while the door is open");
	gm_door_leave();
	gm_door_leave();
	TAP_OK(!gm_door_is_inside() && gm_door_shut(gm_clock_ns()), "no step leaves a trace");
	gm_door_set(GM_DOOR_OPEN);
}

/* --- signal handlers --- */

static atomic_uint handled;

static void handle(int number)
{
	int saved = errno;
	(void)number;
	if (gm_door_enter() != CUDA_SUCCESS)
		return;
	if (atomic_load_explicit(&moving, memory_order_relaxed))
		atomic_fetch_add(&broken, 1);
	gm_door_leave();
	atomic_fetch_add(&handled, 1);
	errno = saved;
}

/* A handler comes between any two instructions of a submission. */
static void handlers(void)
{
	const struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
	pthread_t threads[2];
	unsigned shut = 0;
	sigaction(SIGUSR1, &action, NULL);
	atomic_store(&stop, false);
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, i ? submit : submit_if_open, NULL);
	for (unsigned round = 0; round < STORMS; round++) {
		unsigned before = atomic_load(&handled);
		while (atomic_load(&handled) - before < 10) {
			for (unsigned i = 0; i < 2; i++)
				pthread_kill(threads[i], SIGUSR1);
			sched_yield();
		}
		shut += gm_door_shut(gm_clock_ns() + HOUR);
		atomic_store_explicit(&moving, true, memory_order_relaxed);
		for (unsigned i = 0; i < 20; i++) {
			pthread_kill(threads[i % 2], SIGUSR1);
			sched_yield();
		}
		atomic_store_explicit(&moving, false, memory_order_relaxed);
		gm_door_set(GM_DOOR_OPEN);
	}
	atomic_store(&stop, true);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	TAP_IS(shut, STORMS, "the door shuts, however many handlers submit");
	TAP_IS(atomic_load(&broken), 0, "no handler is inside while the mover moves");
	TAP_OK(gm_door_shut(gm_clock_ns() + HOUR), "no handler leaves a trace");
	gm_door_set(GM_DOOR_OPEN);
}

int main(void)
{
	TAP_IS(gm_door_enter(), CUDA_SUCCESS, "unused, it lets everybody in");
	gm_door_leave();
	gm_door_begin(wake);
	excludes();
	handlers();
	tries();
	steps_out();
	passages();
	waiters_rest();
	wakes_fail();
	bounds();
	many_live();
	forks();
	return tap_done();
}
