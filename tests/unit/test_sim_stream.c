/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulated driver's queues: order, holding, and the streams that each call waits for. */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "sim_setup.h"

static char order[32];

static void note(void *name)
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

static void test_order(void)
{
	CUstream a, b, blocking;
	CUevent e;
	sim_start(NULL, NULL, NULL);
	drv(cuStreamCreate)(&a, CU_STREAM_NON_BLOCKING);
	drv(cuStreamCreate)(&b, CU_STREAM_NON_BLOCKING);
	drv(cuStreamCreate)(&blocking, CU_STREAM_DEFAULT);
	drv(cuEventCreate)(&e, CU_EVENT_DISABLE_TIMING);
	TAP_IS(gm_sim_launch(a, note, "1"), CUDA_SUCCESS, "a kernel is launched");
	TAP_STR(ran(), "1", "a kernel runs at once by default");
	gm_sim_hold(a);
	gm_sim_launch(a, note, "1");
	gm_sim_launch(a, note, "2");
	gm_sim_launch(b, note, "b");
	TAP_STR(ran(), "b", "one stream does not hold another up");
	TAP_IS(drv(cuStreamQuery)(a), CUDA_ERROR_NOT_READY, "a held stream is busy");
	TAP_IS(drv(cuStreamQuery)(b), CUDA_SUCCESS, "a stream that is not held is done");
	TAP_IS(gm_sim_release(a, 1), 1, "one step of a held stream is released");
	TAP_STR(ran(), "1", "the steps of a stream run in order");
	drv(cuEventRecord)(e, a);
	TAP_IS(drv(cuEventQuery)(e), CUDA_ERROR_NOT_READY,
	       "an event behind held work has not passed");
	drv(cuStreamWaitEvent)(b, e, 0);
	gm_sim_launch(b, note, "b");
	TAP_STR(ran(), "", "a stream that waits for the event does not run");
	TAP_IS(gm_sim_release(a, -1u), 2, "all steps of a held stream are released");
	TAP_STR(ran(), "2b", "a stream goes on when the event has passed");
	TAP_IS(drv(cuEventQuery)(e), CUDA_SUCCESS, "the event has passed");

	gm_sim_hold(blocking);
	gm_sim_launch(blocking, note, "s");
	gm_sim_launch(NULL, note, "0");
	gm_sim_launch(a, note, "a");
	TAP_STR(ran(), "a", "the legacy stream waits for blocking streams only");
	gm_sim_hold(NULL);
	gm_sim_release(blocking, -1u);
	TAP_STR(ran(), "s", "the legacy stream does not run while it is held");
	gm_sim_launch(blocking, note, "t");
	TAP_STR(ran(), "", "a blocking stream waits for the legacy one");
	gm_sim_release(NULL, -1u);
	TAP_STR(ran(), "0t", "the kernels of the legacy and a blocking stream run in order");
	drv(cuStreamDestroy_v2)(b);
	TAP_IS(drv(cuStreamQuery)(b), CUDA_ERROR_INVALID_HANDLE, "a destroyed stream is unknown");
	TAP_IS(drv(cuStreamDestroy_v2)(NULL), CUDA_ERROR_INVALID_HANDLE,
	       "NULL cannot be destroyed");
}

static void test_per_thread(void)
{
	CUdeviceptr p;
	char zero[16] = {0}, back[16];
	sim_start(NULL, NULL, NULL);
	drv(cuMemAlloc_v2)(&p, 16);
	drv(cuMemcpyHtoD_v2)(p, zero, 16);
	gm_sim_hold(NULL);
	drv(cuMemsetD8Async)(p, 1, 1, NULL);
	TAP_IS(drv(cuStreamQuery)(NULL), CUDA_ERROR_NOT_READY, "legacy work is held");
	TAP_IS(drv(cuStreamQuery_ptsz)(NULL), CUDA_SUCCESS,
	       "the twin asks the thread's own stream");
	TAP_IS(drv(cuStreamQuery)(CU_STREAM_PER_THREAD), CUDA_SUCCESS,
	       "the handle asks the thread's own stream, too");
	gm_sim_release(NULL, -1u);
	drv(cuMemcpyDtoH_v2_ptds)(back, p, 16);
	TAP_IS(back[0], 1, "the fill was done");
}

/* --- waiting --- */

static CUcontext the_ctx, other_ctx;
static CUstream the_stream;
static CUdeviceptr the_block;
static CUevent the_event;

enum call { FREE, CTX_SYNC, STREAM_SYNC, EVENT_SYNC, COPY, FREE_LARGE };
struct wait {
	enum call call;
	CUresult result;
	atomic_bool done;
};

static void *wait_body(void *arg)
{
	struct wait *w = arg;
	char back[4];
	drv(cuCtxSetCurrent)(the_ctx);
	switch (w->call) {
	case FREE:
	case FREE_LARGE:
		w->result = drv(cuMemFree_v2)(the_block);
		break;
	case CTX_SYNC:
		w->result = drv(cuCtxSynchronize)();
		break;
	case STREAM_SYNC:
		w->result = drv(cuStreamSynchronize)(the_stream);
		break;
	case EVENT_SYNC:
		w->result = drv(cuEventSynchronize)(the_event);
		break;
	case COPY: /* by the legacy stream: only a blocking stream delays it */
		w->result = drv(cuMemcpyDtoH_v2)(back, the_block, 4);
		break;
	}
	atomic_store(&w->done, true);
	return NULL;
}

static void nothing(void *arg)
{
	(void)arg;
}

static void test_waits(enum call call, unsigned flags, const char *name)
{
	struct wait w = {.call = call};
	pthread_t thread;
	the_ctx = sim_start(NULL, NULL, NULL);
	drv(cuStreamCreate)(&the_stream, flags);
	drv(cuEventCreate)(&the_event, 0);
	drv(cuMemAlloc_v2)(&the_block, call == FREE_LARGE ? 8 << 20 : 512);
	gm_sim_hold(the_stream);
	gm_sim_launch(the_stream, nothing, NULL);
	drv(cuEventRecord)(the_event, the_stream);
	pthread_create(&thread, NULL, wait_body, &w);
	while (gm_sim_waiters() == 0)
		sched_yield();
	TAP_OK(!atomic_load(&w.done), "%s waits for a kernel", name);
	CUdeviceptr p;
	TAP_IS(drv(cuMemAlloc_v2)(&p, 512), CUDA_SUCCESS,
	       "an allocation does not wait for a kernel");
	gm_sim_release(the_stream, -1u);
	pthread_join(thread, NULL);
	TAP_IS(w.result, CUDA_SUCCESS, "%s returns after the kernel", name);
	TAP_IS(gm_sim_waiters(), 0, "no thread waits any more");
}

static void test_waits_not(void)
{
	CUstream s;
	CUdeviceptr p, q;
	CUmemGenericAllocationHandle h;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	the_ctx = sim_start(NULL, NULL, NULL);
	drv(cuMemAlloc_v2)(&p, 512);
	drv(cuCtxCreate_v2)(&other_ctx, 0, 0);
	drv(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING);
	gm_sim_hold(s);
	gm_sim_launch(s, nothing, NULL);
	drv(cuCtxPopCurrent_v2)(NULL);
	TAP_IS(drv(cuMemFree_v2)(p), CUDA_SUCCESS, "a free: not for another context's kernel");
	TAP_IS(drv(cuCtxSynchronize)(), CUDA_SUCCESS,
	       "the context's own wait does not cover another context");
	drv(cuMemAddressReserve)(&q, 2 << 20, 0, 0, 0);
	drv(cuMemCreate)(&h, 2 << 20, &prop, 0);
	drv(cuMemMap)(q, 2 << 20, 0, h, 0);
	drv(cuCtxPushCurrent_v2)(other_ctx);
	TAP_IS(drv(cuMemUnmap)(q, 2 << 20), CUDA_SUCCESS, "unmap waits for nothing");
	CUevent e;
	drv(cuEventCreate)(&e, 0);
	TAP_IS(drv(cuCtxRecordEvent)(other_ctx, e), CUDA_SUCCESS,
	       "an event of the context is recorded");
	TAP_IS(drv(cuEventQuery)(e), CUDA_ERROR_NOT_READY,
	       "an event of the context waits for a non-blocking stream");
	gm_sim_release(s, -1u);
	TAP_IS(drv(cuEventQuery)(e), CUDA_SUCCESS, "the event passes with that stream");
	gm_sim_break(other_ctx, CUDA_ERROR_ILLEGAL_ADDRESS);
	TAP_IS(drv(cuMemAlloc_v2)(&p, 1), CUDA_ERROR_ILLEGAL_ADDRESS,
	       "an allocation fails in a broken context");
	TAP_IS(drv(cuEventQuery)(e), CUDA_ERROR_ILLEGAL_ADDRESS,
	       "an event fails in a broken context");
	drv(cuCtxPopCurrent_v2)(NULL);
	TAP_IS(drv(cuMemAlloc_v2)(&p, 1), CUDA_SUCCESS, "calls without an error work");
}

/* A free block that is reused too early really is corrupted: fence tests rely on that. */
static void test_corrupts(void)
{
	CUdeviceptr keep, p, q;
	CUstream s;
	char value = 9;
	sim_start(NULL, NULL, NULL);
	drv(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING);
	drv(cuMemAlloc_v2)(&keep, 512);
	drv(cuMemAlloc_v2)(&p, 512);
	gm_sim_hold(s);
	drv(cuMemsetD8Async)(p, 1, 512, s);
	drv(cuMemFreeAsync)(p, CU_STREAM_PER_THREAD); /* not the stream that uses it */
	drv(cuMemAlloc_v2)(&q, 512);
	TAP_IS(p, q, "freed in another stream, the address is handed out again");
	drv(cuMemcpyHtoD_v2)(q, &value, 1);
	gm_sim_release(s, -1u);
	drv(cuMemcpyDtoH_v2)(&value, q, 1);
	TAP_IS(value, 1, "the late fill overwrites the block of the new owner");
}

/* --- kernels and graphs --- */

static void add_kernel(void **args)
{
	int *at = *(int **)args[0];
	*at += *(int *)args[1];
}

static const struct gm_sim_kernel kernels[] = {
	{.name = "add", .run = add_kernel, .args = {sizeof(int *), sizeof(int)}}};
static const struct gm_sim_image image = {.magic = GM_SIM_IMAGE, .count = 1, .kernels = kernels};

static void test_kernels(void)
{
	CUdeviceptr p;
	CUmodule module;
	CUlibrary library;
	CUfunction f;
	CUkernel k;
	CUstream s;
	CUgraph graph;
	CUgraphExec exec;
	int by = 5, value;
	void *args[] = {&p, &by};
	sim_start(NULL, NULL, NULL);
	drv(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING);
	drv(cuMemAlloc_v2)(&p, sizeof(int));
	drv(cuMemsetD32_v2)(p, 1, 1);
	TAP_IS(drv(cuModuleLoadData)(&module, "\177ELF, not ours"), CUDA_ERROR_INVALID_IMAGE,
	       "a foreign image is refused");
	TAP_IS(drv(cuModuleLoadData)(&module, &image), CUDA_SUCCESS, "a module is loaded");
	TAP_IS(drv(cuModuleGetFunction)(&f, module, "sub"), CUDA_ERROR_NOT_FOUND,
	       "an unknown kernel is not found");
	TAP_IS(drv(cuModuleGetFunction)(&f, module, "add"), CUDA_SUCCESS, "a kernel is found");
	gm_sim_hold(s);
	TAP_IS(drv(cuLaunchKernel)(f, 1, 1, 1, 32, 1, 1, 0, s, args, NULL), CUDA_SUCCESS,
	       "a kernel with arguments is launched");
	by = 100; /* arguments were read at the launch */
	gm_sim_release(s, -1u);
	drv(cuMemcpyDtoH_v2)(&value, p, sizeof value);
	TAP_IS(value, 6, "the kernel added the arguments of its launch");
	TAP_IS(drv(cuLaunchKernel)(f, 0, 1, 1, 1, 1, 1, 0, s, args, NULL), CUDA_ERROR_INVALID_VALUE,
	       "an empty grid is refused");
	TAP_IS(drv(cuLibraryLoadData)(&library, &image, NULL, NULL, 0, NULL, NULL, 0), CUDA_SUCCESS,
	       "a library is loaded");
	TAP_IS(drv(cuLibraryGetKernel)(&k, library, "add"), CUDA_SUCCESS,
	       "a library has its kernel");
	TAP_IS(drv(cuStreamBeginCapture_v2)(s, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS,
	       "a capture of kernels begins");
	TAP_IS(drv(cuLaunchKernel)((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, s, args, NULL), CUDA_SUCCESS,
	       "a launch is captured");
	TAP_IS(drv(cuStreamEndCapture)(s, &graph), CUDA_SUCCESS, "a capture of kernels ends");
	drv(cuMemcpyDtoH_v2)(&value, p, sizeof value);
	TAP_IS(value, 6, "nothing of the capture ran yet");
	TAP_IS(drv(cuGraphInstantiateWithFlags)(&exec, graph, 0), CUDA_SUCCESS,
	       "a graph is instantiated");
	drv(cuGraphDestroy)(graph);
	drv(cuGraphLaunch)(exec, s);
	drv(cuGraphLaunch)(exec, s);
	drv(cuStreamSynchronize)(s);
	drv(cuMemcpyDtoH_v2)(&value, p, sizeof value);
	TAP_IS(value, 206, "two launches of the graph add twice");
	TAP_IS(drv(cuGraphExecDestroy)(exec), CUDA_SUCCESS, "an executable graph is destroyed");
	TAP_IS(drv(cuGraphExecDestroy)(exec), CUDA_ERROR_INVALID_VALUE,
	       "an executable graph is destroyed once");
	TAP_IS(drv(cuModuleUnload)(module), CUDA_SUCCESS, "a module is unloaded");
	TAP_IS(drv(cuModuleUnload)(module), CUDA_ERROR_INVALID_HANDLE, "a module is unloaded once");
}

int main(void)
{
	test_order();
	test_per_thread();
	test_waits(FREE, CU_STREAM_NON_BLOCKING, "cuMemFree of 512 bytes");
	test_waits(FREE_LARGE, CU_STREAM_NON_BLOCKING, "cuMemFree of 8 MiB");
	test_waits(CTX_SYNC, CU_STREAM_NON_BLOCKING, "cuCtxSynchronize");
	test_waits(STREAM_SYNC, CU_STREAM_NON_BLOCKING, "cuStreamSynchronize");
	test_waits(EVENT_SYNC, CU_STREAM_NON_BLOCKING, "cuEventSynchronize");
	test_waits(COPY, CU_STREAM_DEFAULT, "a synchronous copy");
	test_waits_not();
	test_corrupts();
	test_kernels();
	return tap_done();
}
