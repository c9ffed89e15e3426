/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of allocation nodes. It lives until it is freed, or until the graph and every executable
 * graph made from it are destroyed. The graph and its executable graphs are the holders of a group.
 */
#include "shim/foreign/graph.h"

#include "base/array.h"
#include "base/lock.h"
#include "log/count.h"
#include "shim/context/capture.h"
#include "shim/copy/node.h"
#include "shim/foreign/foreign.h"
#include "shim/memory/device.h"
#include "shim/memory/retry.h"

struct holder {
	const void *handle; /* CUgraph or CUgraphExec */
	uint64_t group;
};

static struct gm_lock lock = GM_LOCK_INIT(GM_LOCK_RANK_TABLE);
static GM_ARRAY(struct holder) holders; /* of graphs with allocation nodes; under the lock */
static uint64_t last_group;		/* under the lock */
static atomic_size_t n_holders;		/* avoids the lock while there are none */

/* The index of a holder; holders.n: not found. */
static size_t holder_find(const void *handle)
{
	size_t i = 0;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	while (i < holders.n && holders.at[i].handle != handle)
		i++;
	return i;
}

static bool holder_push(const void *handle, uint64_t group)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	if (!gm_array_push(&holders, (struct holder){handle, group}))
		return false;
	atomic_store_explicit(&n_holders, holders.n, memory_order_relaxed);
	return true;
}

/* The group of a graph, made on first use; 0: no host memory. */
static uint64_t graph_group(CUgraph graph)
{
	gm_lock_take(&lock);
	size_t i = holder_find(graph);
	if (i == holders.n && holder_push(graph, last_group + 1))
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
	*group = graph_group(graph);
	return true;
}

bool gm_graph_capture_refuses(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	if (!gm_capture_any() || !gm_shim_driver.cuStreamGetCaptureInfo_v2)
		return false;
	return gm_shim_driver.cuStreamGetCaptureInfo_v2(stream, &status, NULL, NULL, NULL, NULL) !=
		       CUDA_SUCCESS ||
	       status == CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

static void graph_instantiated(CUgraph graph, CUgraphExec exec)
{
	if (!atomic_load_explicit(&n_holders, memory_order_relaxed))
		return;
	gm_lock_take(&lock);
	size_t i = holder_find(graph);
	if (i < holders.n)
		holder_push(exec, holders.at[i].group);
	gm_lock_release(&lock);
}

/* Remove a holder before the driver can reuse its handle for another graph. */
static bool holder_take(const void *handle, struct holder *out)
{
	if (!atomic_load_explicit(&n_holders, memory_order_relaxed))
		return false;
	gm_lock_take(&lock);
	size_t i = holder_find(handle);
	bool found = i < holders.n;
	if (found) {
		*out = holders.at[i];
		holders.at[i] = holders.at[--holders.n];
		atomic_store_explicit(&n_holders, holders.n, memory_order_relaxed);
	}
	gm_lock_release(&lock);
	return found;
}

static void holder_took(const struct holder *holder, CUresult result)
{
	bool held = false;
	gm_lock_take(&lock);
	if (result != CUDA_SUCCESS)
		held = holder_push(holder->handle, holder->group);
	for (size_t i = 0; i < holders.n && !held; i++)
		held = holders.at[i].group == holder->group;
	gm_lock_release(&lock);
	if (!held)
		gm_foreign_group_gone(holder->group);
}

#define ENDS(symbol, type)                                               \
	GM_HANDLER(symbol, (type handle), (handle), ({                   \
			   struct holder holder;                         \
			   bool held = holder_take(handle, &holder);     \
			   CUresult done = GM_PASS(real.symbol(handle)); \
			   if (held)                                     \
				   holder_took(&holder, done);           \
			   done;                                         \
		   }))
ENDS(cuGraphDestroy, CUgraph)
ENDS(cuGraphExecDestroy, CUgraphExec)

#define INSTANTIATES(symbol, parameters, arguments) \
	GM_TAKES(symbol, GM_LACK_HERE, 0, parameters, arguments, graph_instantiated(graph, *exec))
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

static void node_given(CUgraph graph, const CUmemPoolProps *props, CUdeviceptr at, size_t size)
{
	bool ours = props->location.type == CU_MEM_LOCATION_TYPE_DEVICE && props->location.id >= 0;
	const struct gm_foreign f = {
		.key = at,
		.space = GM_SPACE_DEVICE,
		.kind = GM_FOREIGN_GRAPH,
		.ordinal = ours ? (unsigned)props->location.id : 0,
		.size = size,
		.group = graph_group(graph),
	};
	if (ours && f.ordinal < gm_shim_n_devices)
		gm_foreign_add(&f);
}

GM_TAKES(cuGraphAddMemAllocNode, gm_lack_where(&params->poolProps.location), params->bytesize,
	 (CUgraphNode * node, CUgraph graph, const CUgraphNode *before, size_t n,
	  CUDA_MEM_ALLOC_NODE_PARAMS *params),
	 (node, graph, before, n, params),
	 node_given(graph, &params->poolProps, params->dptr, params->bytesize))
GM_GIVES_UP(cuGraphAddMemFreeNode,
	    (CUgraphNode * node, CUgraph graph, const CUgraphNode *before, size_t n,
	     CUdeviceptr at),
	    (node, graph, before, n, at), GM_SPACE_DEVICE, at)

#if CUDA_VERSION >= 12020
/* One call for every type of node. */
static CUdeviceptr node_freed(const CUgraphNodeParams *params)
{
	return params && params->type == CU_GRAPH_NODE_TYPE_MEM_FREE ? params->free.dptr : 0;
}

static void node_added(CUgraph graph, const CUgraphNodeParams *params)
{
	if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		node_given(graph, &params->alloc.poolProps, params->alloc.dptr,
			   params->alloc.bytesize);
}

#else
/* This toolkit does not declare the parameters: the call is passed on. */
static CUdeviceptr node_freed(const CUgraphNodeParams *params)
{
	(void)params;
	return 0;
}

static void node_added(CUgraph graph, const CUgraphNodeParams *params)
{
	(void)graph;
	(void)params;
}
#endif

#define ADDS(symbol, parameters, arguments)                                                       \
	GM_HANDLER(symbol, parameters, arguments, ({                                              \
			   struct gm_foreign f;                                                   \
			   struct gm_transfer t = gm_node_transfer(params);                       \
			   struct gm_node_params copy;                                            \
			   CUdeviceptr at = node_freed(params);                                   \
			   bool known = gm_foreign_take(GM_SPACE_DEVICE, at, &f);                 \
			   CUresult done =                                                        \
				   GM_NODE_RUN(&t, (params = gm_node_complete(&t, params, &copy), \
						    GM_PASS_RETRY(symbol, GM_LACK_HERE, 0,        \
								  real.symbol arguments)));       \
			   gm_foreign_took(&f, known, done);                                      \
			   if (done == CUDA_SUCCESS)                                              \
				   node_added(graph, params);                                     \
			   done;                                                                  \
		   }))
ADDS(cuGraphAddNode,
     (CUgraphNode * node, CUgraph graph, const CUgraphNode *before, size_t n,
      CUgraphNodeParams *params),
     (node, graph, before, n, params))
#define WITH_EDGES                                                     \
	(CUgraphNode * node, CUgraph graph, const CUgraphNode *before, \
	 const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *params)
ADDS(cuGraphAddNode_v2, WITH_EDGES, (node, graph, before, edges, n, params))
ADDS(cuGraphAddNode_v3, WITH_EDGES, (node, graph, before, edges, n, params))

void gm_graph_reserved(unsigned ordinal, struct gm_sample *sample)
{
	cuuint64_t bytes = 0;
	if (!gm_counter_get(ordinal, GM_C_foreign_graph_calls) ||
	    !gm_shim_driver.cuDeviceGetGraphMemAttribute)
		return;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(&gm_shim_driver);
	CUresult result = gm_shim_driver.cuDeviceGetGraphMemAttribute(
		gm_shim_devices[ordinal].handle, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &bytes);
	gm_driver_quiet_end(&gm_shim_driver, mode);
	sample->graphs = result == CUDA_SUCCESS ? bytes : 0;
}

static void graph_trim(unsigned ordinal)
{
	if (!gm_counter_get(ordinal, GM_C_foreign_graph_calls) ||
	    !gm_shim_driver.cuDeviceGraphMemTrim)
		return;
	CUstreamCaptureMode mode = gm_driver_quiet_begin(&gm_shim_driver);
	gm_shim_driver.cuDeviceGraphMemTrim(gm_shim_devices[ordinal].handle);
	gm_driver_quiet_end(&gm_shim_driver, mode);
}

uint64_t gm_graph_reclaim(unsigned ordinal, uint64_t bytes)
{
	(void)bytes;
	return gm_limit_drop(ordinal, graph_trim);
}

void gm_graph_forget_all(void)
{
	gm_lock_init(&lock, GM_LOCK_RANK_TABLE);
	holders.at = NULL;
	holders.n = holders.room = 0;
	atomic_store(&n_holders, 0);
}
