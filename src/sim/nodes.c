/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nodes that a program adds to a graph itself: allocation and free. The memory of a node exists
 * from the creation of the node until it is freed or its graph destroyed.
 */
#include "sim/internal.h"

static CUresult graph_find(CUgraph handle, struct sim_graph **out)
{
	*out = (struct sim_graph *)handle;
	return handle && sim_list_has(&sim.graphs, *out) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void nothing_run(void *data)
{
	(void)data;
}

/* An empty step represents the node. */
static CUresult graph_add_step(struct sim_graph *graph, CUgraphNode *out)
{
	struct sim_work *work = sim_work_make(nothing_run, NULL, 0);
	if (!work || !gm_array_push(&graph->steps, work))
		return CUDA_ERROR_OUT_OF_MEMORY;
	*out = (CUgraphNode)work;
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *before,
				    size_t n, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	struct sim_graph *graph;
	struct sim_region *region;
	CUresult result = graph_find(handle, &graph);
	if (result != CUDA_SUCCESS || !out || !params || !params->bytesize || (n && !before) ||
	    params->poolProps.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !sim_device_valid(params->poolProps.location.id))
		return CUDA_ERROR_INVALID_VALUE;
	struct sim_context *primary = &sim.devices[params->poolProps.location.id].primary;
	if (!primary->alive || !gm_array_reserve(&graph->memory, graph->memory.n + 1))
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_memory_alloc(SIM_ASYNC, primary, params->bytesize, &region);
	if (result != CUDA_SUCCESS)
		return result;
	region->graph = graph;
	(void)gm_array_push(&graph->memory, region->base);
	params->dptr = region->base;
	return graph_add_step(graph, out);
}

CUresult sim_cuGraphAddMemFreeNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *before,
				   size_t n, CUdeviceptr address)
{
	struct sim_graph *graph;
	CUresult result = graph_find(handle, &graph);
	const struct sim_region *region = sim_region_find(address);
	if (result != CUDA_SUCCESS || !out || (n && !before) || !region ||
	    region->base != address || region->graph != graph)
		return CUDA_ERROR_INVALID_VALUE;
	return graph_add_step(graph, out);
}

/* --- nodes of any kind --- */

#if CUDA_VERSION >= 12020

CUresult sim_cuGraphAddNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *before, size_t n,
			    CUgraphNodeParams *params)
{
	struct sim_graph *graph;
	CUresult result = graph_find(handle, &graph);
	if (result != CUDA_SUCCESS || !out || !params || (n && !before))
		return CUDA_ERROR_INVALID_VALUE;
	switch (params->type) {
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return graph_add_step(graph, out);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
		CUDA_MEM_ALLOC_NODE_PARAMS alloc = {.poolProps = params->alloc.poolProps,
						    .bytesize = params->alloc.bytesize};
		result = sim_cuGraphAddMemAllocNode(out, handle, before, n, &alloc);
		if (result == CUDA_SUCCESS)
			params->alloc.dptr = alloc.dptr;
		return result;
	}
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return sim_cuGraphAddMemFreeNode(out, handle, before, n, params->free.dptr);
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

#else

CUresult sim_cuGraphAddNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *before, size_t n,
			    CUgraphNodeParams *params)
{
	(void)out, (void)handle, (void)before, (void)n, (void)params;
	return CUDA_ERROR_NOT_SUPPORTED;
}

#endif

CUresult sim_cuGraphAddNode_v2(CUgraphNode *out, CUgraph handle, const CUgraphNode *before,
			       const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *params)
{
	(void)edges; /* ports of kernels: nothing to simulate */
	return sim_cuGraphAddNode(out, handle, before, n, params);
}
