/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs: the steps of a capture, in the order of their capture. */
#include <stdlib.h>

#include "sim/internal.h"

struct sim_graph *sim_graph_make(void)
{
	struct sim_graph *graph = calloc(1, sizeof *graph);
	if (graph)
		sim_list_add(&sim.graphs, &graph->node);
	return graph;
}

void sim_graph_drop(struct sim_graph *graph)
{
	for (size_t i = 0; i < graph->steps.n; i++)
		sim_work_release(graph->steps.at[i]);
	for (size_t i = 0; i < graph->memory.n; i++) {
		struct sim_region *region = sim_region_find(graph->memory.at[i]);
		if (region && region->graph == graph)
			sim_memory_free(region);
	}
	gm_array_free(&graph->steps);
	gm_array_free(&graph->memory);
	sim_list_remove(&graph->node);
	free(graph);
}

CUresult sim_graph_of(CUgraph handle, struct sim_graph **out)
{
	*out = (struct sim_graph *)handle;
	return handle && sim_list_has(&sim.graphs, *out) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_exec_of(CUgraphExec handle, struct sim_exec **out)
{
	*out = (struct sim_exec *)handle;
	return handle && sim_list_has(&sim.execs, *out) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGraphCreate(CUgraph *out, unsigned flags)
{
	if (!out || flags)
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUgraph)sim_graph_make();
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuGraphDestroy(CUgraph handle)
{
	struct sim_graph *graph;
	CUresult result = sim_graph_of(handle, &graph);
	if (result == CUDA_SUCCESS)
		sim_graph_drop(graph);
	return result;
}

CUresult sim_cuGraphGetNodes(CUgraph handle, CUgraphNode *nodes, size_t *count)
{
	struct sim_graph *graph;
	CUresult result = sim_graph_of(handle, &graph);
	if (result == CUDA_SUCCESS && !count)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	for (size_t i = 0; nodes && i < *count; i++)
		nodes[i] = i < graph->steps.n ? (CUgraphNode)graph->steps.at[i] : NULL;
	if (!nodes || *count > graph->steps.n)
		*count = graph->steps.n;
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphExecDestroy(CUgraphExec handle);

static CUresult graph_instantiate(CUgraphExec *out, CUgraph handle, unsigned long long flags)
{
	struct sim_graph *graph;
	CUresult result = sim_graph_of(handle, &graph);
	if (result == CUDA_SUCCESS && !out)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	struct sim_exec *exec = calloc(1, sizeof *exec);
	if (!exec || !gm_array_reserve(&exec->steps, graph->steps.n + 1) ||
	    !gm_array_reserve(&exec->nodes, graph->steps.n + 1)) {
		if (exec)
			gm_array_free(&exec->steps);
		free(exec);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (size_t i = 0; i < graph->steps.n; i++) {
		struct sim_work *node = graph->steps.at[i];
		struct sim_work *work = node->instead ? node->instead : node;
		node->refs++;
		work->refs++;
		exec->nodes.at[exec->nodes.n++] = node;
		exec->steps.at[exec->steps.n++] = work;
	}
	exec->on_device = flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
	exec->uploaded = flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
	sim_list_add(&sim.execs, &exec->node);
	*out = (CUgraphExec)exec;
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphInstantiate_v2(CUgraphExec *out, CUgraph graph, CUgraphNode *error_node,
				   char *text, size_t size)
{
	if (error_node)
		*error_node = NULL;
	if (text && size)
		*text = '\0';
	return graph_instantiate(out, graph, 0);
}

CUresult sim_cuGraphInstantiate(CUgraphExec *out, CUgraph graph, CUgraphNode *error_node,
				char *text, size_t size)
{
	return sim_cuGraphInstantiate_v2(out, graph, error_node, text, size);
}

CUresult sim_cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
	return flags & ~0xfull ? CUDA_ERROR_INVALID_VALUE : graph_instantiate(out, graph, flags);
}

CUresult sim_cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph,
					  CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = graph_instantiate(out, graph, params->flags);
	params->hErrNode_out = NULL;
	params->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
						    : CUDA_GRAPH_INSTANTIATE_ERROR;
	return result;
}

/* The steps of another graph, in the order of its nodes. */
static CUresult exec_update(CUgraphExec handle, CUgraph graph)
{
	CUgraphExec other;
	struct sim_exec *exec, *from;
	CUresult result = sim_exec_of(handle, &exec);
	if (result == CUDA_SUCCESS)
		result = graph_instantiate(&other, graph, 0);
	if (result != CUDA_SUCCESS)
		return result;
	from = (struct sim_exec *)other;
	if (from->steps.n != exec->steps.n)
		result = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	for (size_t i = 0; result == CUDA_SUCCESS && i < exec->steps.n; i++) {
		struct sim_work *step = exec->steps.at[i], *node = exec->nodes.at[i];
		exec->steps.at[i] = from->steps.at[i];
		exec->nodes.at[i] = from->nodes.at[i];
		from->steps.at[i] = step;
		from->nodes.at[i] = node;
	}
	sim_cuGraphExecDestroy(other);
	return result;
}

CUresult sim_cuGraphExecUpdate(CUgraphExec handle, CUgraph graph, CUgraphNode *node,
			       CUgraphExecUpdateResult *why)
{
	CUresult result = exec_update(handle, graph);
	if (node)
		*node = NULL;
	if (why)
		*why = result == CUDA_SUCCESS ? CU_GRAPH_EXEC_UPDATE_SUCCESS
					      : CU_GRAPH_EXEC_UPDATE_ERROR;
	return result;
}

CUresult sim_cuGraphExecUpdate_v2(CUgraphExec handle, CUgraph graph,
				  CUgraphExecUpdateResultInfo *info)
{
	CUresult result = exec_update(handle, graph);
	if (info)
		*info = (CUgraphExecUpdateResultInfo){
			.result = result == CUDA_SUCCESS ? CU_GRAPH_EXEC_UPDATE_SUCCESS
							 : CU_GRAPH_EXEC_UPDATE_ERROR};
	return result;
}

CUresult sim_cuGraphLaunch(CUgraphExec handle, CUstream stream)
{
	struct sim_exec *exec;
	struct sim_stream *s;
	CUresult result = sim_exec_of(handle, &exec);
	if (result == CUDA_SUCCESS)
		result = sim_stream_of(stream, &s);
	if (result == CUDA_SUCCESS && exec->on_device && !s->capture)
		return sim_launched_begin(exec, s);
	for (size_t i = 0; result == CUDA_SUCCESS && i < exec->steps.n; i++) {
		exec->steps.at[i]->refs++;
		result = sim_enqueue(s, exec->steps.at[i]);
	}
	return result;
}

CUresult sim_cuGraphUpload(CUgraphExec handle, CUstream stream)
{
	struct sim_exec *exec;
	struct sim_stream *s;
	CUresult result = sim_exec_of(handle, &exec);
	if (result == CUDA_SUCCESS)
		result = sim_stream_of(stream, &s);
	if (result == CUDA_SUCCESS)
		exec->uploaded = true;
	return result;
}

CUresult sim_cuGraphExecDestroy(CUgraphExec handle)
{
	struct sim_exec *exec;
	CUresult result = sim_exec_of(handle, &exec);
	if (result != CUDA_SUCCESS)
		return result;
	for (size_t i = 0; i < exec->steps.n; i++) {
		sim_work_release(exec->steps.at[i]);
		sim_work_release(exec->nodes.at[i]);
	}
	gm_array_free(&exec->steps);
	gm_array_free(&exec->nodes);
	sim_list_remove(&exec->node);
	free(exec);
	return CUDA_SUCCESS;
}
