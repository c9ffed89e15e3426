/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nodes that a program adds to a graph itself: allocation, free, copies and fills. The memory of a
 * node exists from the creation of the node until it is freed or its graph is destroyed. Copies and
 * fills are checked like the calls (not measured).
 */
#include "sim/copy.h"

static void nothing_run(void *data)
{
	(void)data;
}

static CUresult graph_add_work(struct sim_graph *graph, struct sim_work *work, CUgraphNode *out)
{
	if (!work || !gm_array_push(&graph->steps, work)) {
		sim_work_release(work);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*out = (CUgraphNode)work;
	return CUDA_SUCCESS;
}

/* Add an empty step for the node. */
static CUresult graph_add_step(struct sim_graph *graph, CUgraphNode *out)
{
	return graph_add_work(graph, sim_work_make(nothing_run, NULL, 0), out);
}

CUresult sim_cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *before,
				    size_t n, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
	struct sim_graph *graph;
	struct sim_region *region;
	CUresult result = sim_graph_of(handle, &graph);
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

/* The simulator reserves a node's memory when the node is made, to the end of the graph. It keeps
 * no peak: each attribute is the bytes that are reserved now. */
CUresult sim_cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
					  void *value)
{
	cuuint64_t bytes = 0;
	if (!sim_device_valid(device) || !value ||
	    (unsigned)attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < sim.regions.n; i++)
		if (sim.regions.at[i]->graph && sim.regions.at[i]->device == (unsigned)device)
			bytes += sim.regions.at[i]->size;
	*(cuuint64_t *)value = bytes;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGraphMemTrim(CUdevice device)
{
	return sim_device_valid(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGraphAddMemFreeNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *before,
				   size_t n, CUdeviceptr address)
{
	struct sim_graph *graph;
	CUresult result = sim_graph_of(handle, &graph);
	struct sim_region *region = sim_region_find(address);
	if (result != CUDA_SUCCESS || !out || (n && !before) || !region ||
	    region->base != address || region->graph != graph || region->node_frees)
		return CUDA_ERROR_INVALID_VALUE;
	region->node_frees = true;
	return graph_add_step(graph, out);
}

/* --- copies and fills --- */

static CUresult fill_work(const CUDA_MEMSET_NODE_PARAMS *p, struct sim_work **work)
{
	struct sim_reach reach;
	if (!p || !p->width || !p->height ||
	    (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_fill_work(p->dst, p->pitch, p->value, p->elementSize, p->width, p->height, work,
			     &reach);
}

/* A fill of mapped memory needs a context (driver 580). */
static bool fill_lacks_context(CUdeviceptr at, CUcontext context)
{
	const struct sim_region *region = sim_region_find(at);
	return !context && region && region->kind == SIM_MAPPING;
}

static CUresult graph_add(CUgraphNode *out, CUgraph handle, const CUgraphNode *before, size_t n,
			  CUresult made, struct sim_work *work)
{
	struct sim_graph *graph;
	if (made != CUDA_SUCCESS)
		return made;
	if (sim_graph_of(handle, &graph) == CUDA_SUCCESS && out && (!n || before))
		return graph_add_work(graph, work, out);
	sim_work_release(work);
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
				  size_t n, const CUDA_MEMCPY3D *params, CUcontext context)
{
	struct sim_work *work = NULL;
	CUresult made = sim_box_work(params, context, &work);
	return graph_add(out, graph, before, n, made, work);
}

CUresult sim_cuGraphAddMemsetNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
				  size_t n, const CUDA_MEMSET_NODE_PARAMS *params,
				  CUcontext context)
{
	struct sim_work *work = NULL;
	bool lacks = params && fill_lacks_context(params->dst, context);
	CUresult made = lacks ? CUDA_ERROR_INVALID_VALUE : fill_work(params, &work);
	return graph_add(out, graph, before, n, made, work);
}

static bool node_exists(CUgraphNode node)
{
	for (const struct sim_node *n = sim.graphs.first; n; n = n->next) {
		const struct sim_graph *graph = (const struct sim_graph *)n;
		for (size_t i = 0; i < graph->steps.n; i++)
			if (graph->steps.at[i] == (struct sim_work *)node)
				return true;
	}
	return false;
}

/* The present work of a node; NULL: no such node. */
static struct sim_work *node_work(CUgraphNode handle)
{
	struct sim_work *node = (struct sim_work *)handle;
	if (!node_exists(handle))
		return NULL;
	return node->instead ? node->instead : node;
}

/* Existing executable graphs keep the node's old work. */
static CUresult node_set(CUgraphNode handle, CUresult made, struct sim_work *work)
{
	struct sim_work *node = (struct sim_work *)handle;
	if (made != CUDA_SUCCESS)
		return made;
	if (!node_exists(handle)) {
		sim_work_release(work);
		return CUDA_ERROR_INVALID_VALUE;
	}
	sim_work_release(node->instead);
	node->instead = work;
	return CUDA_SUCCESS;
}

/* A copy's context cannot be changed, nor added later (driver 580). */
static CUresult exec_set(CUgraphExec handle, CUgraphNode node, CUresult made, struct sim_work *work)
{
	struct sim_exec *exec;
	if (made != CUDA_SUCCESS)
		return made;
	if (sim_exec_of(handle, &exec) == CUDA_SUCCESS)
		for (size_t i = 0; i < exec->nodes.n; i++)
			if (exec->nodes.at[i] == (struct sim_work *)node &&
			    exec->steps.at[i]->context == work->context) {
				sim_work_release(exec->steps.at[i]);
				exec->steps.at[i] = work;
				return CUDA_SUCCESS;
			}
	sim_work_release(work);
	return CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *params)
{
	struct sim_work *work = NULL;
	const struct sim_work *now = node_work(node);
	CUcontext context = now ? now->context : NULL;
	CUresult made = sim_box_work(params, context, &work);
	return node_set(node, made, work);
}

CUresult sim_cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *params)
{
	const struct sim_work *now = node_work(node);
	return now && params && sim_box_of_work(now, params) ? CUDA_SUCCESS
							     : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params)
{
	struct sim_work *work = NULL;
	CUresult made = fill_work(params, &work);
	return node_set(node, made, work);
}

CUresult sim_cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
					    const CUDA_MEMCPY3D *params, CUcontext context)
{
	struct sim_work *work = NULL;
	CUresult made = sim_box_work(params, context, &work);
	return exec_set(exec, node, made, work);
}

CUresult sim_cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
					    const CUDA_MEMSET_NODE_PARAMS *params,
					    CUcontext context)
{
	struct sim_work *work = NULL;
	bool lacks = params && fill_lacks_context(params->dst, context);
	CUresult made = lacks ? CUDA_ERROR_INVALID_VALUE : fill_work(params, &work);
	return exec_set(exec, node, made, work);
}

/* --- nodes of any kind --- */

#if CUDA_VERSION >= 12020

/* The work of a copy or fill node; NOT_SUPPORTED for other nodes. */
static CUresult params_work(const CUgraphNodeParams *params, struct sim_work **work)
{
	if (params && params->type == CU_GRAPH_NODE_TYPE_MEMCPY)
		return sim_box_work(&params->memcpy.copyParams, params->memcpy.copyCtx, work);
	if (!params || params->type != CU_GRAPH_NODE_TYPE_MEMSET)
		return params ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
	if (fill_lacks_context(params->memset.dst, params->memset.ctx))
		return CUDA_ERROR_INVALID_VALUE;
	const CUDA_MEMSET_NODE_PARAMS fill = {
		.dst = params->memset.dst,
		.pitch = params->memset.pitch,
		.value = params->memset.value,
		.elementSize = params->memset.elementSize,
		.width = params->memset.width,
		.height = params->memset.height,
	};
	return fill_work(&fill, work);
}

CUresult sim_cuGraphAddNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *before, size_t n,
			    CUgraphNodeParams *params)
{
	struct sim_graph *graph;
	struct sim_work *work = NULL;
	CUresult result = sim_graph_of(handle, &graph);
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
		result = params_work(params, &work);
		return graph_add(out, handle, before, n, result, work);
	}
}

CUresult sim_cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params)
{
	struct sim_work *work = NULL;
	CUresult made = params_work(params, &work);
	return node_set(node, made, work);
}

CUresult sim_cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
	struct sim_work *work = NULL;
	CUresult made = params_work(params, &work);
	return exec_set(exec, node, made, work);
}

#else

CUresult sim_cuGraphAddNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *before, size_t n,
			    CUgraphNodeParams *params)
{
	(void)out, (void)handle, (void)before, (void)n, (void)params;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params)
{
	(void)node, (void)params;
	return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sim_cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params)
{
	(void)exec, (void)node, (void)params;
	return CUDA_ERROR_NOT_SUPPORTED;
}

#endif

CUresult sim_cuGraphAddNode_v2(CUgraphNode *out, CUgraph handle, const CUgraphNode *before,
			       const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *params)
{
	(void)edges; /* ports of kernels: nothing to simulate */
	return sim_cuGraphAddNode(out, handle, before, n, params);
}

/* From 13.4 on the contexts of kernel nodes are checked: no kernel node is simulated. */
CUresult sim_cuGraphAddNode_v3(CUgraphNode *out, CUgraph handle, const CUgraphNode *before,
			       const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *params)
{
	return sim_cuGraphAddNode_v2(out, handle, before, edges, n, params);
}

CUresult sim_cuGraphNodeSetParams_v2(CUgraphNode node, CUgraphNodeParams *params)
{
	return sim_cuGraphNodeSetParams(node, params);
}
