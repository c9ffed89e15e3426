/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads of gpumem: start, sleep, wake-up, end, and the effects of a fork, an exit and the end of
 * the program's own threads.
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/worker.h"
#include "tests/tap.h"

#define SECOND UINT64_C(1000000000)
#define HOUR (3600 * SECOND)

#ifdef __SANITIZE_THREAD__
/* The sanitizer has a thread of its own, so that ours is never the last; and a child of a process
 * with threads may start none. */
enum { HAS_THREAD = true };
#else
enum { HAS_THREAD = false };
#endif

static struct gm_worker worker;
static struct gm_gate gate;
static atomic_uint bodies; /* number started */
static atomic_bool stop, blocked, awake;
static char name[16];

/* Sleeps until it is told to stop, and counts its wake-ups. */
static void sleeper(void *arg)
{
	atomic_uint *wakes = arg;
	sigset_t signals;
	pthread_sigmask(SIG_SETMASK, NULL, &signals);
	atomic_store(&blocked, sigismember(&signals, SIGINT) && sigismember(&signals, SIGTERM));
	prctl(PR_GET_NAME, name);
	atomic_fetch_add(&bodies, 1);
	for (unsigned bell = gm_worker_bell(&worker); !atomic_load(&stop);) {
		gm_worker_sleep(&worker, bell, HOUR, HOUR);
		bell = gm_worker_bell(&worker);
		atomic_fetch_add(wakes, 1);
	}
	gm_worker_end(&worker);
}

static void until(atomic_uint *word, unsigned least)
{
	while (atomic_load(word) < least)
		sched_yield();
}

static void starts_and_stops(void)
{
	atomic_uint wakes = 0;
	TAP_OK(!gm_worker_is_running(&worker), "a zeroed worker has no thread");
	TAP_IS(gm_worker_start(&worker, "gpumem-test", sleeper, &wakes), 0, "a thread is started");
	until(&bodies, 1);
	TAP_OK(gm_worker_is_running(&worker), "the worker is running");
	TAP_STR(name, "gpumem-test", "the thread has the worker's name");
	TAP_OK(atomic_load(&blocked), "the thread has its signals blocked");
	TAP_IS(gm_worker_start(&worker, "gpumem-test", sleeper, &wakes), 0,
	       "a second start is no error");
	gm_worker_wake(&worker);
	until(&wakes, 1);
	TAP_IS(atomic_load(&bodies), 1, "a second start makes no second thread");
	TAP_OK(!gm_worker_claim(&worker), "a running worker cannot be claimed");
	atomic_store(&stop, true);
	gm_worker_wake(&worker);
	gm_worker_join(&worker);
	TAP_OK(!gm_worker_is_running(&worker), "a joined worker is not running");
	atomic_store(&stop, false);
	gm_worker_start(&worker, "gpumem-test", sleeper, &wakes);
	until(&bodies, 2);
	atomic_store(&stop, true);
	gm_worker_wake(&worker);
	gm_worker_join(&worker);
	TAP_IS(atomic_load(&bodies), 2, "a worker that has ended can be started again");
	TAP_OK(gm_worker_claim(&worker), "a worker that has ended can be claimed");
	gm_worker_end(&worker);
}

static void sleeps(void)
{
	unsigned bell = gm_worker_bell(&worker);
	uint64_t begin = gm_clock_ns();
	worker.checked = begin - 1000000; /* a check is due */
	TAP_OK(gm_worker_sleep(&worker, bell, 5000000, 1000000),
	       "a thread that is not the last one sleeps to the end");
	TAP_OK(gm_clock_ns() - begin >= 5000000, "a sleep lasts its time, in several pieces");
	TAP_OK(worker.checked >= begin, "a sleeping thread checks for other threads");
	gm_worker_wake(&worker);
	TAP_OK(gm_worker_sleep(&worker, bell, HOUR, HOUR),
	       "a wake between reading the bell and sleeping is not lost");
}

/* --- fork --- */

static void in_child(void)
{
	atomic_uint wakes = 0;
	atomic_store(&bodies, 0);
	atomic_store(&stop, true);
	gm_thread_forget();
	gm_worker_forget(&worker);
	gm_gate_forget(&gate);
	bool clean = !gm_worker_is_running(&worker) && gm_gate_enter(&gate);
	if (!HAS_THREAD) {
		gm_worker_start(&worker, "gpumem-test", sleeper, &wakes);
		gm_worker_join(&worker);
		clean = clean && atomic_load(&bodies) == 1;
	}
	_exit(clean ? 7 : 1);
}

static int status_of(void (*child)(void))
{
	int status = -1;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		child();
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void forks(void)
{
	atomic_uint wakes = 0;
	atomic_store(&stop, false);
	atomic_store(&bodies, 0);
	gm_worker_start(&worker, "gpumem-test", sleeper, &wakes);
	until(&bodies, 1);
	gm_gate_enter(&gate);
	TAP_IS(status_of(in_child), 7, "a forked child forgets the thread and starts its own");
	gm_gate_leave(&gate);
	atomic_store(&stop, true);
	gm_worker_wake(&worker);
	gm_worker_join(&worker);
}

/* --- the last thread of a process --- */

static void handler(void)
{
	_exit(atomic_load(&awake) ? 7 : 1);
}

static void stays(void *unused)
{
	(void)unused;
	atomic_store(&awake, !gm_worker_sleep(&worker, gm_worker_bell(&worker), HOUR, 1000000));
	gm_worker_end(&worker);
}

static void without_main(void)
{
	atexit(handler);
	gm_worker_start(&worker, "gpumem-test", stays, NULL);
	pthread_exit(NULL);
}

static void handler_of_main(void)
{
	_exit(gettid() == getpid() && !atomic_load(&awake) ? 7 : 1);
}

static void without_main_uncounted(void)
{
	gm_thread_open();
	atexit(gm_thread_keeps_process() ? handler : handler_of_main);
	gm_worker_start(&worker, "gpumem-test", stays, NULL);
	pthread_exit(NULL);
}

/* --- the gate --- */

static void calls(void *unused)
{
	(void)unused;
	atomic_fetch_add(&bodies, gm_gate_enter(&gate));
	while (!gm_gate_is_closed(&gate))
		sched_yield();
	atomic_store(&awake, true);
	gm_gate_leave(&gate);
	gm_worker_end(&worker);
}

static void closes(void)
{
	TAP_OK(gm_gate_enter(&gate) && gm_gate_enter(&gate), "an open gate lets threads in");
	gm_gate_leave(&gate);
	gm_gate_leave(&gate);
	atomic_store(&awake, false);
	atomic_store(&bodies, 0);
	gm_worker_start(&worker, "gpumem-test", calls, NULL);
	until(&bodies, 1);
	gm_gate_close(&gate);
	TAP_OK(atomic_load(&awake), "closing the gate waits for the thread inside");
	TAP_OK(!gm_gate_enter(&gate), "a closed gate admits no thread");
	gm_worker_join(&worker);
	gm_gate_enter(&gate);
	TAP_IS(atomic_load(&gate.inside), 0, "a thread that was not let in is not counted");
	gm_gate_forget(&gate);
	TAP_OK(gm_gate_enter(&gate), "a forgotten gate is open");
}

int main(void)
{
	if (!HAS_THREAD) { /* before there are other threads */
		TAP_IS(status_of(without_main), 7,
		       "the last thread of a process sees that it is, and ends");
		TAP_IS(status_of(without_main_uncounted), 7,
		       "where threads of ours are not counted, the main thread ends the process");
	}
	starts_and_stops();
	sleeps();
	forks();
	closes();
	return tap_done();
}
