/* SPDX-License-Identifier: BSD-3-Clause */
#include "context/context.h"

#include <pthread.h>

#include "on_sim.h"

#define THREADS 8

static void without_context(void)
{
	CUresult result = CUDA_SUCCESS;
	sim_set_current(NULL);
	TAP_OK(!gm_context_current(&sim, &result), "no context is current");
	TAP_IS(result, CUDA_ERROR_INVALID_CONTEXT, "the driver's error is returned");
	TAP_OK(!gm_context_of(&sim, NULL, &result), "NULL is no context");
	TAP_OK(!gm_context_find(0), "no context has key 0");
}

static void two_contexts(void)
{
	CUresult result;
	CUcontext now = NULL, a = sim_context(0), b = sim_context(1);
	sim_set_current(a);
	struct gm_context *first = gm_context_current(&sim, &result);
	struct gm_context *second = gm_context_of(&sim, b, &result);
	TAP_OK(first && second && first != second, "two contexts are two");
	TAP_OK(first->key && second->key && first->key != second->key,
	       "contexts have keys of their own");
	TAP_OK(first->handle == a && first->ordinal == 0 && first->device == 0,
	       "the first context has its handle and device");
	TAP_OK(second->handle == b && second->ordinal == 1,
	       "the second context is on the other device");
	TAP_OK(first->probe && second->probe, "each context has its probe event");
	sim.cuCtxGetCurrent(&now);
	TAP_PTR(now, a, "reading a context does not make it current");
	TAP_PTR(gm_context_current(&sim, &result), first,
		"the same context is found the second time");
	TAP_PTR(gm_context_find(second->key), second, "a context is found by its key");

	uint64_t key = second->key;
	SIM(cuCtxDestroy_v2, PFN_cuCtxDestroy_v4000)(b);
	TAP_IS(gm_context_gone(b), key, "the end of a context returns its key");
	TAP_IS(gm_context_gone(b), 0, "a context ends once");
	TAP_OK(gm_context_find(key) == second && atomic_load(&second->gone),
	       "an ended context stays, marked as gone");
	TAP_IS(gm_context_gone((CUcontext)&key), 0, "an unknown context has no key");
	sim_set_current(a);
	TAP_PTR(gm_context_current(&sim, &result), first, "the other context is current");
	gm_context_gone(a);
	TAP_OK(gm_context_current(&sim, &result) != first, "an ended context is not current");
	SIM(cuCtxDestroy_v2, PFN_cuCtxDestroy_v4000)(a);
	gm_context_gone(a);
}

/* After a reset the driver reuses the same CUcontext value. */
static void primary_reset(void)
{
	CUresult result;
	CUcontext handle = sim_primary(0);
	sim_set_current(handle);
	struct gm_context *before = gm_context_current(&sim, &result);
	TAP_IS(gm_context_primary_gone(0), 0, "no primary context is known");
	gm_context_remember_primary(0, handle);
	SIM(cuDevicePrimaryCtxReset_v2, PFN_cuDevicePrimaryCtxReset_v11000)(0);
	TAP_IS(gm_context_primary_gone(0), before->key, "the primary context is reset");
	CUcontext again = sim_primary(0);
	TAP_PTR(again, handle, "the handle is reused");
	sim_set_current(again);
	struct gm_context *after = gm_context_current(&sim, &result);
	TAP_OK(after && after != before && after->key != before->key,
	       "the reused handle is another context");
}

/* Refused driver calls while gpumem asks about a context for the first time. */
static void refused(void)
{
	static const struct {
		const char *call;
		bool without; /* the context is known, without an event to ask */
	} cases[] = {
		{"cuCtxGetCurrent", false}, {"cuCtxPushCurrent_v2", false},
		{"cuCtxGetDevice", false},  {"cuEventCreate", true},
		{"cuStreamCreate", true},   {"cuEventRecord", true},
	};
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		CUresult result = CUDA_SUCCESS;
		CUcontext now = NULL, handle = sim_context(0);
		unsigned made = gm_sim_calls("cuEventCreate");
		unsigned destroyed = gm_sim_calls("cuEventDestroy_v2");
		sim_set_current(handle);
		gm_sim_fail(cases[i].call, 1, CUDA_ERROR_LAUNCH_FAILED);
		struct gm_context *context = gm_context_current(&sim, &result);
		TAP_IS(result, cases[i].without ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED,
		       "a refusal by %s is returned, except of an event", cases[i].call);
		TAP_OK(cases[i].without ? context && !context->probe : !context,
		       cases[i].without ? "a context without an event is known"
					: "a refused context is not known");
		sim.cuCtxGetCurrent(&now);
		TAP_PTR(now, handle, "the current context does not change");
		unsigned left = gm_sim_calls("cuEventCreate") - made;
		left -= gm_sim_calls("cuEventDestroy_v2") - destroyed;
		TAP_IS(left, strcmp(cases[i].call, "cuEventCreate") == 0, "no event is left");
		SIM(cuCtxDestroy_v2, PFN_cuCtxDestroy_v4000)(handle);
		gm_context_gone(handle);
	}
	TAP_IS(gm_context_primary_gone(-1), 0, "no device has this number");
	TAP_IS(gm_context_primary_gone(100000), 0, "no device has so large a number");
}

static bool may_enter(struct gm_context *c)
{
	bool entered = gm_context_enter(c);
	if (entered)
		gm_context_leave(c);
	return entered;
}

/* The pool leaves a context alone while a call of the program may end it. */
static void ends(void)
{
	CUresult result;
	CUcontext handle = sim_context(0);
	struct gm_context *c = gm_context_of(&sim, handle, &result);
	TAP_OK(may_enter(c), "a context may be entered");
	TAP_PTR(gm_context_ending(handle), c, "a call of the program may end a context");
	TAP_OK(!may_enter(c), "a context may not be entered while it may end");
	gm_context_ended(c);
	TAP_OK(may_enter(c), "a context that did not end may be entered again");
	gm_context_ending(handle);
	SIM(cuCtxDestroy_v2, PFN_cuCtxDestroy_v4000)(handle);
	gm_context_gone(handle);
	gm_context_ended(c);
	TAP_OK(!may_enter(c), "an ended context may never be entered");
	TAP_OK(!gm_context_ending(handle), "an ended context does not end again");
}

static PFN_cuCtxGetDevice_v2000 get_device;
static struct gm_context *faster;
static void *last_made, *slower; /* memory */

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *memory);
void __wrap_free(void *memory);

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
	return last_made = __real_aligned_alloc(alignment, size);
}

void __wrap_free(void *memory)
{
	if (memory == slower)
		slower = NULL;
	__real_free(memory);
}

/* Imitates a race: another thread sees the context first, while this one asks for its device. */
static CUresult seen_meanwhile(CUdevice *device)
{
	CUresult result;
	CUcontext handle;
	slower = last_made;
	sim.cuCtxGetDevice = get_device;
	sim.cuCtxGetCurrent(&handle);
	faster = gm_context_of(&sim, handle, &result);
	return get_device(device);
}

static void another_is_faster(void)
{
	CUresult result;
	CUcontext handle = sim_context(0);
	unsigned made = gm_sim_calls("cuEventCreate"),
		 destroyed = gm_sim_calls("cuEventDestroy_v2");
	get_device = sim.cuCtxGetDevice;
	sim.cuCtxGetDevice = seen_meanwhile;
	TAP_OK(gm_context_of(&sim, handle, &result) == faster && faster,
	       "the context of the thread that was faster is the one");
	TAP_IS(gm_sim_calls("cuEventCreate") - made, 2,
	       "two threads that see a context at once each make an event");
	TAP_IS(gm_sim_calls("cuEventDestroy_v2") - destroyed, 1,
	       "one event of two threads remains");
	TAP_OK(!slower, "the memory of one context remains");
	SIM(cuCtxDestroy_v2, PFN_cuCtxDestroy_v4000)(handle);
	gm_context_gone(handle);
}

/* Green contexts of two devices. Their handles are compared, never followed. */
static void green(void)
{
	CUresult result;
	CUdevice device = -1;
	int names[2];
	CUcontext primary[2];
	for (int i = 0; i < 2; i++) {
		primary[i] = sim_context(i);
		TAP_OK(gm_context_remember_green((CUcontext)&names[i], primary[i], i),
		       "a green context is remembered");
	}
	for (int i = 0; i < 2; i++)
		TAP_PTR(gm_context_of(&sim, (CUcontext)&names[i], &result),
			gm_context_of(&sim, primary[i], &result),
			"a green context is its primary context");
	TAP_OK(gm_context_green_gone((CUcontext)&names[1], &device) && device == 1,
	       "a green context ends on its device");
	TAP_OK(!gm_context_green_gone((CUcontext)&names[1], &device),
	       "a green context is forgotten once");
	TAP_OK(gm_context_green_gone((CUcontext)&names[0], &device) && device == 0,
	       "a second green context ends on its device");
	for (int i = 0; i < 2; i++) {
		SIM(cuCtxDestroy_v2, PFN_cuCtxDestroy_v4000)(primary[i]);
		gm_context_gone(primary[i]);
	}
}

static pthread_barrier_t line;

static void *look(void *handle)
{
	CUresult result;
	sim_set_current(handle);
	pthread_barrier_wait(&line);
	return gm_context_current(&sim, &result);
}

static void first_sight_at_once(void)
{
	pthread_t threads[THREADS];
	void *seen[THREADS];
	bool same = true;
	CUcontext handle = sim_context(0);
	pthread_barrier_init(&line, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, look, handle);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &seen[i]);
		same = same && seen[i] && seen[i] == seen[0];
	}
	pthread_barrier_destroy(&line);
	TAP_OK(same, "%d threads that see a context first see one", THREADS);
}

int main(void)
{
	static const char *const versions[] = {"13.0", "11.4"};
	for (unsigned i = 0; i < 2; i++) {
		printf("# driver %s\n", versions[i]);
		sim_start(versions[i], "2");
		TAP_IS(sim.cuCtxGetId != NULL, i == 0, "cuCtxGetId is %s", i ? "missing" : "there");
		without_context();
		two_contexts();
		primary_reset();
		refused();
		ends();
		another_is_faster();
		green();
		first_sight_at_once();
		gm_context_forget_all();
		TAP_OK(!gm_context_find(1), "no context is known after all are forgotten");
	}
	return tap_done();
}
