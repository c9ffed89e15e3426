/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulated driver's host functions, graphs that kernels launch, and green contexts. */
#include <stdatomic.h>
#include <string.h>

#include "sim_setup.h"

static char order[32];

static void run_named(void *name)
{
	strncat(order, name, sizeof order - strlen(order) - 1);
}

static const char *ran(void)
{
	static char last[sizeof order];
	strcpy(last, order);
	order[0] = '\0';
	return last;
}

static CUstream stream_new(void)
{
	CUstream s = NULL;
	drv(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING);
	return s;
}

/* --- host functions --- */

#define CALLS 10
static CUresult answers[CALLS];
static CUdeviceptr the_block;
static CUcontext the_context;
static CUevent the_event;
static pthread_t ran_on;

static void CUDA_CB host_calls(void *arg)
{
	CUdeviceptr at;
	CUcontext current;
	size_t available, total;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	const CUresult results[CALLS] = {
		drv(cuMemAlloc_v2)(&at, 16),
		drv(cuMemFree_v2)(the_block),
		drv(cuStreamQuery)(NULL),
		drv(cuMemsetD8_v2)(the_block, 1, 1),
		drv(cuMemGetInfo_v2)(&available, &total),
		drv(cuCtxGetCurrent)(&current),
		drv(cuCtxSetCurrent)(the_context),
		drv(cuStreamQuery)(arg),
		drv(cuThreadExchangeStreamCaptureMode)(&mode),
		drv(cuEventQuery)(the_event),
	};
	memcpy(answers, results, sizeof answers);
	ran_on = pthread_self();
}

static void CUDA_CB callback_calls(CUstream stream, CUresult status, void *arg)
{
	if (stream && status == CUDA_SUCCESS)
		host_calls(arg);
}

static void answers_check(const char *kind)
{
	unsigned refused = 0, allowed = 0;
	for (unsigned i = 0; i < 7; i++)
		refused += answers[i] == CUDA_ERROR_NOT_PERMITTED;
	for (unsigned i = 7; i < CALLS; i++)
		allowed += answers[i] == CUDA_SUCCESS;
	TAP_IS(refused, 7, "%s: calls that need a context are refused", kind);
	TAP_IS(allowed, 3, "%s: calls of streams and events are answered", kind);
	TAP_OK(!pthread_equal(ran_on, pthread_self()), "%s runs on another thread", kind);
	memset(answers, 0, sizeof answers);
}

static void test_host_functions(void)
{
	the_context = sim_start(NULL, NULL, NULL);
	CUstream s = stream_new(), other = stream_new();
	drv(cuEventCreate)(&the_event, CU_EVENT_DISABLE_TIMING);
	drv(cuMemAlloc_v2)(&the_block, 16);
	gm_sim_hold(s);
	TAP_IS(drv(cuLaunchHostFunc)(s, host_calls, other), CUDA_SUCCESS,
	       "a host function is launched");
	gm_sim_launch(s, run_named, "k");
	TAP_IS(gm_sim_release(s, 1), 1, "a host function is a step of its stream");
	answers_check("a host function");
	TAP_STR(ran(), "", "a kernel behind a host function waits");
	gm_sim_release(s, -1u);
	TAP_STR(ran(), "k", "a kernel follows a host function");
	TAP_IS(drv(cuStreamAddCallback)(s, callback_calls, other, 0), CUDA_SUCCESS,
	       "a callback is added");
	answers_check("a callback");
	TAP_IS(drv(cuStreamAddCallback)(s, callback_calls, other, 1), CUDA_ERROR_INVALID_VALUE,
	       "flags of a callback are refused");
	TAP_IS(drv(cuMemFree_v2)(the_block), CUDA_SUCCESS,
	       "a block whose free was refused is freed later");
}

/* --- graphs that kernels launch --- */

static CUgraphExec the_child;
static enum gm_sim_from_kernel the_way;
static CUresult launched;

static void launch_child(void *name)
{
	run_named(name);
	launched = gm_sim_launch_from_kernel(the_child, the_way);
}

/* A graph of kernels, the first of which runs `first`. */
static CUgraphExec exec_new(CUstream s, void (*first)(void *), char *a, char *b,
			    unsigned long long flags)
{
	CUgraph graph;
	CUgraphExec exec = NULL;
	drv(cuStreamBeginCapture_v2)(s, CU_STREAM_CAPTURE_MODE_RELAXED);
	gm_sim_launch(s, first, a);
	gm_sim_launch(s, run_named, b);
	drv(cuStreamEndCapture)(s, &graph);
	drv(cuGraphInstantiateWithFlags)(&exec, graph, flags);
	drv(cuGraphDestroy)(graph);
	return exec;
}

#define ON_DEVICE CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH

static void way_check(CUgraphExec exec, enum gm_sim_from_kernel way, const char *wanted,
		      const char *name)
{
	CUstream s = stream_new();
	CUevent e;
	the_way = way;
	drv(cuEventCreate)(&e, CU_EVENT_DISABLE_TIMING);
	gm_sim_hold(s);
	drv(cuGraphLaunch)(exec, s);
	drv(cuEventRecord)(e, s);
	gm_sim_launch(s, run_named, "z");
	gm_sim_release(s, 1);
	TAP_IS(launched, CUDA_SUCCESS, "%s: a kernel launches a graph", name);
	gm_sim_release(s, 3);
	TAP_IS(drv(cuEventQuery)(e), CUDA_ERROR_NOT_READY,
	       "%s: an event behind the launch covers the graph", name);
	TAP_IS(drv(cuStreamQuery)(s), CUDA_ERROR_NOT_READY, "%s: the stream is busy", name);
	gm_sim_release(s, -1u);
	TAP_STR(ran(), wanted, "%s: the graph runs before later work of the stream", name);
	TAP_IS(drv(cuEventQuery)(e), CUDA_SUCCESS, "%s: the event has passed", name);
}

static void test_launches_from_kernels(void)
{
	sim_start(NULL, NULL, NULL);
	CUstream s = stream_new();
	the_child = exec_new(s, run_named, "c", "d", ON_DEVICE);
	CUgraphExec exec = exec_new(s, launch_child, "a", "b", ON_DEVICE);
	CUgraphExec plain = exec_new(s, launch_child, "a", "b", 0);
	drv(cuGraphLaunch)(exec, s);
	TAP_IS(launched, CUDA_ERROR_INVALID_VALUE, "a graph that was not uploaded is refused");
	TAP_STR(ran(), "ab", "a refused launch runs nothing");
	TAP_IS(drv(cuGraphUpload)(the_child, s), CUDA_SUCCESS, "a graph is uploaded");
	way_check(exec, GM_SIM_FIRE_AND_FORGET, "abcdz", "fire and forget");
	way_check(exec, GM_SIM_TAIL, "abcdz", "tail");
	way_check(exec, GM_SIM_SIBLING, "abcdz", "sibling");
	drv(cuGraphLaunch)(plain, s);
	TAP_IS(launched, CUDA_ERROR_INVALID_VALUE, "a kernel of a plain graph launches none");
	gm_sim_launch(s, launch_child, "k");
	TAP_IS(launched, CUDA_ERROR_INVALID_VALUE, "a plain kernel launches no graph");
	ran();
	TAP_IS(drv(cuGraphLaunch)(the_child, s), CUDA_SUCCESS,
	       "the host launches a graph for kernels, too");
	TAP_STR(ran(), "cd", "the graph that the host launched runs");
}

static CUgraphExec inner;

static void launch_two(void *name)
{
	run_named(name);
	gm_sim_launch_from_kernel(the_child, GM_SIM_TAIL);
	gm_sim_launch_from_kernel(inner, GM_SIM_FIRE_AND_FORGET);
	gm_sim_launch_from_kernel(inner, GM_SIM_SIBLING);
}

static void launch_tail(void *name)
{
	run_named(name);
	gm_sim_launch_from_kernel(the_child, GM_SIM_TAIL);
}

/* Tails run behind fired work of the same launch, and before that of the launch around it. */
static void test_launches_nest(void)
{
	sim_start(NULL, NULL, NULL);
	CUstream s = stream_new();
	the_child = exec_new(s, run_named, "c", "d", ON_DEVICE | 2);
	inner = exec_new(s, launch_tail, "e", "f", ON_DEVICE | 2);
	CUgraphExec exec = exec_new(s, launch_two, "a", "b", ON_DEVICE);
	drv(cuGraphLaunch)(exec, s);
	TAP_STR(ran(), "abefcdcdefcd", "launched graphs launch graphs, in order");
	TAP_IS(drv(cuStreamQuery)(s), CUDA_SUCCESS, "a stream is idle behind nested launches");
	gm_sim_launch(s, run_named, "z");
	TAP_STR(ran(), "z", "a stream goes on behind nested launches");
}

/* --- green contexts --- */

#if CUDA_VERSION >= 12040
static void test_green(void)
{
	CUdevResource all, part[2], rest, own;
	CUdevResourceDesc description;
	CUgreenCtx green, found = NULL;
	CUevent event;
	CUstream primary_stream, s;
	unsigned n = 2;
	CUcontext primary = sim_start(NULL, NULL, NULL), derived;
	primary_stream = stream_new();
	drv(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING);
	drv(cuDeviceGetDevResource)(0, &all, CU_DEV_RESOURCE_TYPE_SM);
	TAP_IS(drv(cuDevSmResourceSplitByCount)(part, &n, &all, &rest, 0, 12), CUDA_SUCCESS,
	       "multiprocessors are split");
	TAP_OK(n == 2 && part[1].sm.smCount == 16 && rest.sm.smCount == 100,
	       "groups of multiprocessors have multiples of 8");
	TAP_IS(drv(cuDevSmResourceSplitByCount)(NULL, &n, &all, NULL, 0, 16), CUDA_SUCCESS,
	       "the number of groups is asked");
	TAP_IS(n, 8, "132 multiprocessors make 8 groups of 16");
	drv(cuDevResourceGenerateDesc)(&description, part, 1);
	drv(cuGreenCtxCreate)(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM);
	TAP_IS(drv(cuGreenCtxGetDevResource)(green, &own, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS,
	       "a green context has its resource");
	drv(cuGreenCtxStreamCreate)(&s, green, CU_STREAM_NON_BLOCKING, 0);
	TAP_IS(drv(cuStreamGetGreenCtx)(s, &found), CUDA_SUCCESS, "a stream has a green context");
	TAP_OK(found == green, "a stream has the green context that made it");
	drv(cuStreamGetGreenCtx)(primary_stream, &found);
	TAP_OK(!found, "a stream of the primary context has no green context");
	gm_sim_hold(s);
	gm_sim_launch(s, run_named, "g");
	TAP_IS(drv(cuGreenCtxRecordEvent)(green, event), CUDA_SUCCESS,
	       "an event of the primary context is recorded in a green one");
	TAP_IS(drv(cuEventQuery)(event), CUDA_ERROR_NOT_READY,
	       "an event of a green context covers its streams");
	drv(cuStreamWaitEvent)(primary_stream, event, 0);
	gm_sim_launch(primary_stream, run_named, "p");
	TAP_STR(ran(), "", "a stream of the primary context waits for the green one");
	gm_sim_release(s, -1u);
	TAP_STR(ran(), "gp", "a stream of the primary context follows the green one");
	gm_sim_hold(primary_stream);
	gm_sim_launch(primary_stream, run_named, "p");
	drv(cuEventRecord)(event, primary_stream);
	TAP_IS(drv(cuGreenCtxWaitEvent)(green, event), CUDA_SUCCESS,
	       "a green context waits for an event");
	gm_sim_launch(s, run_named, "g");
	TAP_STR(ran(), "", "a stream of the green context waits for the event");
	gm_sim_release(primary_stream, -1u);
	TAP_STR(ran(), "pg", "a stream of the green context follows the event");
	gm_sim_hold(s);
	gm_sim_launch(s, run_named, "g");
	drv(cuCtxRecordEvent)(primary, event);
	TAP_IS(drv(cuEventQuery)(event), CUDA_ERROR_NOT_READY,
	       "an event of the primary context covers green streams");
	gm_sim_release(s, -1u);
	TAP_IS(drv(cuCtxFromGreenCtx)(&derived, green), CUDA_SUCCESS, "a green context is one");
	TAP_IS(drv(cuGreenCtxDestroy)(green), CUDA_SUCCESS, "a green context is destroyed");
	TAP_IS(drv(cuGreenCtxWaitEvent)(green, event), CUDA_ERROR_INVALID_HANDLE,
	       "a destroyed green context is unknown");
}
#else
static void test_green(void)
{
}
#endif

int main(void)
{
	test_host_functions();
	test_launches_from_kernels();
	test_launches_nest();
	test_green();
	return tap_done();
}
