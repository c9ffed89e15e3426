/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work in green contexts, in host functions and in graphs that kernels launch: `launched CASE
 * [show]`. The answers and contents are the same natively and preloaded, whether frees wait or not.
 * A GPU gave the same answers to green contexts, to graphs, and to the calls in cuLaunchHostFunc
 * but cuPointerSetAttribute.
 */
#include <limits.h>

#include "spoil.h"

#define SIZE (3 * MIB)

static void fill(CUdeviceptr at, CUstream stream)
{
	fill_by_kernel(at, 7, SIZE, stream);
}

/* Free `old`, and use its successor in `stream`. */
static void replace(CUdeviceptr old, CUstream stream)
{
	pthread_t thread = begin();
	SAY(cuMemFree(old));
	CUdeviceptr fresh = take(SIZE);
	early(fresh, old, SIZE);
	fill(fresh, stream);
	end(thread);
	MUST(cuCtxSynchronize());
	holds(fresh, SIZE, 7);
	SAY(cuMemFree(fresh));
}

/* --- green contexts --- */

static CUgreenCtx green_new(void)
{
	CUdevResource all, part;
	CUdevResourceDesc description;
	CUgreenCtx green;
	unsigned n = 1;
	MUST(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	MUST(cuDevSmResourceSplitByCount(&part, &n, &all, NULL, 0, 16));
	MUST(cuDevResourceGenerateDesc(&description, &part, 1));
	MUST(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	return green;
}

static CUstream green_stream(CUgreenCtx green)
{
	CUstream stream;
	MUST(cuGreenCtxStreamCreate(&stream, green, CU_STREAM_NON_BLOCKING, 0));
	return stream;
}

static CUstream green_hold(CUgreenCtx green)
{
	held[0] = green_stream(green);
	gm_sim_hold(held[0]);
	return held[0];
}

/* The pending work is in a green context, and the next in the primary one. */
static void green(void)
{
	CUstream s = green_hold(green_new()), next = stream_new();
	CUdeviceptr old = take(SIZE);
	late(old, SIZE, s);
	replace(old, next);
}

static void green_same(void)
{
	CUstream s = green_hold(green_new());
	CUdeviceptr old = take(SIZE);
	late(old, SIZE, s);
	replace(old, s);
}

static void green_into(void)
{
	CUstream s = hold(0), next = green_stream(green_new());
	CUdeviceptr old = take(SIZE);
	late(old, SIZE, s);
	replace(old, next);
}

/* The block is freed and allocated while the green context is current. */
static void green_current(void)
{
	CUcontext derived;
	CUgreenCtx context = green_new();
	CUstream s = green_hold(context), next = stream_new();
	CUdeviceptr old = take(SIZE);
	MUST(cuCtxFromGreenCtx(&derived, context));
	MUST(cuCtxSetCurrent(derived));
	late(old, SIZE, s);
	pthread_t thread = begin();
	SAY(cuMemFree(old));
	CUdeviceptr fresh = take(SIZE);
	early(fresh, old, SIZE);
	MUST(cuCtxSetCurrent(primary));
	fill(fresh, next);
	end(thread);
	MUST(cuCtxSynchronize());
	holds(fresh, SIZE, 7);
}

/* The green context and its stream end while their work is pending. */
static void green_destroy(void)
{
	CUevent event;
	CUgreenCtx context = green_new();
	CUstream s = hold(0), there = green_stream(context), next = stream_new();
	CUdeviceptr old = take(SIZE), some = take(SIZE);
	MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	late(some, SIZE, s);
	MUST(cuEventRecord(event, s));
	MUST(cuStreamWaitEvent(there, event, 0));
	late(old, SIZE, there);
	SAY(cuStreamDestroy(there));
	pthread_t thread = begin();
	SAY(cuGreenCtxDestroy(context));
	end(thread);
	replace(old, next);
}

/* --- host functions --- */

static atomic_bool told;
static _Atomic CUdeviceptr place;
static CUdeviceptr the_block;

static void CUDA_CB inside(void *arg)
{
	CUdeviceptr at = 7, base = 7;
	size_t available = 7, total = 7;
	char byte = 1;
	unsigned type = 7;
	SAY(cuMemAlloc(&at, MIB));
	SAY(cuMemFree(the_block));
	SAY(cuStreamQuery(0));
	SAY(cuMemsetD8(the_block, 0, 4));
	SAY(cuMemGetInfo(&available, &total));
	SAY(cuMemcpyHtoD(the_block, &byte, 1));
	SAY(cuMemcpyDtoH(&byte, the_block, 1));
	SAY(cuMemGetAddressRange(&base, &total, the_block));
	SAY(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, the_block));
	SAY(cuMemAllocAsync(&at, MIB, arg));
	SAY(cuMemFreeAsync(the_block, arg));
	SAY(cuMemFree(0));
	SAY(cuPointerSetAttribute(&(int){1}, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, the_block));
	SAY(cuStreamQuery(arg));
	SAY(cuMemsetD8Async(the_block, 9, 4, arg));
	printf("outputs: %d %d %d\n", at != 7, base != 7, type == 7);
}

static void CUDA_CB inside_callback(CUstream stream, CUresult status, void *arg)
{
	(void)stream;
	printf("status: %d\n", status);
	inside(arg);
}

/* Each call inside is refused, and damages nothing. */
static void hosted(void)
{
	CUstream s = stream_new(), next = stream_new();
	unsigned char *copy = malloc(SIZE);
	the_block = take(SIZE);
	MUST(cuMemsetD8(the_block, 7, SIZE));
	SAY(cuLaunchHostFunc(s, inside, next));
	MUST(cuStreamSynchronize(s));
	SAY(cuStreamAddCallback(s, inside_callback, next, 0));
	MUST(cuStreamSynchronize(s));
	MUST(cuStreamSynchronize(next));
	MUST(cuMemcpyDtoH(copy, the_block, SIZE));
	printf("bytes: %d %d %d\n", copy[0], copy[4], copy[SIZE - 1]);
	free(copy);
	SAY(cuMemFree(the_block));
	SAY(cuMemFree(the_block));
	CUdeviceptr fresh = take(SIZE);
	MUST(cuMemsetD8(fresh, 7, SIZE));
	holds(fresh, SIZE, 7);
	SAY(cuMemFree(fresh));
}

/* The first call for memory is in a host function. */
static void hosted_first(void)
{
	CUstream s = stream_new();
	SAY(cuLaunchHostFunc(s, inside, s));
	MUST(cuStreamSynchronize(s));
	CUdeviceptr fresh = take(SIZE);
	SAY(cuMemFree(fresh));
}

typedef CUresult (*launch_fn)(CUstream stream, CUhostFn run, void *arg, unsigned how);

static CUresult launch_plain(CUstream stream, CUhostFn run, void *arg, unsigned how)
{
	(void)how;
	return cuLaunchHostFunc(stream, run, arg);
}

/* The process sleeps when the host function is launched. */
static void asleep(launch_fn launch)
{
	char command[PATH_MAX + 64];
	CUstream s = stream_new(), next = stream_new();
	the_block = take(SIZE);
	MUST(cuMemsetD8(the_block, 7, SIZE));
	snprintf(command, sizeof command, "env -u LD_PRELOAD %s sleep %d >/dev/null 2>&1",
		 getenv("TOOL"), (int)getpid());
	if (system(command) == -1)
		perror("system");
	SAY(launch(s, inside, next, 0));
	MUST(cuStreamSynchronize(s));
	MUST(cuStreamSynchronize(next));
	holds(the_block + 4, SIZE - 4, 7);
	SAY(cuMemFree(the_block));
}

static void hosted_asleep(void)
{
	asleep(launch_plain);
}

/* By the call of driver 13.1. */
static void hosted_asleep_newer(void)
{
	void *launch = NULL;
	MUST(cuGetProcAddress("cuLaunchHostFunc", &launch, 13010, 0, NULL));
	asleep((launch_fn)launch);
}

static void CUDA_CB tell(void *arg)
{
	atomic_store((atomic_bool *)arg, true);
}

static void *tells_fill(void *arg)
{
	MUST(cuCtxSetCurrent(primary));
	while (!atomic_load(&told) || !atomic_load(&place))
		usleep(100);
	fill(atomic_load(&place), arg);
	return NULL;
}

/* A host function between two kernels lets another thread launch. */
static void hosted_tells(void)
{
	pthread_t other, thread;
	CUstream s = hold(0), next = stream_new();
	CUdeviceptr old = take(SIZE);
	late(old, SIZE, s);
	SAY(cuLaunchHostFunc(s, tell, &told));
	late(old, SIZE, s);
	thread = begin();
	pthread_create(&other, NULL, tells_fill, next);
	SAY(cuMemFree(old));
	CUdeviceptr fresh = take(SIZE);
	early(fresh, old, SIZE);
	atomic_store(&place, fresh);
	end(thread);
	pthread_join(other, NULL);
	MUST(cuCtxSynchronize());
	holds(fresh, SIZE, 7);
}

static atomic_int filled; /* the result of the call inside */

static void CUDA_CB fills(void *arg)
{
	atomic_store(&filled, (int)cuMemsetD8Async(atomic_load(&place), 7, SIZE, arg));
}

static CUdeviceptr hosted_again(pthread_t *thread)
{
	CUstream s = hold(0);
	CUdeviceptr old = take(SIZE);
	late(old, SIZE, s);
	*thread = begin();
	SAY(cuMemFree(old));
	CUdeviceptr fresh = take(SIZE);
	early(fresh, old, SIZE);
	atomic_store(&place, fresh);
	return fresh;
}

static void filled_check(CUdeviceptr fresh, CUstream s, CUstream next)
{
	MUST(cuStreamSynchronize(s));
	MUST(cuStreamSynchronize(next));
	printf("inside: %d\n", atomic_load(&filled));
	holds(fresh, SIZE, 7);
}

/* A host function fills memory that was used by work in another stream, in a third one. */
static void hosted_fills(void)
{
	pthread_t thread;
	CUstream s = stream_new(), next = stream_new();
	CUdeviceptr fresh = hosted_again(&thread);
	SAY(cuLaunchHostFunc(s, fills, next));
	end(thread);
	filled_check(fresh, s, next);
}

static void CUDA_CB fills_back(CUstream stream, CUresult status, void *arg)
{
	(void)stream, (void)status;
	fills(arg);
}

static void callback_fills(void)
{
	pthread_t thread;
	CUstream s = stream_new(), next = stream_new();
	CUdeviceptr fresh = hosted_again(&thread);
	SAY(cuStreamAddCallback(s, fills_back, next, 0));
	end(thread);
	filled_check(fresh, s, next);
}

/* --- graphs launched from kernels --- */

static CUgraphExec the_child;

static void kernel_launch_graph(void **args)
{
	CUresult result = gm_sim_launch_from_kernel(the_child, *(int *)args[0]);
	if (result != CUDA_SUCCESS)
		printf("from a kernel: %s\n", result_name(result));
}

static void submit_launch(CUstream stream, int how)
{
	static const struct gm_sim_kernel kernel = {
		"launch", kernel_launch_graph, {sizeof(int)}, 0};
	static const struct gm_sim_image image = {GM_SIM_IMAGE, 1, &kernel, 0, 0, NULL};
	void *params[] = {&how};
	MUST(cuLaunchKernel(function_in(&image, "launch"), 1, 1, 1, 1, 1, 1, 0, stream, params,
			    NULL));
}

static CUgraphExec device_exec(CUstream stream)
{
	CUgraph graph;
	CUgraphExec exec;
	MUST(cuStreamEndCapture(stream, &graph));
	SAY(cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH));
	SAY(cuGraphUpload(exec, stream));
	MUST(cuStreamSynchronize(stream));
	return exec;
}

/* The pending write is a kernel of the graph that a kernel launches. */
static void graph(int how, bool other)
{
	CUstream s = stream_new(), next = other ? stream_new() : s;
	CUdeviceptr old = take(SIZE);
	fill_by_kernel(old, 7, SIZE, s); /* loads the kernel */
	MUST(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	late(old, SIZE, s);
	the_child = device_exec(s);
	MUST(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	submit_launch(s, how);
	CUgraphExec exec = device_exec(s);
	for (unsigned i = 0; i < 300; i++) /* the order of streams learns that all work has ended */
		MUST(cuMemFree(take(4096)));
	held[0] = s;
	gm_sim_hold(s);
	MUST(cuGraphLaunch(exec, s));
	gm_sim_release(s, 1); /* the kernel has launched the graph, which waits */
	replace(old, next);
}

#define GRAPH(name, how, other)    \
	static void name(void)     \
	{                          \
		graph(how, other); \
	}
GRAPH(graph_fire, GM_SIM_FIRE_AND_FORGET, false)
GRAPH(graph_fire_other, GM_SIM_FIRE_AND_FORGET, true)
GRAPH(graph_tail, GM_SIM_TAIL, false)
GRAPH(graph_tail_other, GM_SIM_TAIL, true)
GRAPH(graph_sibling, GM_SIM_SIBLING, false)
GRAPH(graph_sibling_other, GM_SIM_SIBLING, true)

int main(int argc, char **argv)
{
	static const struct program_case cases[] = {{"green", green},
						    {"green_same", green_same},
						    {"green_into", green_into},
						    {"green_current", green_current},
						    {"green_destroy", green_destroy},
						    {"hosted", hosted},
						    {"hosted_first", hosted_first},
						    {"hosted_asleep", hosted_asleep},
						    {"hosted_asleep_newer", hosted_asleep_newer},
						    {"hosted_tells", hosted_tells},
						    {"hosted_fills", hosted_fills},
						    {"callback_fills", callback_fills},
						    {"graph_fire", graph_fire},
						    {"graph_fire_other", graph_fire_other},
						    {"graph_tail", graph_tail},
						    {"graph_tail_other", graph_tail_other},
						    {"graph_sibling", graph_sibling},
						    {"graph_sibling_other", graph_sibling_other}};
	return case_run(cases, sizeof cases / sizeof *cases, argc, argv);
}
