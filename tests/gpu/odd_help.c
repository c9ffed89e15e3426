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

static void *elsewhere_run(void *arg)
{
	struct elsewhere *e = arg;
	unsigned type;
	size_t size;
	if (e->context)
		MUST(cuCtxSetCurrent(e->context));
	switch (e->call) {
	case ODD_FREE:
		e->result = cuMemFree(e->at);
		break;
	case ODD_MEMSET:
		e->result = cuMemsetD8(e->at, 1, 8);
		break;
	case ODD_RANGE:
		e->result = cuMemGetAddressRange(NULL, &size, e->at);
		break;
	case ODD_ATTRIBUTE:
		e->result = cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, e->at);
		break;
	}
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
