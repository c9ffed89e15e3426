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

/* Does the steps of the preload for a launch. */
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
	TAP_IS(freed(), GM_ORDER_EARLY, "without work a block is reused at once");
	TAP_OK(!ops->is_hot(), "such a block is not hot");
	submit(stream[0], here->key);
	TAP_IS(gm_order_sole(), key_of(stream[0]), "one stream has work");
	TAP_IS(freed(), GM_ORDER_EARLY, "a block is reused at once while one stream has work");
	TAP_OK(ops->is_hot(), "a block freed while one stream has work is hot");
	TAP_IS(ops->take(), 0, "an allocation gets the hot block");
	unsigned recorded = gm_sim_calls("cuCtxRecordEvent");
	TAP_IS(ops->take(), 0, "a second allocation gets one, too");
	TAP_IS(gm_sim_calls("cuCtxRecordEvent"), recorded, "both are covered by the same event");
	TAP_IS(ops->free(here->key + 1), GM_ORDER_CONTEXT, "a block of another context waits");
	ops->cool(false);
	TAP_OK(ops->is_hot(), "a block stays hot while the work is pending");
	gm_sim_release(stream[0], -1u);
	ops->cool(false);
	TAP_OK(!ops->is_hot(), "it is not hot after the work has ended");
}

static void several_streams(void)
{
	start();
	submit(stream[0], here->key);
	submit(stream[1], here->key);
	TAP_IS(gm_order_sole(), GM_ORDER_MANY, "two streams have work");
	TAP_IS(freed(), GM_ORDER_STREAMS, "a block waits while two streams have work");
	TAP_OK(!ops->is_hot(), "a block that waits is not hot");
	free_many();
	TAP_IS(gm_order_sole(), GM_ORDER_MANY, "two streams stay known while the work is pending");
	gm_sim_release(stream[1], -1u);
	free_many();
	TAP_IS(gm_order_sole(), GM_ORDER_MANY, "both streams have to end");
	gm_sim_release(stream[0], -1u);
	free_many();
	TAP_IS(gm_order_sole(), GM_ORDER_NONE, "no stream is known after both have ended");
	submit(stream[1], here->key);
	TAP_IS(gm_order_sole(), key_of(stream[1]), "later one stream alone has work again");
}

/* New work of a stream while the work of others is being polled. */
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
	TAP_IS(gm_order_sole(), key_of(stream[2]),
	       "a stream that submits during the poll is the only one");
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
	TAP_IS(gm_order_sole(), GM_ORDER_MANY,
	       "two streams that submit during the poll are not one");
}

/* A thread inside a submission may be about to submit work that is not recorded yet. */
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
	TAP_IS(gm_order_sole(), GM_ORDER_NONE, "after the submission no stream has work");
}

static void handles(void)
{
	start();
	submit(stream[0], here->key);
	TAP_IS(freed(), GM_ORDER_EARLY, "a block of the stream is reused at once");
	gm_order_stream_ends(stream[0]);
	submit(stream[0], here->key);
	TAP_IS(gm_order_sole(), GM_ORDER_MANY, "a handle that comes back is another stream");
	TAP_IS(freed(), GM_ORDER_STREAMS, "a block waits for the work of the ended stream");
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
	TAP_IS(gm_order_sole(), GM_ORDER_MANY,
	       "a reused handle is another stream during a poll, too");
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
	TAP_IS(gm_sim_calls("cuStreamWaitEvent"), n + 1, "another stream waits");
	submit(stream[1], here->key);
	TAP_IS(gm_sim_calls("cuStreamWaitEvent"), n + 1, "another stream waits once");
	submit(stream[2], here->key);
	TAP_IS(gm_sim_calls("cuStreamWaitEvent"), n + 2, "each further stream waits");
	gm_order_stream_ends(stream[2]);
	submit(stream[2], here->key);
	TAP_IS(gm_sim_calls("cuStreamWaitEvent"), n + 3, "a stream with a reused handle waits");
	gm_order_stream_ends(stream[0]);
	submit(stream[0], here->key);
	TAP_IS(gm_sim_calls("cuStreamWaitEvent"), n + 4,
	       "the stream of the work waits for other hot work");
	TAP_OK(gm_order_suspect_next() != UINT64_MAX, "a wait is watched");
	gm_order_suspect(UINT64_MAX - 1);
	TAP_IS(gm_order_suspect_next(), UINT64_MAX, "a suspect wait is reported once");
	for (unsigned i = 0; i < 3; i++)
		gm_sim_release(stream[i], -1u);
}

/* An allocation asks whether the work on hot memory has ended, and gives up after
 * GM_ORDER_PATIENCE. */
static void run_has_ended(void)
{
	start();
	submit(stream[0], here->key);
	freed();
	submit(stream[1], here->key);
	TAP_OK(ops->is_hot(), "a block of a run that has ended is hot");
	TAP_IS(ops->take(), here->key, "an allocation has to wait for the work");
	gm_sim_release(stream[0], -1u);
	gm_sim_release(stream[1], -1u);
	TAP_IS(ops->take(), 0, "another allocation gets the block when the work has ended");
	TAP_OK(!ops->is_hot(), "memory is not hot after the work has been seen to end");
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
	TAP_IS(freed(), GM_ORDER_CAPTURE, "a block waits while a capture is open");
	gm_fence_capture_ended(here);
	TAP_IS(freed(), GM_ORDER_EARLY, "a block does not wait after the capture");
	gm_fence_capture_missed();
	TAP_IS(freed(), GM_ORDER_CAPTURE, "a block waits if some captures are not counted");
}

static void ends(void)
{
	start();
	submit(stream[0], here->key);
	freed();
	gm_order_context_gone(here->key);
	TAP_OK(!ops->is_hot(), "memory is not hot after its context has ended");
	TAP_IS(gm_order_sole(), GM_ORDER_NONE, "the stream ends with its context");
	start();
	submit(stream[0], here->key);
	gm_order_forbid("this test", "says so");
	TAP_IS(freed(), GM_ORDER_OFF, "a block waits if the order is turned off");
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
	run_has_ended();
	captures();
	ends();
	return tap_done();
}
