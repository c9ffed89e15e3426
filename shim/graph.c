/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of allocation nodes. It is there until it is freed, or until the graph and every
 * executable graph that was made of it are destroyed: together they hold a group.
 */
#include "base/array.h"
#include "foreign.h"

struct holder {
	const void *handle; /* CUgraph or CUgraphExec */
	uint64_t group;
};

static struct gm_lock lock = GM_LOCK_INIT(GM_RANK_TABLE);
static GM_ARRAY(struct holder) holders; /* of groups only: graphs without such nodes are not here */
static uint64_t last_group;
static atomic_size_t n_holders; /* saves the lock where there are none */

/* Under the lock; holders.n: not there. */
static size_t find(const void *handle)
{
	size_t i = 0;
	while (i < holders.n && holders.at[i].handle != handle)
		i++;
	return i;
}

/* Under the lock. */
static bool push(const void *handle, uint64_t group)
{
	if (!gm_array_push(&holders, (struct holder){handle, group}))
		return false;
	atomic_store_explicit(&n_holders, holders.n, memory_order_relaxed);
	return true;
}

/* The group of a graph, a new one at first; 0: no host memory for it. */
static uint64_t group_of(CUgraph graph)
{
	gm_lock_take(&lock);
	size_t i = find(graph);
	if (i == holders.n && push(graph, last_group + 1))
		last_group++;
	uint64_t group = i < holders.n ? holders.at[i].group : 0;
	gm_lock_release(&lock);
	return group;
}

bool gm_graph_captured(CUstream stream, uint64_t *group)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUgraph graph = NULL;
	if (!gm_capture_any() || !gm_shim_driver.cuStreamGetCaptureInfo_v2)
		return false;
	if (gm_shim_driver.cuStreamGetCaptureInfo_v2(stream, &status, NULL, &graph, NULL, NULL) !=
		    CUDA_SUCCESS ||
	    status != CU_STREAM_CAPTURE_STATUS_ACTIVE || !graph)
		return false;
	*group = group_of(graph);
	return true;
}

static void instantiated(CUgraph graph, CUgraphExec exec)
{
	if (!atomic_load_explicit(&n_holders, memory_order_relaxed))
		return;
	gm_lock_take(&lock);
	size_t i = find(graph);
	if (i < holders.n)
		push(exec, holders.at[i].group);
	gm_lock_release(&lock);
}

/* Out before the driver can hand the name out again. */
static bool take(const void *handle, struct holder *out)
{
	if (!atomic_load_explicit(&n_holders, memory_order_relaxed))
		return false;
	gm_lock_take(&lock);
	size_t i = find(handle);
	bool found = i < holders.n;
	if (found) {
		*out = holders.at[i];
		holders.at[i] = holders.at[--holders.n];
		atomic_store_explicit(&n_holders, holders.n, memory_order_relaxed);
	}
	gm_lock_release(&lock);
	return found;
}

static void took(const struct holder *holder, CUresult result)
{
	bool held = false;
	gm_lock_take(&lock);
	if (result != CUDA_SUCCESS)
		held = push(holder->handle, holder->group);
	for (size_t i = 0; i < holders.n && !held; i++)
		held = holders.at[i].group == holder->group;
	gm_lock_release(&lock);
	if (!held)
		gm_foreign_group_gone(holder->group);
}

#define ENDS(symbol, type)                                      \
	CUresult on_##symbol(type handle)                       \
	{                                                       \
		struct holder holder;                           \
		if (!gm_shim_enter())                           \
			return real.symbol(handle);             \
		bool held = take(handle, &holder);              \
		CUresult result = GM_PASS(real.symbol(handle)); \
		if (held)                                       \
			took(&holder, result);                  \
		gm_shim_leave();                                \
		return result;                                  \
	}
ENDS(cuGraphDestroy, CUgraph)
ENDS(cuGraphExecDestroy, CUgraphExec)

#define INSTANTIATES(symbol, parameters, arguments) \
	GM_TAKES(symbol, parameters, arguments, instantiated(graph, *exec))
INSTANTIATES(cuGraphInstantiate,
	     (CUgraphExec * exec, CUgraph graph, CUgraphNode *node, char *text, size_t size),
	     (exec, graph, node, text, size))
INSTANTIATES(cuGraphInstantiate_v2,
	     (CUgraphExec * exec, CUgraph graph, CUgraphNode *node, char *text, size_t size),
	     (exec, graph, node, text, size))
INSTANTIATES(cuGraphInstantiateWithFlags,
	     (CUgraphExec * exec, CUgraph graph, unsigned long long flags), (exec, graph, flags))
INSTANTIATES(cuGraphInstantiateWithParams,
	     (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
	     (exec, graph, params))
INSTANTIATES(cuGraphInstantiateWithParams_ptsz,
	     (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
	     (exec, graph, params))

/* --- nodes --- */

static void given(CUgraph graph, const CUmemPoolProps *props, CUdeviceptr at, size_t size)
{
	bool ours = props->location.type == CU_MEM_LOCATION_TYPE_DEVICE && props->location.id >= 0;
	const struct gm_foreign f = {
		.key = at,
		.space = GM_SPACE_DEVICE,
		.kind = GM_FOREIGN_GRAPH,
		.ordinal = ours ? (unsigned)props->location.id : 0,
		.size = size,
		.group = group_of(graph),
	};
	if (ours && f.ordinal < gm_shim_n_devices)
		gm_foreign_add(&f);
}

GM_TAKES(cuGraphAddMemAllocNode,
	 (CUgraphNode * node, CUgraph graph, const CUgraphNode *before, size_t n,
	  CUDA_MEM_ALLOC_NODE_PARAMS *params),
	 (node, graph, before, n, params),
	 given(graph, &params->poolProps, params->dptr, params->bytesize))
GM_GIVES_UP(cuGraphAddMemFreeNode,
	    (CUgraphNode * node, CUgraph graph, const CUgraphNode *before, size_t n,
	     CUdeviceptr at),
	    (node, graph, before, n, at), GM_SPACE_DEVICE, at)

#if CUDA_VERSION >= 12020
/* The same, in one call for every type of node. */
static CUdeviceptr freed_by(const CUgraphNodeParams *params)
{
	return params && params->type == CU_GRAPH_NODE_TYPE_MEM_FREE ? params->free.dptr : 0;
}

static void added(CUgraph graph, const CUgraphNodeParams *params)
{
	if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		given(graph, &params->alloc.poolProps, params->alloc.dptr, params->alloc.bytesize);
}

#define ADDS(symbol, parameters, arguments)                            \
	CUresult on_##symbol parameters                                \
	{                                                              \
		struct gm_foreign f;                                   \
		if (!gm_shim_enter())                                  \
			return real.symbol arguments;                  \
		CUdeviceptr at = freed_by(params);                     \
		bool known = gm_foreign_take(GM_SPACE_DEVICE, at, &f); \
		CUresult result = GM_PASS(real.symbol arguments);      \
		if (gm_retry(result))                                  \
			result = GM_PASS(real.symbol arguments);       \
		gm_foreign_took(&f, known, result);                    \
		if (result == CUDA_SUCCESS)                            \
			added(graph, params);                          \
		gm_shim_leave();                                       \
		return result;                                         \
	}
ADDS(cuGraphAddNode,
     (CUgraphNode * node, CUgraph graph, const CUgraphNode *before, size_t n,
      CUgraphNodeParams *params),
     (node, graph, before, n, params))
ADDS(cuGraphAddNode_v2,
     (CUgraphNode * node, CUgraph graph, const CUgraphNode *before, const CUgraphEdgeData *edges,
      size_t n, CUgraphNodeParams *params),
     (node, graph, before, edges, n, params))
#else
/* A toolkit that cannot look into the parameters: passed on. */
GM_TAKES(cuGraphAddNode,
	 (CUgraphNode * node, CUgraph graph, const CUgraphNode *before, size_t n,
	  CUgraphNodeParams *params),
	 (node, graph, before, n, params), (void)0)
GM_TAKES(cuGraphAddNode_v2,
	 (CUgraphNode * node, CUgraph graph, const CUgraphNode *before,
	  const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *params),
	 (node, graph, before, edges, n, params), (void)0)
#endif

void gm_graph_forget_all(void)
{
	gm_lock_init(&lock, GM_RANK_TABLE);
	holders.at = NULL;
	holders.n = holders.room = 0;
	atomic_store(&n_holders, 0);
}
