/* SPDX-License-Identifier: BSD-3-Clause */
#include "context/order.h"

#include "context/fence.h"
#include "context/poll.h"

#include "on_sim.h"

static const struct gm_order_ops *ops;
static struct gm_context *here;
static CUstream stream[3];

static bool may(void)
{
	return true;
}

static void nothing(void *arg)
{
	(void)arg;
}

static uint64_t key_of(CUstream s)
{
	return (uint64_t)(uintptr_t)s;
}

/* As the preload does for a launch. */
static void submit(CUstream s, uint64_t context)
{
	const struct gm_order_stream as = {s, key_of(s), context};
	if (!gm_order_enter(as.key))
		gm_order_submit(&as, false);
	gm_sim_launch(s, nothing, NULL);
	gm_order_leave();
}

static void start(void)
{
	CUresult result;
	gm_order_forget();
	gm_context_forget_all();
	gm_fence_forget_all();
	gm_fence_captures_counted();
	sim_start("13.0", "1");
	sim_set_current(sim_context(0));
	here = gm_context_current(&sim, &result);
	for (unsigned i = 0; i < 3; i++) {
		sim.cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING);
		gm_sim_hold(stream[i]);
	}
	ops = gm_order_start(&sim, may);
}

static enum gm_order_free freed(void)
{
	return ops->free(here->key);
}

/* Frees ask whether the work of several streams has ended. */
static void free_many(void)
{
	for (unsigned i = 0; i < 1000 && gm_order_sole() == GM_ORDER_MANY; i++)
		freed();
}

static void one_stream(void)
{
	start();
	TAP_IS(freed(), GM_ORDER_EARLY, "nothing was submitted: a block is used again at once");
	TAP_OK(!ops->is_hot(), "and no work uses it");
	submit(stream[0], here->key);
	TAP_IS(gm_order_sole(), key_of(stream[0]), "one stream has work");
	TAP_IS(freed(), GM_ORDER_EARLY, "a block is used again at once");
	TAP_OK(ops->is_hot(), "and is hot");
	TAP_IS(ops->take(), 0, "an allocation may have it");
	unsigned recorded = gm_sim_calls("cuCtxRecordEvent");
	TAP_IS(ops->take(), 0, "another one, too,");
	TAP_IS(gm_sim_calls("cuCtxRecordEvent"), recorded, "behind the same event");
	TAP_IS(ops->free(here->key + 1), GM_ORDER_CONTEXT, "a block of another context waits");
	ops->cool(false);
	TAP_OK(ops->is_hot(), "it stays hot while the work is pending");
	gm_sim_release(stream[0], -1u);
	ops->cool(false);
	TAP_OK(!ops->is_hot(), "and no longer");
}

static void several_streams(void)
{
	start();
	submit(stream[0], here->key);
	submit(stream[1], here->key);
	TAP_IS(gm_order_sole(), GM_ORDER_MANY, "two streams have work");
	TAP_IS(freed(), GM_ORDER_STREAMS, "a block waits");
	TAP_OK(!ops->is_hot(), "and is not hot");
	free_many();
	TAP_IS(gm_order_sole(), GM_ORDER_MANY, "as long as the work is pending");
	gm_sim_release(stream[1], -1u);
	free_many();
	TAP_IS(gm_order_sole(), GM_ORDER_MANY, "of both,");
	gm_sim_release(stream[0], -1u);
	free_many();
	TAP_IS(gm_order_sole(), GM_ORDER_NONE, "and no longer");
	submit(stream[1], here->key);
	TAP_IS(gm_order_sole(), key_of(stream[1]), "then one stream is alone again");
}

/* Work of a stream that comes while the work of others is asked about. */
static void window(void)
{
	start();
	submit(stream[0], here->key);
	submit(stream[1], here->key);
	freed();
	submit(stream[2], here->key);
	gm_sim_release(stream[0], -1u);
	gm_sim_release(stream[1], -1u);
	free_many();
	TAP_IS(gm_order_sole(), key_of(stream[2]), "a stream that comes meanwhile is the one");
	gm_sim_hold(stream[0]);
	gm_sim_hold(stream[1]);
	submit(stream[0], here->key);
	freed();
	submit(stream[0], here->key);
	submit(stream[1], here->key);
	gm_sim_release(stream[2], -1u);
	gm_sim_release(stream[0], 1);
	for (unsigned i = 0; i < 200; i++)
		freed();
	TAP_IS(gm_order_sole(), GM_ORDER_MANY, "two that come meanwhile are not");
}

/* A thread that is in a submission may be about to submit what no one has noted. */
static void in_submission(void)
{
	start();
	submit(stream[0], here->key);
	submit(stream[1], here->key);
	gm_sim_release(stream[0], -1u);
	gm_sim_release(stream[1], -1u);
	gm_order_enter(key_of(stream[0]));
	free_many();
	TAP_IS(gm_order_sole(), GM_ORDER_MANY, "no stream is alone while a thread submits");
	gm_order_leave();
	free_many();
	TAP_IS(gm_order_sole(), GM_ORDER_NONE, "but after it");
}

static void handles(void)
{
	start();
	submit(stream[0], here->key);
	TAP_IS(freed(), GM_ORDER_EARLY, "a block of the stream");
	gm_order_stream_ends(stream[0]);
	submit(stream[0], here->key);
	TAP_IS(gm_order_sole(), GM_ORDER_MANY, "a handle that comes back is another stream");
	TAP_IS(freed(), GM_ORDER_STREAMS, "a block waits for the work of the one that has ended");
	start();
	submit(stream[0], here->key);
	submit(stream[1], here->key);
	freed();
	submit(stream[2], here->key);
	gm_order_stream_ends(stream[2]);
	submit(stream[2], here->key);
	gm_sim_release(stream[0], -1u);
	gm_sim_release(stream[1], -1u);
	for (unsigned i = 0; i < 3; i++)
		freed();
	TAP_IS(gm_order_sole(), GM_ORDER_MANY, "also while others are asked about");
}

static void waits(void)
{
	start();
	submit(stream[0], here->key);
	freed();
	ops->take();
	unsigned n = gm_sim_calls("cuStreamWaitEvent");
	submit(stream[0], here->key);
	TAP_IS(gm_sim_calls("cuStreamWaitEvent"), n, "the stream itself does not wait");
	submit(stream[1], here->key);
	TAP_IS(gm_sim_calls("cuStreamWaitEvent"), n + 1, "another one does,");
	submit(stream[1], here->key);
	TAP_IS(gm_sim_calls("cuStreamWaitEvent"), n + 1, "once,");
	submit(stream[2], here->key);
	TAP_IS(gm_sim_calls("cuStreamWaitEvent"), n + 2, "and each further one");
	gm_order_stream_ends(stream[2]);
	submit(stream[2], here->key);
	TAP_IS(gm_sim_calls("cuStreamWaitEvent"), n + 3, "a handle that came back as well");
	TAP_OK(gm_order_suspect_next() != UINT64_MAX, "a wait is watched");
	gm_order_suspect(UINT64_MAX - 1);
	TAP_IS(gm_order_suspect_next(), UINT64_MAX, "and reported once");
	for (unsigned i = 0; i < 3; i++)
		gm_sim_release(stream[i], -1u);
}

static void captures(void)
{
	start();
	submit(stream[0], here->key);
	gm_sim_release(stream[0], -1u);
	freed();
	gm_order_capture_begin();
	TAP_OK(!ops->is_hot(), "no memory is hot when a capture begins");
	TAP_IS(freed(), GM_ORDER_CAPTURE, "a block waits while a capture begins,");
	gm_fence_capture_begin(here);
	gm_fence_capture_begun(here, true);
	gm_order_capture_begun();
	TAP_IS(freed(), GM_ORDER_CAPTURE, "while one is open,");
	gm_fence_capture_ended(here);
	TAP_IS(freed(), GM_ORDER_EARLY, "and no longer");
	gm_fence_capture_missed();
	TAP_IS(freed(), GM_ORDER_CAPTURE, "and where some are not counted");
}

static void ends(void)
{
	start();
	submit(stream[0], here->key);
	freed();
	gm_order_context_gone(here->key);
	TAP_OK(!ops->is_hot(), "with its context memory cools");
	TAP_IS(gm_order_sole(), GM_ORDER_NONE, "and its stream ends");
	start();
	submit(stream[0], here->key);
	gm_order_forbid("this test", "says so");
	TAP_IS(freed(), GM_ORDER_OFF, "where it is forbidden a block waits");
	gm_order_forget();
	sim_start("12.0", "1");
	TAP_OK(!gm_order_start(&sim, may), "a driver without such events has no order");
	gm_order_forget();
}

int main(void)
{
	one_stream();
	several_streams();
	window();
	in_submission();
	handles();
	waits();
	captures();
	ends();
	return tap_done();
}
