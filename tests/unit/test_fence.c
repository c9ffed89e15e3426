/* SPDX-License-Identifier: BSD-3-Clause */
#include "context/fence.h"

#include <pthread.h>
#include <sched.h>

#include "on_sim.h"

static struct gm_context *here;

static CUresult fence(bool native, enum gm_fenced *fenced)
{
	return gm_fence(&sim, here->key, native, fenced);
}

static bool counted; /* all captures are counted: fences of frees may take the short path */

static void start(const char *version)
{
	CUresult result;
	gm_context_forget_all();
	gm_fence_forget_all();
	if (counted)
		gm_fence_captures_counted();
	sim_start(version, "1");
	sim_set_current(sim_context(0));
	here = gm_context_current(&sim, &result);
}

/* --- waiting --- */

static atomic_int passed;

static void nothing(void *arg)
{
	(void)arg;
}

static void *fence_elsewhere(void *arg)
{
	enum gm_fenced fenced;
	CUresult result = fence(true, &fenced);
	atomic_store(&passed, result == CUDA_SUCCESS && fenced == GM_FENCED_PASSED ? 1 : -1);
	return arg;
}

static void waits_for_all_streams(void)
{
	CUstream stream;
	pthread_t thread;
	enum gm_fenced fenced;
	TAP_IS(fence(true, &fenced), CUDA_SUCCESS, "a fence in an idle context succeeds");
	TAP_IS(fenced, GM_FENCED_PASSED, "an idle context needs no wait");
	sim.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	gm_sim_hold(stream);
	gm_sim_launch(stream, nothing, NULL);
	atomic_store(&passed, 0);
	pthread_create(&thread, NULL, fence_elsewhere, NULL);
	while (!gm_sim_waiters() && !atomic_load(&passed))
		sched_yield();
	TAP_IS(atomic_load(&passed), 0, "work of a non-blocking stream is waited for");
	gm_sim_release(stream, -1u);
	pthread_join(thread, NULL);
	TAP_IS(atomic_load(&passed), 1, "the fence passes after that work");
	sim.cuStreamDestroy_v2(stream);
}

static void gone_contexts(void)
{
	enum gm_fenced fenced = GM_FENCED_LATER;
	TAP_IS(gm_fence(&sim, 4711, true, &fenced), CUDA_SUCCESS,
	       "a fence in an unknown context succeeds");
	TAP_IS(fenced, GM_FENCED_PASSED, "an unknown context is not waited for");
	gm_context_gone(here->handle);
	unsigned before = gm_sim_calls("cuCtxRecordEvent") + gm_sim_calls("cuCtxSynchronize");
	TAP_IS(fence(true, &fenced), CUDA_SUCCESS, "an ended context is not waited for");
	TAP_IS(gm_sim_calls("cuCtxRecordEvent") + gm_sim_calls("cuCtxSynchronize"), before,
	       "the driver is not asked about such contexts");
}

/* --- the twelve cases: the answer, and whether the capture survives --- */

enum question { ALLOCATE, FREE };

struct seen {
	CUresult answer, end;
};

struct attempt {
	enum question question;
	bool ours, exchange;
	CUdeviceptr block;
	CUresult answer;
};

static CUresult ask(struct attempt *a)
{
	enum gm_fenced fenced;
	CUdeviceptr fresh;
	if (a->question == ALLOCATE)
		return a->ours ? gm_fence_may_allocate(&sim, here) : sim.cuMemAlloc_v2(&fresh, 64);
	return a->ours ? fence(true, &fenced) : sim.cuMemFree_v2(a->block);
}

static void *attempt(void *arg)
{
	struct attempt *a = arg;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	sim_set_current(here->handle);
	if (a->exchange)
		sim.cuThreadExchangeStreamCaptureMode(&mode);
	a->answer = ask(a);
	if (a->exchange)
		sim.cuThreadExchangeStreamCaptureMode(&mode);
	return NULL;
}

static struct seen one_case(enum question question, bool ours, CUstreamCaptureMode mode, bool other,
			    bool exchange)
{
	struct attempt a = {.question = question, .ours = ours, .exchange = exchange};
	struct seen seen;
	CUstream stream;
	CUgraph graph;
	pthread_t thread;
	sim.cuMemAlloc_v2(&a.block, 64);
	sim.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	gm_fence_capture_begin(here);
	gm_fence_capture_begun(here, SIM(cuStreamBeginCapture_v2, PFN_cuStreamBeginCapture_v10010)(
					     stream, mode) == CUDA_SUCCESS);
	if (other) {
		pthread_create(&thread, NULL, attempt, &a);
		pthread_join(thread, NULL);
	} else {
		attempt(&a);
	}
	seen.answer = a.answer;
	seen.end = SIM(cuStreamEndCapture, PFN_cuStreamEndCapture_v10000)(stream, &graph);
	gm_fence_capture_ended(here);
	sim.cuStreamDestroy_v2(stream);
	return seen;
}

static void twelve_cases(void)
{
	static const char *const modes[] = {"global", "thread-local", "relaxed"};
	static const char *const questions[] = {"allocation", "free"};
	for (unsigned i = 0; i < 24; i++) {
		enum question question = i / 12;
		CUstreamCaptureMode mode = i / 4 % 3;
		bool other = i / 2 % 2, exchange = i % 2;
		struct seen native = one_case(question, false, mode, other, exchange);
		struct seen ours = one_case(question, true, mode, other, exchange);
		TAP_OK(native.answer == ours.answer && native.end == ours.end,
		       "%s, %s capture, %s thread%s: %d, then %d", questions[question], modes[mode],
		       other ? "another" : "the same", exchange ? ", exchanged" : "", native.answer,
		       native.end);
		if (native.answer != ours.answer || native.end != ours.end)
			printf("# ours: %d, then %d\n", ours.answer, ours.end);
	}
}

static void put_off(void)
{
	CUstream stream;
	CUgraph graph;
	enum gm_fenced fenced;
	sim.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	gm_fence_capture_begin(here);
	CUresult begun = SIM(cuStreamBeginCapture_v2, PFN_cuStreamBeginCapture_v10010)(
		stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	gm_fence_capture_begun(here, begun == CUDA_SUCCESS);
	TAP_IS(fence(false, &fenced), CUDA_SUCCESS, "asked by the pool itself during a capture");
	TAP_IS(fenced, GM_FENCED_LATER, "the pool's own fence is postponed during a capture");
	TAP_IS(SIM(cuStreamEndCapture, PFN_cuStreamEndCapture_v10000)(stream, &graph), CUDA_SUCCESS,
	       "a postponed fence does not affect the capture");
	gm_fence_capture_ended(here);
	TAP_OK(fence(false, &fenced) == CUDA_SUCCESS && fenced == GM_FENCED_PASSED,
	       "the fence passes after the end of the capture");
	gm_fence_capture_begin(here);
	gm_fence_capture_begun(here, false);
	TAP_OK(fence(false, &fenced) == CUDA_SUCCESS && fenced == GM_FENCED_PASSED,
	       "a capture that did not begin is not counted");
	sim.cuStreamDestroy_v2(stream);
}

/* --- a capture cannot begin between the read of the count and the record --- */

static CUresult (*record_event)(CUcontext ctx, CUevent event);
static atomic_bool recording, began;

static void *begin_capture(void *arg)
{
	while (!atomic_load(&recording))
		sched_yield();
	gm_fence_capture_begin(here);
	atomic_store(&began, true);
	gm_fence_capture_begun(here, false);
	return arg;
}

/* Gives the other thread ample time to interfere. */
static CUresult slow_record(CUcontext ctx, CUevent event)
{
	atomic_store(&recording, true);
	for (int i = 0; i < 20000 && !atomic_load(&began); i++)
		sched_yield();
	TAP_OK(!atomic_load(&began), "no capture begins while a fence is being recorded");
	return record_event(ctx, event);
}

static void record_excludes_begin(void)
{
	pthread_t thread;
	enum gm_fenced fenced;
	atomic_store(&recording, false);
	atomic_store(&began, false);
	record_event = sim.cuCtxRecordEvent;
	sim.cuCtxRecordEvent = slow_record;
	pthread_create(&thread, NULL, begin_capture, NULL);
	TAP_IS(fence(true, &fenced), CUDA_SUCCESS, "a fence passes while a capture begins");
	pthread_join(thread, NULL);
	TAP_OK(atomic_load(&began), "a capture begins after the fence under way");
	sim.cuCtxRecordEvent = record_event;
}

/* --- the short path --- */

static unsigned mode_changes(void)
{
	return gm_sim_calls("cuThreadExchangeStreamCaptureMode");
}

static void short_way(void)
{
	enum gm_fenced fenced;
	fence(true, &fenced);
	unsigned changes = mode_changes(), events = gm_sim_calls("cuEventCreate");
	TAP_OK(fence(true, &fenced) == CUDA_SUCCESS && fenced == GM_FENCED_PASSED,
	       "a second fence in a context passes");
	TAP_OK(mode_changes() == changes && gm_sim_calls("cuEventCreate") == events,
	       "a fence takes two driver calls if there are no captures");
	gm_fence_capture_missed();
	TAP_OK(fence(true, &fenced) == CUDA_SUCCESS && mode_changes() == changes + 2,
	       "a fence changes the mode if an unknown capture is possible");
	gm_fence_captures_counted();
}

#define CROWD (GM_CONTEXT_EVENTS + 2)

static void *fence_in_crowd(void *arg)
{
	enum gm_fenced fenced;
	bool good = fence(true, &fenced) == CUDA_SUCCESS && fenced == GM_FENCED_PASSED;
	return good ? arg : NULL;
}

static void crowd(void)
{
	CUstream stream;
	pthread_t threads[CROWD];
	unsigned good = 0;
	sim.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	gm_sim_hold(stream);
	gm_sim_launch(stream, nothing, NULL);
	for (unsigned i = 0; i < CROWD; i++)
		pthread_create(&threads[i], NULL, fence_in_crowd, here);
	while (gm_sim_waiters() < CROWD)
		sched_yield();
	gm_fence_capture_begin(here);
	TAP_OK(true, "a capture begins while %u threads wait for the GPU", CROWD);
	gm_fence_capture_begun(here, false);
	gm_sim_release(stream, -1u);
	for (unsigned i = 0; i < CROWD; i++) {
		void *answer;
		pthread_join(threads[i], &answer);
		good += answer != NULL;
	}
	TAP_IS(good, CROWD, "all fences of the crowd pass");
	sim.cuStreamDestroy_v2(stream);
}

/* --- refusals by the driver --- */

static void errors(bool events)
{
	/* The first fence makes an event, which the others use. */
	static const char *const calls[3][4] = {
		{"cuCtxPushCurrent_v2", "cuCtxSynchronize", "cuCtxSynchronize", "cuCtxSynchronize"},
		{"cuCtxPushCurrent_v2", "cuEventCreate", "cuCtxRecordEvent", "cuEventSynchronize"},
		{"cuCtxPushCurrent_v2", "cuEventCreate", "cuCtxRecordEvent", "cuEventQuery"},
	};
	unsigned way = events + (events && counted);
	enum gm_fenced fenced;
	for (unsigned i = 0; i < 4; i++) {
		CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
		gm_sim_fail(calls[way][i], 1, CUDA_ERROR_LAUNCH_FAILED);
		TAP_IS(fence(true, &fenced), CUDA_ERROR_LAUNCH_FAILED,
		       "%s fails, and the fence with it", calls[way][i]);
		sim.cuThreadExchangeStreamCaptureMode(&mode);
		TAP_IS(mode, CU_STREAM_CAPTURE_MODE_GLOBAL, "the thread's mode does not change");
	}
	TAP_IS(fence(true, &fenced), CUDA_SUCCESS, "a fence after a failed one passes");
}

#define AT_ONCE (GM_CONTEXT_EVENTS + 2)

static void *fence_at_once(void *arg)
{
	enum gm_fenced fenced;
	bool good = fence(true, &fenced) == CUDA_SUCCESS && fenced == GM_FENCED_PASSED;
	return good ? arg : NULL;
}

/* More fences at once than spare events: the surplus events are destroyed. */
static void many_at_once(void)
{
	CUstream stream;
	pthread_t threads[AT_ONCE];
	unsigned good = 0, made = gm_sim_calls("cuEventCreate");
	unsigned destroyed = gm_sim_calls("cuEventDestroy_v2");
	sim.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	gm_sim_hold(stream);
	gm_sim_launch(stream, nothing, NULL);
	for (unsigned i = 0; i < AT_ONCE; i++)
		pthread_create(&threads[i], NULL, fence_at_once, here);
	while (gm_sim_waiters() < AT_ONCE)
		sched_yield();
	gm_sim_release(stream, -1u);
	for (unsigned i = 0; i < AT_ONCE; i++) {
		void *answer;
		pthread_join(threads[i], &answer);
		good += answer != NULL;
	}
	TAP_IS(good, AT_ONCE, "%u fences at once pass", AT_ONCE);
	TAP_OK(gm_sim_calls("cuEventCreate") - made >= AT_ONCE - 1,
	       "each of several fences at once had an event");
	TAP_IS(gm_sim_calls("cuEventDestroy_v2") - destroyed, 2,
	       "two surplus events are destroyed");
	sim.cuStreamDestroy_v2(stream);
}

/* --- one by one --- */

static void one_by_one(void)
{
	const struct gm_fence_ops *defer = gm_fence_ops(&sim);
	CUstream first, second;
	CUevent early, late;
	sim.cuStreamCreate(&first, CU_STREAM_NON_BLOCKING);
	sim.cuStreamCreate(&second, CU_STREAM_NON_BLOCKING);
	gm_sim_hold(first);
	gm_sim_hold(second);
	gm_sim_launch(first, nothing, NULL);
	TAP_IS(defer->record(&sim, here->key, &early), CUDA_SUCCESS, "a fence behind one kernel");
	gm_sim_launch(second, nothing, NULL);
	TAP_IS(defer->record(&sim, here->key, &late), CUDA_SUCCESS,
	       "another fence follows two kernels");
	TAP_IS(defer->passed(&sim, here->key, early), CUDA_ERROR_NOT_READY,
	       "no fence behind a running kernel has passed");
	gm_sim_release(first, -1u);
	TAP_IS(defer->passed(&sim, here->key, early), CUDA_SUCCESS,
	       "the early fence passes with the first kernel");
	TAP_IS(defer->passed(&sim, here->key, late), CUDA_ERROR_NOT_READY,
	       "the late fence has not passed");
	gm_sim_release(second, -1u);
	TAP_IS(defer->wait_for(&sim, here->key, late), CUDA_SUCCESS,
	       "a wait for the late fence returns");
	unsigned made = gm_sim_calls("cuEventCreate");
	defer->drop(&sim, here->key, late);
	defer->drop(&sim, here->key, early);
	TAP_OK(defer->record(&sim, here->key, &late) == CUDA_SUCCESS &&
		       gm_sim_calls("cuEventCreate") == made,
	       "events of dropped fences are reused");
	defer->drop(&sim, here->key, late);
	gm_fence_capture_begin(here);
	gm_fence_capture_begun(here, true);
	made = gm_sim_calls("cuCtxRecordEvent");
	TAP_IS(defer->record(&sim, here->key, &late), CUDA_ERROR_NOT_READY,
	       "no fence is recorded during a capture");
	TAP_OK(!late && gm_sim_calls("cuCtxRecordEvent") == made,
	       "no record is attempted during a capture");
	gm_fence_capture_ended(here);
	gm_sim_fail("cuEventQuery", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
	defer->record(&sim, here->key, &late);
	TAP_IS(defer->passed(&sim, here->key, late), CUDA_ERROR_ILLEGAL_ADDRESS,
	       "a broken context is reported");
	gm_sim_fail("cuEventQuery", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
	TAP_IS(defer->ask(&sim, here->key), CUDA_ERROR_ILLEGAL_ADDRESS,
	       "frees report a broken context");
	gm_fence_forget_all();
	defer->drop(&sim, here->key, late);
	sim.cuStreamDestroy_v2(first);
	sim.cuStreamDestroy_v2(second);
}

/* Used only if all captures are counted and none is open; otherwise it could break a capture. */
static void at_a_glance(void)
{
	const struct gm_fence_ops *defer = gm_fence_ops(&sim);
	CUstream stream;
	sim.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	gm_sim_hold(stream);
	unsigned asked = gm_sim_calls("cuEventQuery"), waited = gm_sim_calls("cuEventSynchronize");
	TAP_IS(gm_fence_is_idle(&sim, here->key), counted,
	       "an idle GPU is idle at a glance only if captures are counted");
	gm_sim_launch(stream, nothing, NULL);
	TAP_OK(!gm_fence_is_idle(&sim, here->key), "a running kernel is seen at a glance");
	TAP_IS(gm_sim_calls("cuEventQuery") - asked, counted ? 2 : 0,
	       "a glance polls two events, if captures are counted");
	TAP_IS(gm_sim_calls("cuEventSynchronize"), waited, "a glance does not wait");
	gm_sim_release(stream, -1u);
	sim.cuStreamSynchronize(stream);
	gm_fence_capture_begin(here);
	gm_fence_capture_begun(here, true);
	asked = gm_sim_calls("cuEventQuery");
	TAP_OK(!gm_fence_is_idle(&sim, here->key) && gm_sim_calls("cuEventQuery") == asked,
	       "no glance polls while a capture is open");
	gm_fence_capture_ended(here);
	TAP_IS(gm_fence_is_idle(&sim, here->key), counted,
	       "a glance polls again after the capture");
	gm_sim_fail("cuEventQuery", counted, CUDA_ERROR_ILLEGAL_ADDRESS);
	TAP_OK(!gm_fence_is_idle(&sim, here->key), "a broken context is not idle");
	if (counted)
		gm_sim_fail("cuEventQuery", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
	TAP_IS(defer->ask(&sim, here->key), counted ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS,
	       "frees report a broken context after a glance");
	gm_fence_forget_all();
	sim.cuStreamDestroy_v2(stream);
}

static CUresult query(const char *when)
{
	const struct gm_fence_ops *defer = gm_fence_ops(&sim);
	CUevent event = NULL;
	unsigned before = gm_sim_calls("cuCtxRecordEvent");
	CUresult result = defer->record(&sim, here->key, &event);
	TAP_OK(!event && gm_sim_calls("cuCtxRecordEvent") == before, "no driver call %s", when);
	return result;
}

static atomic_bool ended;

static void *end_context(void *arg)
{
	struct gm_context *ending = gm_context_ending(here->handle);
	atomic_store(&ended, true);
	gm_context_ended(ending);
	return ending == here ? arg : NULL;
}

/* Runs the other thread until it has to wait. */
static void ending(void)
{
	pthread_t thread;
	void *known;
	atomic_store(&ended, false);
	TAP_OK(gm_context_enter(here), "the pool is in a context");
	pthread_create(&thread, NULL, end_context, here);
	while (!atomic_load(&here->ending) && !atomic_load(&ended))
		sched_yield();
	TAP_OK(!gm_context_enter(here), "no other thread enters a context that is being ended");
	for (int i = 0; i < 1000; i++)
		sched_yield();
	TAP_OK(!atomic_load(&ended), "the end of a context waits for entered threads");
	gm_context_leave(here);
	pthread_join(thread, &known);
	TAP_OK(known && atomic_load(&ended), "the end proceeds when they have left");
	struct gm_context *context = gm_context_ending(here->handle);
	TAP_IS(query("while it is being ended"), CUDA_ERROR_NOT_READY,
	       "a fence during the end is postponed");
	gm_context_ended(context);
	TAP_OK(gm_context_enter(here), "a context whose end was refused can be entered");
	gm_context_leave(here);
	context = gm_context_ending(here->handle);
	gm_context_gone(here->handle);
	gm_context_ended(context);
	TAP_IS(query("when it is gone"), CUDA_SUCCESS, "an ended context needs no wait");
}

int main(void)
{
	static const char *const versions[] = {"13.0", "12.0", "13.0"};
	for (unsigned n = 0; n < 3; n++) {
		unsigned i = n % 2;
		counted = n == 2;
		printf("# driver %s%s\n", versions[i], counted ? ", captures counted" : "");
		start(versions[i]);
		TAP_IS(sim.cuCtxRecordEvent != NULL, i == 0, "cuCtxRecordEvent is %s",
		       i ? "missing" : "there");
		errors(i == 0);
		waits_for_all_streams();
		if (i == 0 && !counted)
			many_at_once();
		if (counted) {
			short_way();
			crowd();
		}
		twelve_cases();
		put_off();
		if (i == 0)
			record_excludes_begin();
		TAP_IS(gm_fence_ops(&sim)->record != NULL, i == 0, "fences can%s be recorded",
		       i ? "not" : "");
		if (i == 0) {
			at_a_glance();
			one_by_one();
			ending();
		}
		start(versions[i]);
		gone_contexts();
	}
	return tap_done();
}
