/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Special moments of a heap's service thread: a launch while it is parked or just before its last
 * check, and a process of which only this thread remains. The file is included to intercept the
 * locks that it takes.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/heap_host_help.h"

static void taken_by_test(struct gm_lock *lock);
#define gm_lock_take taken_by_test
#include "../../src/heap/chunks/service.c"
#undef gm_lock_take

#define MIB ((uint64_t)1 << 20)

static struct site site;
static CUstream stream;

static void nothing(void *unused)
{
	(void)unused;
}

/* A kernel of the program: it runs when the stream is released. */
static void launch(void)
{
	gm_sim_hold(stream);
	gm_heap_launch(site.heap, stream, NULL);
	gm_sim_launch(stream, nothing, NULL);
	gm_heap_launched(site.heap, stream, true, NULL);
}

/* --- a launch while the thread is parked --- */

static unsigned naps_parked, naps_attending, bell;

/* A launch call begins in the second nap, and returns in the next one, when its kernel has
 * ended. */
static void sleep_by_blocked_launch(struct gm_heap_host *heap, uint64_t ns)
{
	bool attending = gm_heap_in_flight(heap);
	TAP_OK(attending || ns == NAP, "naps are short enough for a device that wants a beat");
	naps_attending += attending;
	naps_parked += !attending;
	if (attending) {
		gm_heap_launched(heap, stream, false, NULL);
		bell = gm_worker_bell(&heap->service);
	} else if (naps_parked == 2) {
		gm_heap_launch(heap, stream, NULL);
		TAP_IS(gm_worker_bell(&heap->service), bell, "a launch rings no bell beforehand");
	} else if (naps_parked == 4) {
		atomic_store(&heap->stopped, true);
	}
}

static void sees_a_launch_that_blocks(void)
{
	site.heap->config.sleep = sleep_by_blocked_launch;
	atomic_store(&site.heap->service.running, 1); /* the test is the thread */
	bell = gm_worker_bell(&site.heap->service);
	service_run(site.heap);
	TAP_IS(naps_attending, 1, "the parked thread attends to a launch that has not returned");
	TAP_IS(naps_parked, 4, "the thread parks again");
	atomic_store(&site.heap->stopped, false);
	site.heap->config.sleep = NULL;
}

/* A launch rings only for a parked thread: the bell costs a system call. */
static void rings_if_parked(void)
{
	gm_sim_hold(stream);
	atomic_store(&site.heap->service.running, 1); /* imitates a thread that does nothing */
	for (int parked = 1; parked >= 0; parked--) {
		site.heap->parked = parked;
		bell = gm_worker_bell(&site.heap->service);
		gm_heap_launch(site.heap, stream, NULL);
		gm_heap_launched(site.heap, stream, false, NULL);
		TAP_IS(gm_worker_bell(&site.heap->service) - bell, (unsigned)parked,
		       parked ? "a launch wakes a parked thread"
			      : "a launch does not wake a running thread");
		TAP_OK(!site.heap->parked, "the thread is not parked after a launch");
	}
	atomic_store(&site.heap->service.running, 0);
	gm_sim_release(stream, (unsigned)-1);
}

/* --- a launch before the last check --- */

static unsigned locks_to_end; /* locks that the thread has yet to take; 0: not counted */
static bool launched, attended;
static unsigned parked_naps;

static void taken_by_test(struct gm_lock *lock)
{
	if (locks_to_end && --locks_to_end == 0) {
		launched = true;
		launch();
	}
	gm_lock_take(lock);
}

/* The thread sleeps while a kernel is in flight; the kernel ends then, and the thread lingers. */
static void sleep_by_test(struct gm_heap_host *heap, uint64_t ns)
{
	if (gm_heap_in_flight(heap)) {
		attended |= launched;
		gm_sim_release(stream, (unsigned)-1);
	} else if (ns == NAP && !launched && ++parked_naps == LINGER_NAPS) {
		locks_to_end = 2; /* heap_is_busy, then the last lock */
	}
}

static void stays_for_a_launch(void)
{
	site.heap->config.sleep = sleep_by_test;
	atomic_store(&site.heap->service.running, 1); /* the test is the thread */
	launch();
	service_run(site.heap);
	TAP_OK(launched, "a kernel is launched when the thread has seen that nothing is in flight");
	TAP_OK(attended, "the thread stays for a late launch");
	TAP_IS(atomic_load(&site.heap->service.running), 0, "the thread ends after that launch");
	TAP_OK(!gm_heap_in_flight(site.heap), "nothing is in flight when the thread ends");
	site.heap->config.sleep = NULL;
	gm_sim_release(stream, (unsigned)-1);
}

/* --- the last thread --- */

static GM_TLS bool guarded;

static void guard(bool up)
{
	guarded = up;
}

#ifdef __SANITIZE_THREAD__
enum { HAS_THREAD = true }; /* the sanitizer's own, so that ours is never the last */
#else
enum { HAS_THREAD = false };
#endif

/* Exit handlers may rely on this state. */
static void handler(void)
{
	volatile char room[MIB];
	sigset_t blocked;
	for (size_t i = 0; i < sizeof room; i += 1024)
		room[i] = 1;
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	_exit(sigismember(&blocked, SIGINT) ? 3 : guarded ? 4 : 7);
}

static void child(void)
{
	site.heap->config.guard = guard;
	atexit(handler);
	launch(); /* the kernel never ends */
	pthread_exit(NULL);
}

static void is_no_process(void)
{
	int status = -1;
	pid_t pid, ended = 0;
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		child();
	for (unsigned i = 0; pid > 0 && i < 6000 && (ended = waitpid(pid, &status, WNOHANG)) == 0;
	     i++)
		usleep(10000);
	if (!TAP_IS(ended, pid, "a process ends with its last thread but ours"))
		kill(pid, SIGKILL);
	TAP_OK(WIFEXITED(status) && WEXITSTATUS(status) == 7,
	       "exit handlers find stack, signals and calls as in any thread: %d", status);
}

int main(void)
{
	site_make(&site, "512M", 256 * MIB, NULL);
	drv(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING);
	if (!HAS_THREAD)
		is_no_process(); /* before there are other threads */
	sees_a_launch_that_blocks();
	rings_if_parked();
	stays_for_a_launch();
	drv(cuStreamDestroy_v2)(stream);
	site_close(&site, "ends");
	return tap_done();
}
