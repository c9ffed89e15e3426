/* SPDX-License-Identifier: BSD-3-Clause */
/* One thread polls a context for all threads that asked before its poll began (context/poll.c). */
#include "context/fence.h"
#include "context/poll.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>

#include "context/poll.h"

#include "on_sim.h"

static struct gm_context *here;
static CUresult (*record_event)(CUcontext ctx, CUevent event);
static atomic_int passed;

static bool fence(void)
{
	enum gm_fenced fenced;
	return gm_fence(&sim, here->key, true, &fenced) == CUDA_SUCCESS &&
	       fenced == GM_FENCED_PASSED;
}

static void *fence_elsewhere(void *arg)
{
	atomic_store(&passed, fence() ? 1 : -1);
	return arg;
}

static void nothing(void *arg)
{
	(void)arg;
}

static atomic_uint polls; /* begun */
static pthread_t poller;
static atomic_uint by_others;
static void (*meanwhile)(void);

/* In the first poll: work submitted after the record is not covered by it. */
static CUresult count_record(CUcontext ctx, CUevent event)
{
	CUresult result = record_event(ctx, event);
	atomic_fetch_add(&by_others, !pthread_equal(pthread_self(), poller));
	if (atomic_fetch_add(&polls, 1) == 0)
		meanwhile();
	return result;
}

static pthread_t follower;

static void start_follower(void)
{
	atomic_store(&passed, 0);
	pthread_create(&follower, NULL, fence_elsewhere, NULL);
}

/* The other thread asks while this one polls, and waits for the next poll. */
static void come(void)
{
	uint64_t word = atomic_load(&here->poll.word);
	start_follower();
	while (atomic_load(&here->poll.wanted) <= word)
		sched_yield();
	TAP_IS(atomic_load(&here->poll.wanted), word + 3,
	       "a thread that comes during a poll waits for the next one");
	TAP_IS(atomic_load(&passed), 0, "a thread that asks during a poll does not use its result");
}

static CUstream stream;

static void come_with_work(void)
{
	gm_sim_launch(stream, nothing, NULL);
	come();
}

/* The polling thread is kept from running. */
static void wait_in_vain(void)
{
	start_follower();
	while (!atomic_load(&passed))
		sched_yield();
}

static void poll_with(void (*act)(void), unsigned patience)
{
	poller = pthread_self();
	atomic_store(&polls, 0);
	atomic_store(&by_others, 0);
	meanwhile = act;
	gm_poll_patience = patience;
	record_event = sim.cuCtxRecordEvent;
	sim.cuCtxRecordEvent = count_record;
	TAP_OK(fence(), "a poll succeeds while others act");
}

static void unhook(void)
{
	pthread_join(follower, NULL);
	sim.cuCtxRecordEvent = record_event;
	TAP_IS(atomic_load(&passed), 1, "the fence of the suspended thread passes");
}

static void shared(void)
{
	poll_with(come, UINT_MAX);
	unhook();
	TAP_IS(atomic_load(&polls), 2, "a fence asked for during a poll makes one more poll");
	TAP_IS(atomic_load(&by_others), 0, "the first thread makes the poll for the other one");
}

static void not_too_early(void)
{
	sim.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	gm_sim_hold(stream);
	poll_with(come_with_work, UINT_MAX);
	while (!gm_sim_waiters() && !atomic_load(&passed))
		sched_yield();
	TAP_IS(atomic_load(&passed), 0, "a thread's earlier launches are waited for");
	gm_sim_release(stream, -1u);
	unhook();
	sim.cuStreamDestroy_v2(stream);
}

static void in_vain(void)
{
	poll_with(wait_in_vain, 100);
	unhook();
	TAP_IS(atomic_load(&by_others), 1, "a suspended poller does not delay others");
}

static void want_many(void)
{
	atomic_store(&here->poll.wanted, atomic_load(&here->poll.word) + 1000);
}

static void not_for_ever(void)
{
	poll_with(want_many, 100);
	sim.cuCtxRecordEvent = record_event;
	TAP_IS(atomic_load(&polls), 4, "three are taken for others, however many want one");
}

int main(void)
{
	CUresult result;
	sim_start("13.0", "1");
	gm_fence_captures_counted();
	sim_set_current(sim_context(0));
	here = gm_context_current(&sim, &result);
	TAP_OK(here && fence(), "a fence in an idle context passes");
	shared();
	not_too_early();
	in_vain();
	not_for_ever();
	return tap_done();
}
