/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A crew of threads. Each job is run by the threads that arrive in time; idle threads end after a
 * while and are made again; no thread runs a finished job. The files are included to shorten the
 * times and to refuse threads.
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/thread.h"

static int made_by_test(struct gm_thread_start *start, void (*body)(void *arg), void *arg);
#define gm_thread_start(...) made_by_test(__VA_ARGS__)
#include "../../src/base/worker.c"
#undef gm_thread_start

static _Atomic uint64_t linger = UINT64_MAX / 2;
#define LINGER linger
#include "../../src/copy/crew.c"

#include "../tap.h"

enum { THREADS = 5, JOBS = 300 };

static struct gm_crew crew;
static atomic_uint made, running, refuse;
static void (*_Atomic made_body)(void *arg);

static void counted(void *arg)
{
	void (*body)(void *) = atomic_load(&made_body);
	body(arg);
	atomic_fetch_sub(&running, 1);
}

static int made_by_test(struct gm_thread_start *start, void (*body)(void *arg), void *arg)
{
	if (atomic_load(&refuse))
		return EAGAIN;
	atomic_store(&made_body, body);
	atomic_fetch_add(&made, 1);
	atomic_fetch_add(&running, 1);
	return gm_thread_start(start, counted, arg);
}

/* A job: each member counts itself; the job is done when `wanted` of them have. */
struct count {
	atomic_uint members;
	unsigned wanted;
	bool open;
};
static atomic_uint strayed; /* members that joined a finished job */

static void count_body(void *arg)
{
	struct count *c = arg;
	sigset_t mask;
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	if (!c->open || !sigismember(&mask, SIGTERM) || !sigismember(&mask, SIGPROF))
		atomic_fetch_add(&strayed, 1);
	atomic_fetch_add(&c->members, 1);
}

static unsigned count_job(unsigned threads, unsigned wanted)
{
	struct count c = {.wanted = wanted, .open = true};
	gm_crew_begin(&crew, threads, count_body, &c);
	while (atomic_load(&c.members) < wanted)
		sched_yield();
	gm_crew_finish(&crew);
	c.open = false;
	return atomic_load(&c.members);
}

/* As count_job, while the members that the job is not for are awake, too. */
static unsigned count_woken_job(unsigned threads)
{
	struct count c = {.wanted = threads, .open = true};
	gm_crew_begin(&crew, threads, count_body, &c);
	for (unsigned i = threads; i < THREADS; i++)
		gm_worker_wake(&crew.member[i].worker);
	while (atomic_load(&c.members) < threads)
		sched_yield();
	for (unsigned i = 0; i < 20; i++)
		sched_yield();
	gm_crew_finish(&crew);
	c.open = false;
	return atomic_load(&c.members);
}

static void jobs(void)
{
	TAP_IS(count_job(THREADS, THREADS), THREADS, "all members run the first job");
	TAP_IS(atomic_load(&made), THREADS, "each is a thread");
	TAP_IS(atomic_load(&crew.inside), 0, "no member remains in a finished job");
	unsigned most = 0;
	for (unsigned i = 0; i < JOBS; i++) {
		unsigned n = count_job(THREADS, i % (THREADS + 1));
		most = n > most ? n : most;
	}
	TAP_OK(most <= THREADS, "no member runs a job twice");
	TAP_IS(count_job(2, 2), 2, "a job for two runs on two threads");
	most = 0;
	for (unsigned i = 0; i < JOBS; i++) {
		unsigned n = count_woken_job(2);
		most = n > most ? n : most;
	}
	TAP_IS(most, 2, "members that were woken late do not join a job for fewer");
	TAP_IS(count_job(THREADS, THREADS), THREADS,
	       "members that did not join a job are still there");
	TAP_IS(atomic_load(&made), THREADS, "the same threads run the next job");
	TAP_IS(atomic_load(&strayed), 0, "threads block all signals, and join open jobs only");
}

static void ends(void)
{
	linger = 1000; /* from the next sleep on */
	count_job(THREADS, THREADS);
	while (atomic_load(&running))
		sched_yield();
	TAP_OK(true, "threads end when there are no jobs");
	for (unsigned i = 0; i < JOBS; i++)
		count_job(THREADS, THREADS);
	TAP_OK(true, "a job that comes as they end gets all of them: %u threads in all",
	       atomic_load(&made));
	while (atomic_load(&running))
		sched_yield();
	atomic_store(&refuse, 1);
	TAP_IS(count_job(THREADS, 0), 0, "no thread can be made: no member joins");
	atomic_store(&refuse, 0);
	TAP_IS(count_job(THREADS, THREADS), THREADS, "the next job tries again");
}

__attribute__((unused)) static void forked(void)
{
	int status = -1;
	linger = UINT64_MAX / 2;
	count_job(THREADS, THREADS);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		gm_thread_forget();
		gm_crew_forget(&crew);
		_exit(count_job(THREADS, THREADS) == THREADS ? 0 : 1);
	}
	waitpid(child, &status, 0);
	TAP_IS(status, 0, "a forked child makes threads of its own");
	TAP_IS(count_job(THREADS, THREADS), THREADS, "the parent keeps its own");
}

int main(void)
{
	jobs();
	ends();
#ifndef __SANITIZE_THREAD__ /* which allows no new threads in such a child */
	forked();
#endif
	return tap_done();
}
