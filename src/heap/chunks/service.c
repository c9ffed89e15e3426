/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The service thread of a heap lives while kernels that may allocate are in flight, and LINGER_NAPS
 * longer, parked. A word that the GPU writes behind a kernel tells its end, so the thread calls the
 * driver only to grow, or to map the next chunk: such a call may wait for a lock that another
 * thread of the program holds while it waits for that very kernel.
 *
 *   a lane asks       SPIN            asleep, for 1/NAP_SHARE of the time since a lane asked last
 *   |-----------------|--------|-----------|---------------|---- ... ---| NAP at most
 *
 * At NAP an hour costs 72,000 reads of one word.
 *
 * A launch wakes a parked thread when the kernel is in its stream, because the system call may take
 * longer than the launch. A launch that does not return before its kernel has ended rings too late
 * (CUDA_LAUNCH_BLOCKING, or a full stream): the parked thread sees it within a NAP.
 */
#include "heap/chunks/chunks.h"

#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/msg.h"
#include "heap/flight.h"
#include "heap/process.h"

#define SPIN 200000u	 /* ns after a lane has asked */
#define LEAST_NAP 20000u /* ns */
#define NAP 50000000u	 /* ns; a second without a beat is too long for the device */
#define NAP_SHARE 16	 /* of the time since a lane asked */
#define LINGER_NAPS 20	 /* a second */

uint64_t gm_heap_now(const struct gm_heap_host *heap)
{
	return heap->config.clock ? heap->config.clock() : gm_clock_ns();
}

/* Sleep until the bell rings, for `ns` at most. False: the program's threads have ended. */
static bool service_sleep(struct gm_heap_host *heap, unsigned bell, uint64_t ns)
{
	if (!heap->config.sleep)
		return gm_worker_sleep(&heap->service, bell, ns, NAP);
	heap->config.sleep(heap, ns);
	return true;
}

static bool service_is_over(const struct gm_heap_host *heap)
{
	return atomic_load(&heap->stopped) || gm_heap_is_exiting();
}

void gm_heap_tell(struct gm_heap_host *heap)
{
	if (!heap->config.idle)
		return;
	gm_lock_take(&heap->lock);
	bool told = heap->told;
	gm_lock_release(&heap->lock);
	if (!told && gm_heap_trim_next(heap) != UINT64_MAX)
		heap->config.idle(heap->config.idle_arg);
}

/* Answer the mailbox while kernels are in flight. False: the program's threads have ended. */
static bool service_attend(struct gm_heap_host *heap)
{
	uint64_t asked = 0, began = gm_heap_now(heap);
	gm_heap_tell(heap);
	while (!service_is_over(heap)) {
		unsigned bell = gm_worker_bell(&heap->service);
		uint64_t now = gm_heap_now(heap);
		if (gm_heap_answer(heap))
			asked = began = now;
		else if (gm_heap_map_ahead(heap))
			continue;
		else if (asked && now - asked < SPIN)
			continue;
		else if (!gm_heap_in_flight(heap))
			break;
		else {
			uint64_t ns = (now - began) / NAP_SHARE;
			if (!service_sleep(heap, bell,
					   ns < LEAST_NAP ? LEAST_NAP
					   : ns > NAP	  ? NAP
							  : ns))
				return false;
		}
	}
	return true;
}

/* True: no kernel is in flight. The heap is then idle, since now if it was busy so far, and the
 * thread is about to park. */
static bool service_mark_idle(struct gm_heap_host *heap)
{
	uint64_t now = gm_heap_now(heap);
	gm_lock_take(&heap->lock);
	bool idle = !gm_heap_is_in_flight(heap), news = idle && heap->busy;
	heap->parked = idle;
	if (news) {
		heap->busy = false;
		heap->idle_since = now;
	}
	gm_lock_release(&heap->lock);
	if (news && heap->config.idle && gm_heap_trim_next(heap) != UINT64_MAX)
		heap->config.idle(heap->config.idle_arg);
	return idle;
}

static bool heap_is_busy(struct gm_heap_host *heap)
{
	gm_lock_take(&heap->lock);
	bool busy = heap->busy;
	gm_lock_release(&heap->lock);
	return busy;
}

/* Wait for a launch. False: the program's threads have ended. */
static bool service_park(struct gm_heap_host *heap, unsigned bell)
{
	bool wanted = true;
	for (unsigned i = 0; i < LINGER_NAPS && wanted && !service_is_over(heap); i++) {
		if (heap_is_busy(heap))
			break;
		wanted = service_sleep(heap, bell, NAP);
	}
	return wanted;
}

bool gm_heap_serve(struct gm_heap_host *heap)
{
	bool wanted = true;
	do {
		wanted = service_attend(heap);
		unsigned bell = gm_worker_bell(&heap->service);
		if (wanted && !service_is_over(heap) && service_mark_idle(heap))
			wanted = service_park(heap, bell);
	} while (wanted && !service_is_over(heap) && heap_is_busy(heap));
	/* Without a thread that trims, no other thread returns the slack. */
	if (!heap->config.idle && wanted && gm_heap_begin_calls(heap)) {
		gm_heap_drop_slack(heap);
		gm_heap_end_calls();
	}
	return wanted;
}

static void service_run(void *arg)
{
	struct gm_heap_host *heap = arg;
	void (*guard)(bool up) = heap->config.guard;
	bool again;
	prctl(PR_SET_TIMERSLACK, 1000ul);
	if (guard)
		guard(true);
	do {
		bool wanted = gm_heap_serve(heap);
		/* A launch from here on starts another thread, or is seen by this one. */
		gm_lock_take(&heap->lock);
		again = wanted && !service_is_over(heap) && heap->busy;
		if (!again)
			gm_worker_end(&heap->service);
		gm_lock_release(&heap->lock);
	} while (again);
	if (guard)
		guard(false);
}

void gm_heap_service_start(struct gm_heap_host *heap)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	if (service_is_over(heap))
		return;
	int error = gm_worker_start(&heap->service, "gpumem-heap", service_run, heap);
	if (!error)
		return;
	gm_worker_end(&heap->service); /* the next launch tries again */
	GM_MSG_ONCE(GM_MSG_WARN, "no thread for the device heap: %s; it does not grow",
		    strerror(error));
}

void gm_heap_stop(struct gm_heap_host *heap)
{
	atomic_store(&heap->stopped, true);
	if (!gm_heap_is_ours(heap))
		return;
	gm_worker_wake(&heap->service);
	gm_worker_join(&heap->service);
	/* The thread's last step is to release the lock. */
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
		gm_heap_service_start(heap);
	gm_lock_release(&heap->lock);
}
