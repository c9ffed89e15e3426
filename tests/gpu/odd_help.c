/* SPDX-License-Identifier: BSD-3-Clause */
/* Helpers for rows of odd_*.def that need more than a line. */
#include "odd.h"

#include <pthread.h>

CUmemGenericAllocationHandle odd_created(void)
{
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemGenericAllocationHandle handle;
	MUST(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	return handle;
}

CUdeviceptr odd_mapped(void)
{
	const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
					.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr at;
	MUST(cuMemAddressReserve(&at, 2 * MIB, 0, 0, 0));
	MUST(cuMemMap(at, 2 * MIB, 0, odd_created(), 0));
	MUST(cuMemSetAccess(at, 2 * MIB, &access, 1));
	return at;
}

CUgraph odd_graph(void)
{
	CUgraph graph;
	MUST(cuGraphCreate(&graph, 0));
	return graph;
}

CUresult odd_memset_node(struct odd *o, CUdeviceptr at, size_t pitch, unsigned element,
			 size_t width, size_t rows)
{
	const CUDA_MEMSET_NODE_PARAMS params = {.dst = at,
						.pitch = pitch,
						.value = 1,
						.elementSize = element,
						.width = width,
						.height = rows};
	CUgraphNode node;
	return cuGraphAddMemsetNode(&node, odd_graph(), NULL, 0, &params, o->context);
}

CUresult odd_copy_node(struct odd *o, CUdeviceptr to, CUdeviceptr from, size_t width, size_t rows)
{
	const CUDA_MEMCPY3D params = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = from,
		.srcPitch = 100,
		.srcHeight = rows,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = to,
		.dstPitch = 100,
		.dstHeight = rows,
		.WidthInBytes = width,
		.Height = rows,
		.Depth = 1,
	};
	CUgraphNode node;
	return cuGraphAddMemcpyNode(&node, odd_graph(), NULL, 0, &params, o->context);
}

void odd_node_contexts(CUdeviceptr at, CUdeviceptr from, CUcontext first, CUcontext then)
{
	const CUDA_MEMSET_NODE_PARAMS fill = {
		.dst = at, .value = 1, .elementSize = 1, .width = 8, .height = 1};
	const CUDA_MEMCPY3D copy = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcDevice = from,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = at,
		.WidthInBytes = 8,
		.Height = 1,
		.Depth = 1,
	};
	CUgraph graph = odd_graph();
	CUgraphNode node = NULL;
	CUgraphExec exec = NULL;
	SAY(from ? cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, first)
		 : cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, first));
	SAY(cuGraphInstantiateWithFlags(&exec, graph, 0));
	if (node && exec)
		SAY(from ? cuGraphExecMemcpyNodeSetParams(exec, node, &copy, then)
			 : cuGraphExecMemsetNodeSetParams(exec, node, &fill, then));
}

struct elsewhere {
	CUcontext context;
	enum odd_call call;
	CUdeviceptr at;
	CUresult result;
};

static CUresult elsewhere_call(const struct elsewhere *e)
{
	unsigned type;
	size_t size, all;
	char byte = 1;
	CUdeviceptr fresh;
	switch (e->call) {
	case ODD_FREE:
		return cuMemFree(e->at);
	case ODD_MEMSET:
		return cuMemsetD8(e->at, 1, 8);
	case ODD_RANGE:
		return cuMemGetAddressRange(NULL, &size, e->at);
	case ODD_ATTRIBUTE:
		return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, e->at);
	case ODD_ALLOC:
		return cuMemAlloc(&fresh, 1000);
	case ODD_QUERY:
		return cuStreamQuery(NULL);
	case ODD_INFO:
		return cuMemGetInfo(&size, &all);
	case ODD_COPY:
		return cuMemcpyHtoD(e->at, &byte, 1);
	case ODD_FREE_ASYNC:
		return cuMemFreeAsync(e->at, NULL);
	}
	return CUDA_ERROR_UNKNOWN;
}

static void *elsewhere_run(void *arg)
{
	struct elsewhere *e = arg;
	if (e->context)
		MUST(cuCtxSetCurrent(e->context));
	e->result = elsewhere_call(e);
	return NULL;
}

CUresult odd_elsewhere(CUcontext context, enum odd_call call, CUdeviceptr at)
{
	struct elsewhere e = {.context = context, .call = call, .at = at};
	pthread_t thread;
	MUST(pthread_create(&thread, NULL, elsewhere_run, &e));
	MUST(pthread_join(thread, NULL));
	return e.result;
}

static void CUDA_CB hosted_run(void *arg)
{
	struct elsewhere *e = arg;
	e->result = elsewhere_call(e);
}

static void CUDA_CB called_back_run(CUstream stream, CUresult status, void *arg)
{
	(void)stream, (void)status;
	hosted_run(arg);
}

CUresult odd_hosted(struct odd *o, enum odd_call call, CUdeviceptr at)
{
	struct elsewhere e = {.call = call, .at = at};
	MUST(cuLaunchHostFunc(o->stream, hosted_run, &e));
	MUST(cuStreamSynchronize(o->stream));
	return e.result;
}

CUresult odd_called_back(struct odd *o, enum odd_call call, CUdeviceptr at)
{
	struct elsewhere e = {.call = call, .at = at};
	MUST(cuStreamAddCallback(o->stream, called_back_run, &e, 0));
	MUST(cuStreamSynchronize(o->stream));
	return e.result;
}
