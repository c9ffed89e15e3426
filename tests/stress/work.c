/* SPDX-License-Identifier: BSD-3-Clause */
#include "stress.h"

#include <string.h>

/* Copies to the device and back on a stream of this call; some blocks are freed while copies may be
 * in progress. */
void stress_stream(struct worker *w)
{
	struct slot *slot = stress_slot(w, true);
	CUstream stream;
	CUdeviceptr copy;
	if (!slot)
		return;
	if (TRY(w, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))) {
		if (TRY(w, cuMemAlloc(&copy, slot->size))) {
			bool copied =
				TRY(w, cuMemcpyDtoDAsync(copy, slot->base, slot->size, stream));
			bool checks = copied && stress_random(w, 2);
			if (checks && TRY(w, cuStreamSynchronize(stream)))
				stress_check(w, copy, slot->size, slot->tag);
			stress_free(w, copy);
		}
		TRY(w, cuStreamSynchronize(stream));
		TRY(w, cuStreamDestroy(stream));
	}
	stress_slot_leave(slot);
}

/* Launch the captured graph twice. */
static void graph_run(struct worker *w, CUgraph graph, CUstream stream)
{
	CUgraphExec exec;
	if (!TRY(w, cuGraphInstantiateWithFlags(&exec, graph, 0)))
		return;
	TRY(w, cuGraphLaunch(exec, stream));
	TRY(w, cuGraphLaunch(exec, stream));
	TRY(w, cuStreamSynchronize(stream));
	TRY(w, cuGraphExecDestroy(exec));
}

/* Allocate and free blocks while a stream is captured, on this thread and on all others. */
static bool capture_run(struct worker *w, CUstream stream, const struct slot *slot)
{
	CUgraph graph = NULL;
	CUdeviceptr between;
	if (!TRY(w, cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED)))
		return false;
	bool set = TRY(w, cuMemsetD8Async(slot->base, 0x3c, slot->size, stream));
	if (TRY(w, cuMemAlloc(&between, stress_size(w))))
		stress_free(w, between);
	CUresult result = cuStreamEndCapture(stream, &graph);
	if (result != CUDA_SUCCESS && !stress_injects)
		stress_fault(w, "a capture was lost: %d", result);
	if (!graph)
		return false;
	graph_run(w, graph, stream);
	TRY(w, cuGraphDestroy(graph));
	return set;
}

void stress_capture(struct worker *w)
{
	struct slot *slot = stress_slot(w, true);
	CUstream stream;
	char byte = 0;
	if (!slot)
		return;
	if (TRY(w, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))) {
		bool set = capture_run(w, stream, slot) && !stress_injects;
		if (set && TRY(w, cuMemcpyDtoH(&byte, slot->base + slot->size - 1, 1)) &&
		    byte != 0x3c)
			stress_fault(w, "a graph did not write its block");
		TRY(w, cuStreamDestroy(stream));
	}
	stress_fill(w, slot->base, slot->size, slot->tag);
	stress_slot_leave(slot);
}

/* Enable and disable access between the devices; a copy works with and without it. */
void stress_peer(struct worker *w)
{
	struct slot *slot = stress_slot(w, true);
	CUdeviceptr there;
	if (!slot)
		return;
	unsigned other = (slot->device + 1) % DEVICES;
	CUcontext from = stress_primary[slot->device], to = stress_use(w, other);
	CUresult result =
		stress_random(w, 2) ? cuCtxEnablePeerAccess(from, 0) : cuCtxDisablePeerAccess(from);
	if (result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED &&
	    result != CUDA_ERROR_PEER_ACCESS_NOT_ENABLED)
		stress_try(w, "peer access", result);
	if (TRY(w, cuMemAlloc(&there, slot->size))) {
		if (TRY(w, cuMemcpyPeer(there, to, slot->base, from, slot->size)))
			stress_check(w, there, slot->size, slot->tag);
		stress_free(w, there);
	}
	stress_slot_leave(slot);
}

/* Memory that the driver serves, beside the pool's. */
void stress_foreign(struct worker *w)
{
	size_t size = 1 + stress_random(w, 4 * MIB);
	CUdeviceptr p;
	void *host;
	stress_use(w, (unsigned)stress_random(w, DEVICES));
	switch (stress_random(w, 4)) {
	case 0:
		if (TRY(w, cuMemAllocManaged(&p, size, CU_MEM_ATTACH_GLOBAL))) {
			memset((void *)(uintptr_t)p, 7, 64 < size ? 64 : size);
			TRY(w, cuMemFree(p));
		}
		break;
	case 1:
		if (TRY(w, cuMemAllocHost(&host, size))) {
			memset(host, 7, 64 < size ? 64 : size);
			TRY(w, cuMemFreeHost(host));
		}
		break;
	case 2:
		if (TRY(w, cuMemAllocAsync(&p, size, NULL))) {
			TRY(w, cuMemsetD8Async(p, 7, size, NULL));
			TRY(w, cuMemFreeAsync(p, NULL));
		}
		break;
	default: {
		const CUDA_ARRAY_DESCRIPTOR flat = {256, 256, CU_AD_FORMAT_UNSIGNED_INT8, 1};
		CUarray array;
		if (TRY(w, cuArrayCreate(&array, &flat)))
			TRY(w, cuArrayDestroy(array));
	}
	}
}
