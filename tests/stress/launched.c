/* SPDX-License-Identifier: BSD-3-Clause */
#include "stress.h"

#include <stdlib.h>
#include <string.h>

#include "api/gpumem.h"
#include "sim/sim.h"

#include "../preload/steer.h"

/* --- green contexts --- */

#if CUDA_VERSION >= 12050
static bool green_make(struct worker *w, unsigned device, CUgreenCtx *green, CUstream *stream)
{
	CUdevResource all, part;
	CUdevResourceDesc description;
	unsigned n = 1;
	if (!TRY(w, cuDeviceGetDevResource((CUdevice)device, &all, CU_DEV_RESOURCE_TYPE_SM)) ||
	    !TRY(w, cuDevSmResourceSplitByCount(&part, &n, &all, NULL, 0, 16)) ||
	    !TRY(w, cuDevResourceGenerateDesc(&description, &part, 1)) ||
	    !TRY(w, cuGreenCtxCreate(green, description, (CUdevice)device,
				     CU_GREEN_CTX_DEFAULT_STREAM)))
		return false;
	if (TRY(w, cuGreenCtxStreamCreate(stream, *green, CU_STREAM_NON_BLOCKING, 0)))
		return true;
	TRY(w, cuGreenCtxDestroy(*green));
	return false;
}

/* A copy in a stream of a green context, which is also current in half of the calls; the copy is
 * freed while it may be in progress, and the green context ends. */
void stress_green(struct worker *w)
{
	struct slot *slot = stress_slot(w, true);
	CUgreenCtx green;
	CUstream stream;
	CUcontext derived;
	CUdeviceptr copy;
	if (!slot)
		return;
	if (green_make(w, slot->device, &green, &stream)) {
		if (stress_random(w, 2) && TRY(w, cuCtxFromGreenCtx(&derived, green)))
			TRY(w, cuCtxSetCurrent(derived));
		if (TRY(w, cuMemAlloc(&copy, slot->size))) {
			bool copied =
				TRY(w, cuMemcpyDtoDAsync(copy, slot->base, slot->size, stream));
			bool checks = copied && stress_random(w, 2);
			if (checks && TRY(w, cuStreamSynchronize(stream)))
				stress_check(w, copy, slot->size, slot->tag);
			stress_free(w, copy);
		}
		stress_use(w, slot->device);
		if (stress_random(w, 2))
			TRY(w, cuStreamSynchronize(stream));
		TRY(w, cuStreamDestroy(stream));
		TRY(w, cuGreenCtxDestroy(green));
	}
	stress_slot_leave(slot);
}
#else
void stress_green(struct worker *w)
{
	(void)w;
}
#endif

/* --- host functions --- */

struct hosted {
	const struct worker *worker;
	const struct slot *slot;
};

/* As on the GPU; an injected failure comes before the check of the simulated driver. */
static void hosted_call(const struct worker *w, const char *call, CUresult result)
{
	if (result != CUDA_ERROR_NOT_PERMITTED &&
	    !(stress_injects && result == CUDA_ERROR_OUT_OF_MEMORY))
		stress_fault(w, "in a host function, %s: %d", call, result);
}
#define REFUSED(w, call) hosted_call(w, #call, call)

static void CUDA_CB hosted_run(void *arg)
{
	const struct hosted *h = arg;
	const struct slot *slot = h->slot;
	CUdeviceptr fresh;
	size_t available, total;
	char byte = 0;
	REFUSED(h->worker, cuMemAlloc(&fresh, 1000));
	REFUSED(h->worker, cuMemFree(slot->base));
	REFUSED(h->worker, cuMemGetInfo(&available, &total));
	REFUSED(h->worker, cuMemsetD8(slot->base, 0, 1));
	REFUSED(h->worker, cuMemcpyHtoD(slot->base, &byte, 1));
	REFUSED(h->worker, cuMemcpyDtoH(&byte, slot->base, 1));
}

static void CUDA_CB hosted_callback(CUstream stream, CUresult status, void *arg)
{
	(void)stream, (void)status;
	hosted_run(arg);
}

/* Calls in a host function are refused, and damage nothing. */
void stress_hosted(struct worker *w)
{
	struct slot *slot = stress_slot(w, true);
	struct hosted hosted = {w, slot};
	CUstream stream;
	if (!slot)
		return;
	if (TRY(w, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))) {
		if (stress_random(w, 2))
			TRY(w, cuLaunchHostFunc(stream, hosted_run, &hosted));
		else
			TRY(w, cuStreamAddCallback(stream, hosted_callback, &hosted, 0));
		TRY(w, cuStreamSynchronize(stream));
		TRY(w, cuStreamDestroy(stream));
	}
	stress_check(w, slot->base, slot->size, slot->tag);
	stress_slot_leave(slot);
}

/* --- graphs that kernels launch --- */

struct launch {
	CUgraphExec child;
	enum gm_sim_from_kernel way;
	CUresult result;
};

static void launch_run(void *arg)
{
	struct launch *launch = arg;
	launch->result = gm_sim_launch_from_kernel(launch->child, launch->way);
}

/* The graph of a capture, for launches by kernels; NULL: none. */
static CUgraphExec launch_exec(const struct worker *w, CUstream stream)
{
	CUgraph graph = NULL;
	CUgraphExec exec = NULL;
	CUresult result = cuStreamEndCapture(stream, &graph);
	if (result != CUDA_SUCCESS && !stress_injects)
		stress_fault(w, "a capture was lost: %d", result);
	if (!graph)
		return NULL;
	if (TRY(w, cuGraphInstantiateWithFlags(&exec, graph,
					       CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)) &&
	    !TRY(w, cuGraphUpload(exec, stream))) {
		TRY(w, cuGraphExecDestroy(exec));
		exec = NULL;
	}
	TRY(w, cuGraphDestroy(graph));
	return exec;
}

/* True: the graph has set all bytes of the block. */
static bool launch_set(struct worker *w, CUstream stream, const struct slot *slot)
{
	struct launch launch = {NULL, (enum gm_sim_from_kernel)stress_random(w, 3), CUDA_SUCCESS};
	if (!TRY(w, cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)))
		return false;
	bool set = TRY(w, cuMemsetD8Async(slot->base, 0x5a, slot->size, stream));
	launch.child = launch_exec(w, stream);
	if (!launch.child)
		return false;
	CUgraphExec parent = NULL;
	if (TRY(w, cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED))) {
		set = TRY(w, gm_sim_launch(stream, launch_run, &launch)) && set;
		parent = launch_exec(w, stream);
	}
	if (parent) {
		set = TRY(w, cuGraphLaunch(parent, stream)) && set;
		TRY(w, cuStreamSynchronize(stream));
		TRY(w, launch.result);
		TRY(w, cuGraphExecDestroy(parent));
	}
	TRY(w, cuGraphExecDestroy(launch.child));
	return set && parent;
}

/* A kernel of a graph launches the graph that writes the block. */
void stress_launched(struct worker *w)
{
	struct slot *slot = stress_slot(w, true);
	CUstream stream;
	char byte = 0;
	if (!slot)
		return;
	if (TRY(w, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))) {
		bool set = launch_set(w, stream, slot) && !stress_injects;
		if (set && TRY(w, cuMemcpyDtoH(&byte, slot->base + slot->size - 1, 1)) &&
		    byte != 0x5a)
			stress_fault(w, "a graph launched by a kernel did not write its block");
		TRY(w, cuStreamDestroy(stream));
	}
	stress_fill(w, slot->base, slot->size, slot->tag);
	stress_slot_leave(slot);
}

/* --- large copies of pageable memory: with GPUMEM_COPY they go through slots --- */

void stress_pageable(struct worker *w)
{
	const size_t size = 8 * MIB + stress_random(w, 16 * MIB);
	unsigned char *there = malloc(size), *back = malloc(size);
	CUdeviceptr block;
	stress_use(w, (unsigned)stress_random(w, DEVICES));
	if (there && back && TRY(w, cuMemAlloc(&block, size))) {
		memset(there, (int)stress_random(w, 256), size);
		memset(there + size / 2, (int)stress_random(w, 256), size / 4);
		if (TRY(w, cuMemcpyHtoD(block, there, size)) &&
		    TRY(w, cuMemcpyDtoH(back, block, size)) && memcmp(there, back, size) != 0)
			stress_fault(w, "a copy of %zu bytes there and back differs", size);
		stress_free(w, block);
	}
	free(there);
	free(back);
}

/* --- sleep: with GPUMEM_SLEEP all contents leave the devices until the next call --- */

void stress_sleep(struct worker *w)
{
	(void)w;
	gpumem_sleep(); /* refused while blocks are shared, and so on */
	if (stress_random(w, 4) == 0)
		gpumem_wake();
}
