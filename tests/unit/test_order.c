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

/* A pool that only takes notes. */
static uint64_t numbered, passed;

static uint64_t number(void *pool)
{
	(void)pool;
	return ++numbered;
}

static void passes(void *pool, uint64_t context, uint64_t n)
{
	(void)pool;
	passed = context == here->key && n > passed ? n : passed;
}

static const struct gm_order_memory memory = {.number = number, .passed = passes};

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
	numbered = passed = 0;
	ops = gm_order_start(&sim, &memory, may);
}

static uint64_t run; /* of the last block that was freed */

/* Does the steps of the pool for a free. */
static enum gm_order_free freed(void)
{
	enum gm_order_free why = ops->free(here->key, &run);
	if (run)
		ops->heat(&numbered);
	return why;
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
	unsigned recorded = gm_sim_calls("cuCtxRecordEvent");
	TAP_IS(freed(), GM_ORDER_EARLY, "a block freed without work is reused at once");
	TAP_IS(run, 0, "a block freed without work is idle");
	submit(stream[0], here->key);
	TAP_IS(gm_order_sole(), key_of(stream[0]), "one stream has work");
	TAP_IS(gm_sim_calls("cuCtxRecordEvent"), recorded,
	       "no event is recorded without hot memory");
	TAP_IS(freed(), GM_ORDER_EARLY, "a block is reused at once while one stream has work");
	TAP_OK(run && run == *ops->run,
	       "a block freed while one stream has work is hot in its run");
	freed();
	TAP_OK(ops->take(run), "an allocation gets the hot block");
	TAP_OK(ops->take(run), "a second allocation gets a hot block, too");
	TAP_IS(gm_sim_calls("cuCtxRecordEvent"), recorded, "frees and allocations record no event");
	submit(stream[0], here->key);
	TAP_IS(gm_sim_calls("cuCtxRecordEvent"), recorded + 1,
	       "the next submission records one event for two blocks");
	submit(stream[0], here->key);
	TAP_IS(gm_sim_calls("cuCtxRecordEvent"), recorded + 1,
	       "a further submission records no event");
	uint64_t other;
	TAP_IS(ops->free(here->key + 1, &other), GM_ORDER_CONTEXT,
	       "a block of another context waits");
	ops->cool(false);
	TAP_IS(passed, 0, "memory stays hot while the work is pending");
	gm_sim_release(stream[0], 1);
	ops->cool(false);
	TAP_IS(passed, 1, "memory cools after the work from before the free, not all work");
	gm_sim_release(stream[0], -1u);
}

static void several_streams(void)
{
	start();
	submit(stream[0], here->key);
	submit(stream[1], here->key);
	TAP_IS(gm_order_sole(), GM_ORDER_MANY, "two streams have work");
	TAP_IS(freed(), GM_ORDER_STREAMS, "a block waits while two streams have work");
	TAP_IS(run, 0, "a block that waits is not hot");
	free_many();
	TAP_IS(gm_order_sole(), GM_ORDER_MANY, "two streams stay known while the work is pending");
	gm_sim_release(stream[1], -1u);
	free_many();
	TAP_IS(gm_order_sole(), GM_ORDER_MANY, "two streams are many until the second has ended");
	gm_sim_release(stream[0], -1u);
	free_many();
	TAP_IS(gm_order_sole(), GM_ORDER_NONE, "no stream is known after both have ended");
	submit(stream[1], here->key);
	TAP_IS(gm_order_sole(), key_of(stream[1]), "later one stream alone has work again");
	submit(stream[0], here->key);
	TAP_IS(gm_order_sole(), GM_ORDER_MANY, "two streams have got work again");
	TAP_IS(freed(), GM_ORDER_EARLY,
	       "the first free after both have ended is not deferred, for the GPU is idle");
	TAP_IS(run, 0, "a block freed on an idle GPU is idle");
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

static unsigned waits_n(void)
{
	return gm_sim_calls("cuStreamWaitEvent");
}

static void waits(void)
{
	start();
	submit(stream[0], here->key);
	freed();
	unsigned n = waits_n();
	ops->take(run);
	submit(stream[0], here->key);
	TAP_IS(waits_n(), n, "the stream itself does not wait");
	submit(stream[1], here->key);
	TAP_IS(waits_n(), n + 1, "another stream waits for reused memory");
	submit(stream[1], here->key);
	TAP_IS(waits_n(), n + 1, "another stream waits once for reused memory");
	submit(stream[2], here->key);
	TAP_IS(waits_n(), n + 2, "each further stream waits for reused memory");
	gm_order_stream_ends(stream[2]);
	submit(stream[2], here->key);
	TAP_IS(waits_n(), n + 3, "a stream with a reused handle waits");
	gm_order_stream_ends(stream[0]);
	submit(stream[0], here->key);
	TAP_IS(waits_n(), n + 4, "a stream with the handle of the freed block's stream waits");
	TAP_OK(gm_order_suspect_next() != UINT64_MAX, "the wait of a stream is watched");
	gm_order_suspect(UINT64_MAX - 1);
	TAP_IS(gm_order_suspect_next(), UINT64_MAX, "a suspect wait is reported once");
	for (unsigned i = 0; i < 3; i++)
		gm_sim_release(stream[i], -1u);
	start();
	submit(stream[0], here->key);
	freed();
	n = waits_n();
	submit(stream[1], here->key);
	TAP_IS(waits_n(), n, "no stream waits if no hot memory was handed out");
	for (unsigned i = 0; i < 3; i++)
		gm_sim_release(stream[i], -1u);
}

/* What the stream runs after the free is not waited for: it may wait for the other stream. */
static void waits_for_no_more(void)
{
	start();
	submit(stream[0], here->key);
	freed();
	submit(stream[0], here->key);
	ops->take(run);
	submit(stream[1], here->key);
	gm_sim_release(stream[1], -1u);
	gm_sim_release(stream[0], 1);
	TAP_IS(sim.cuStreamQuery(stream[1]), CUDA_SUCCESS,
	       "another stream goes on once the work from before the free has ended");
	gm_sim_release(stream[0], -1u);
}

static void run_has_ended(void)
{
	start();
	submit(stream[0], here->key);
	freed();
	unsigned recorded = gm_sim_calls("cuCtxRecordEvent");
	submit(stream[1], here->key);
	TAP_IS(gm_sim_calls("cuCtxRecordEvent"), recorded + 1, "the run ends with one event");
	TAP_OK(!ops->take(run), "an allocation does not get memory of a run that has ended");
	submit(stream[0], here->key);
	TAP_IS(gm_sim_calls("cuCtxRecordEvent"), recorded + 1, "further work records no event");
	gm_sim_release(stream[0], 1);
	ops->cool(false);
	TAP_IS(passed, 1, "the run's event waits for nothing of the other stream");
	gm_sim_release(stream[0], -1u);
	gm_sim_release(stream[1], -1u);
}

/* Work of the one stream between the allocation and the other stream's work. */
static void waits_after_own_work(void)
{
	start();
	submit(stream[0], here->key);
	freed();
	ops->take(run);
	submit(stream[0], here->key);
	freed();
	submit(stream[0], here->key);
	unsigned n = waits_n();
	submit(stream[1], here->key);
	TAP_IS(waits_n(), n + 1, "another stream waits after further work of the one stream, too");
	for (unsigned i = 0; i < 3; i++)
		gm_sim_release(stream[i], -1u);
}

/* Two threads: one gets hot memory, then the other submits; or the other way round. */
static void takes_before_and_after(void)
{
	start();
	submit(stream[0], here->key);
	freed();
	unsigned n = waits_n();
	TAP_OK(ops->take(run), "memory is handed out before another stream submits");
	submit(stream[1], here->key);
	TAP_IS(waits_n(), n + 1, "another stream waits for memory handed out before");
	submit(stream[0], here->key);
	TAP_IS(waits_n(), n + 1, "the stream of the run does not wait for itself afterwards");
	for (unsigned i = 0; i < 3; i++)
		gm_sim_release(stream[i], -1u);
}

static void captures(void)
{
	start();
	submit(stream[0], here->key);
	freed();
	ops->take(run);
	unsigned recorded = gm_sim_calls("cuCtxRecordEvent");
	gm_order_capture_begin();
	TAP_IS(gm_sim_calls("cuCtxRecordEvent"), recorded + 1,
	       "an event is recorded before a capture begins");
	TAP_IS(passed, 0, "the begin of a capture waits for no work");
	TAP_OK(!ops->take(run), "hot memory is out of reach from then on");
	TAP_IS(freed(), GM_ORDER_CAPTURE, "a block waits while a capture begins");
	gm_fence_capture_begin(here);
	gm_fence_capture_begun(here, true);
	gm_order_capture_begun();
	TAP_IS(freed(), GM_ORDER_CAPTURE, "a block waits while a capture is open");
	unsigned n = waits_n();
	submit(stream[1], here->key);
	TAP_IS(waits_n(), n + 1, "a stream that does not capture waits meanwhile");
	TAP_IS(gm_sim_calls("cuCtxRecordEvent"), recorded + 1, "no event is recorded meanwhile");
	gm_fence_capture_ended(here);
	for (unsigned i = 0; i < 3; i++)
		gm_sim_release(stream[i], -1u);
	free_many();
	TAP_IS(freed(), GM_ORDER_EARLY, "a block is reused at once some time after the capture");
	gm_fence_capture_missed();
	TAP_IS(freed(), GM_ORDER_CAPTURE, "a block waits if some captures are not counted");
}

/* Work of the stream that was alone before a capture, while a window is open after it. */
static void work_after_a_capture(void)
{
	start();
	submit(stream[0], here->key);
	gm_order_capture_begin();
	gm_order_capture_begun();
	TAP_IS(gm_order_sole(), GM_ORDER_MANY, "no stream is known to be alone after a capture");
	freed();
	submit(stream[0], here->key);
	gm_sim_release(stream[0], 1);
	for (unsigned i = 0; i < 200; i++)
		freed();
	TAP_OK(gm_order_sole() != GM_ORDER_NONE, "work submitted after a capture is not forgotten");
	gm_sim_release(stream[0], -1u);
}

static void unknown_streams(void)
{
	const struct gm_order_stream unknown = {NULL, GM_ORDER_MANY, 0};
	start();
	submit(stream[0], here->key);
	freed();
	ops->take(run);
	submit(stream[0], here->key);
	gm_sim_release(stream[0], 1);
	gm_order_enter(unknown.key);
	gm_order_submit(&unknown, false);
	gm_order_leave();
	TAP_IS(passed, 1, "before work of an unknown stream the host waits, for what was before");
	TAP_IS(gm_order_sole(), GM_ORDER_MANY, "an unknown stream ends the run");
	gm_sim_release(stream[0], -1u);
}

static void ends(void)
{
	start();
	submit(stream[0], here->key);
	freed();
	gm_order_context_gone(here->key);
	TAP_OK(!ops->take(run), "hot memory is out of reach after its context has ended");
	TAP_IS(gm_order_sole(), GM_ORDER_NONE, "the stream ends with its context");
	start();
	submit(stream[0], here->key);
	gm_order_forbid("this test", "says so");
	TAP_IS(freed(), GM_ORDER_OFF, "a block waits if the order is turned off");
	gm_order_forget();
	sim_start("12.0", "1");
	TAP_OK(!gm_order_start(&sim, &memory, may), "a driver without such events has no order");
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
	waits_for_no_more();
	run_has_ended();
	waits_after_own_work();
	takes_before_and_after();
	captures();
	work_after_a_capture();
	unknown_streams();
	ends();
	return tap_done();
}
