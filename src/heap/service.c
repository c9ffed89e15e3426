/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who answers the mailbox of a heap, and when: a thread that lives while kernels that may allocate
 * are in flight, and LINGER longer, asleep. It knows of a kernel's end by a word that the GPU
 * writes behind it, so that it makes no call of the driver but to grow: in one of those it may
 * meet a lock that another thread of the program holds while it waits for the very kernel.
 *
 * While lanes ask it spins; from then on it sleeps for a share of the time that nobody has asked,
 * up to NAP, at which an hour takes 72,000 looks at one word.
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/msg.h"
#include "heap/host.h"

#define STACK ((size_t)256 << 10)
#define SPIN 200000u	       /* ns after a lane has asked */
#define LEAST_NAP 20000u       /* ns */
#define NAP 50000000u	       /* ns; a second without a beat is too long for the device */
#define NAP_SHARE 16	       /* of the time without a want */
#define LINGER 1000000000u     /* ns */
#define EXIT_WAITS 1000000000u /* ns at most: whoever exits may hold a lock of the driver */

static atomic_bool exiting;
static atomic_uint calling;    /* threads that may be calling the driver; a futex */
static atomic_uint generation; /* forks between the first process and this one */

/* --- against exit: either the thread sees `exiting`, or exit sees `calling` --- */

static void wake(atomic_uint *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Until *word is not `seen` any more, for `ns` at most; or for no reason. */
static void wait_while(atomic_uint *word, unsigned seen, uint64_t ns)
{
	struct timespec left = {.tv_sec = (time_t)(ns / 1000000000u),
				.tv_nsec = (long)(ns % 1000000000u)};
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &left, NULL, 0);
}

unsigned gm_heap_generation(void)
{
	return atomic_load(&generation);
}

bool gm_heap_is_ours(const struct gm_heap_host *heap)
{
	return heap->generation == atomic_load(&generation);
}

void gm_heap_end_calls(void)
{
	if (atomic_fetch_sub(&calling, 1) == 1 && atomic_load(&exiting))
		wake(&calling);
}

bool gm_heap_begin_calls(const struct gm_heap_host *heap)
{
	atomic_fetch_add(&calling, 1);
	if (!atomic_load(&exiting) && gm_heap_is_ours(heap))
		return true;
	gm_heap_end_calls();
	return false;
}

void gm_heap_exit(void)
{
	uint64_t end = gm_clock_ns() + EXIT_WAITS, now;
	unsigned busy;
	atomic_store(&exiting, true);
	while ((busy = atomic_load(&calling)) && (now = gm_clock_ns()) < end)
		wait_while(&calling, busy, end - now);
}

void gm_heap_forget_all(void)
{
	atomic_store(&exiting, false);
	atomic_store(&calling, 0);
	atomic_fetch_add(&generation, 1);
	gm_heap_look_forget();
}

/* --- the thread --- */

static uint64_t now_of(const struct gm_heap_host *heap)
{
	return heap->config.clock ? heap->config.clock() : gm_clock_ns();
}

static void nap(struct gm_heap_host *heap, unsigned bell, uint64_t ns)
{
	if (heap->config.sleep)
		heap->config.sleep(heap, ns);
	else
		wait_while(&heap->bell, bell, ns);
}

static bool is_over(const struct gm_heap_host *heap)
{
	return atomic_load(&heap->stopped) || atomic_load(&exiting);
}

/* While kernels are in flight. */
static void attend(struct gm_heap_host *heap)
{
	uint64_t asked = 0, began = now_of(heap);
	while (!is_over(heap)) {
		unsigned bell = atomic_load(&heap->bell);
		uint64_t now = now_of(heap);
		if (gm_heap_answer(heap))
			asked = began = now;
		else if (asked && now - asked < SPIN)
			continue;
		else if (!gm_heap_in_flight(heap))
			break;
		else {
			uint64_t ns = (now - began) / NAP_SHARE;
			nap(heap, bell, ns < LEAST_NAP ? LEAST_NAP : ns > NAP ? NAP : ns);
		}
	}
}

/* Is nothing in flight? Then the heap is idle, from now on if it was not before. */
static bool note_idle(struct gm_heap_host *heap)
{
	uint64_t now = now_of(heap);
	gm_lock_take(&heap->lock);
	bool idle = !gm_heap_is_in_flight(heap), news = idle && heap->busy;
	if (news) {
		heap->busy = false;
		heap->idle_since = now;
	}
	gm_lock_release(&heap->lock);
	if (news && heap->config.idle && gm_heap_trim_next(heap) != UINT64_MAX)
		heap->config.idle(heap->config.idle_arg);
	return idle;
}

static bool is_busy(struct gm_heap_host *heap)
{
	gm_lock_take(&heap->lock);
	bool busy = heap->busy;
	gm_lock_release(&heap->lock);
	return busy;
}

void gm_heap_serve(struct gm_heap_host *heap)
{
	do {
		attend(heap);
		unsigned bell = atomic_load(&heap->bell);
		if (!is_over(heap) && note_idle(heap))
			nap(heap, bell, LINGER);
	} while (!is_over(heap) && is_busy(heap));
}

static void *run(void *arg)
{
	struct gm_heap_host *heap = arg;
	bool again;
	prctl(PR_SET_NAME, "gpumem-heap");
	prctl(PR_SET_TIMERSLACK, 1000ul);
	if (heap->config.thread)
		heap->config.thread();
	do {
		gm_heap_serve(heap);
		/* Whoever launches from here on makes another thread, or is seen here. */
		gm_lock_take(&heap->lock);
		again = !is_over(heap) && heap->busy;
		if (!again)
			atomic_store(&heap->alive, 0);
		gm_lock_release(&heap->lock);
	} while (again);
	wake(&heap->alive);
	return NULL;
}

static int make_thread(struct gm_heap_host *heap, size_t stack)
{
	pthread_attr_t attr;
	pthread_t thread;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (stack)
		pthread_attr_setstacksize(&attr, stack);
	int error = pthread_create(&thread, &attr, run, heap);
	pthread_attr_destroy(&attr);
	return error;
}

static void start(struct gm_heap_host *heap)
{
	sigset_t all, before;
	if (is_over(heap) || atomic_exchange(&heap->alive, 1))
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int error = make_thread(heap, STACK);
	if (error == EINVAL) /* the program has much thread-local memory */
		error = make_thread(heap, 0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!error)
		return;
	atomic_store(&heap->alive, 0);
	GM_MSG_ONCE(GM_MSG_WARN, "no thread for the device heap: %s; it does not grow",
		    strerror(error));
}

static void ring(struct gm_heap_host *heap)
{
	atomic_fetch_add(&heap->bell, 1);
	wake(&heap->bell);
}

void gm_heap_wake(struct gm_heap_host *heap)
{
	start(heap);
	ring(heap);
}

void gm_heap_stop(struct gm_heap_host *heap)
{
	atomic_store(&heap->stopped, true);
	if (!gm_heap_is_ours(heap))
		return;
	ring(heap);
	while (atomic_load(&heap->alive))
		wait_while(&heap->alive, 1, LINGER);
	/* The thread's last step was to let go of the lock. */
	gm_lock_take(&heap->lock);
	gm_lock_release(&heap->lock);
}

void gm_heap_resume(struct gm_heap_host *heap)
{
	if (!gm_heap_is_ours(heap))
		return;
	atomic_store(&heap->stopped, false);
	gm_lock_take(&heap->lock);
	if (heap->busy)
		gm_heap_wake(heap);
	gm_lock_release(&heap->lock);
}
