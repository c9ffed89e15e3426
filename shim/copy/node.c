/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/copy/node.h"

#include "shim/copy/copy2d.h"

/* NULL: an empty transfer; the driver refuses the call. */
static struct gm_transfer node_of_copy(const CUDA_MEMCPY3D *copy)
{
	return copy ? gm_transfer_of_box(copy) : (struct gm_transfer){0};
}

static struct gm_transfer node_of_fill(const CUDA_MEMSET_NODE_PARAMS *fill)
{
	return fill ? gm_transfer_of_fill(fill->dst, fill->pitch, fill->elementSize, fill->width,
					  fill->height)
		    : (struct gm_transfer){0};
}

/* Natively a node needs no context: the driver takes the context of its memory. Mapped memory has
 * none, so the driver would refuse a fill, and later the first context of an executable copy. */
static CUcontext node_context(const struct gm_transfer *t, CUcontext context)
{
	const struct gm_block *block = t->dst_pool ? &t->dst_block : &t->src_block;
	bool ours = t->dst_pool || t->src_pool;
	struct gm_context *owner = context || !ours ? NULL : gm_context_find(block->context);
	return owner ? owner->handle : context;
}

#define NODE(symbol, of, parameters, arguments, context_too)                               \
	GM_HANDLER(symbol, parameters, arguments, ({                                       \
			   struct gm_transfer t = of(params);                              \
			   GM_NODE_RUN(&t, (context_too, GM_PASS(real.symbol arguments))); \
		   }))
#define IN_CONTEXT (context = node_context(&t, context))
#define ADDS(symbol, of, type)                                                        \
	NODE(symbol, of,                                                              \
	     (CUgraphNode * node, CUgraph graph, const CUgraphNode *before, size_t n, \
	      const type *params, CUcontext context),                                 \
	     (node, graph, before, n, params, context), IN_CONTEXT)
#define SETS(symbol, of, type) \
	NODE(symbol, of, (CUgraphNode node, const type *params), (node, params), (void)0)
#define SETS_EXEC(symbol, of, type)                                                       \
	NODE(symbol, of,                                                                  \
	     (CUgraphExec exec, CUgraphNode node, const type *params, CUcontext context), \
	     (exec, node, params, context), IN_CONTEXT)
ADDS(cuGraphAddMemcpyNode, node_of_copy, CUDA_MEMCPY3D)
ADDS(cuGraphAddMemsetNode, node_of_fill, CUDA_MEMSET_NODE_PARAMS)
SETS(cuGraphMemcpyNodeSetParams, node_of_copy, CUDA_MEMCPY3D)
SETS(cuGraphMemsetNodeSetParams, node_of_fill, CUDA_MEMSET_NODE_PARAMS)
SETS_EXEC(cuGraphExecMemcpyNodeSetParams, node_of_copy, CUDA_MEMCPY3D)
SETS_EXEC(cuGraphExecMemsetNodeSetParams, node_of_fill, CUDA_MEMSET_NODE_PARAMS)

#if CUDA_VERSION >= 12020
struct gm_transfer gm_node_transfer(const CUgraphNodeParams *params)
{
	if (params && params->type == CU_GRAPH_NODE_TYPE_MEMCPY)
		return node_of_copy(&params->memcpy.copyParams);
	if (!params || params->type != CU_GRAPH_NODE_TYPE_MEMSET)
		return (struct gm_transfer){0};
	return gm_transfer_of_fill(params->memset.dst, params->memset.pitch,
				   params->memset.elementSize, params->memset.width,
				   params->memset.height);
}

CUgraphNodeParams *gm_node_complete(const struct gm_transfer *t, CUgraphNodeParams *params,
				    struct gm_node_params *copy)
{
	bool copies = params && params->type == CU_GRAPH_NODE_TYPE_MEMCPY;
	if (!copies && !(params && params->type == CU_GRAPH_NODE_TYPE_MEMSET))
		return params;
	copy->any = *params;
	CUcontext *context = copies ? &copy->any.memcpy.copyCtx : &copy->any.memset.ctx;
	*context = node_context(t, *context);
	return &copy->any;
}
#else
/* This toolkit does not declare the parameters: the call is passed on. */
struct gm_transfer gm_node_transfer(const CUgraphNodeParams *params)
{
	(void)params;
	return (struct gm_transfer){0};
}

CUgraphNodeParams *gm_node_complete(const struct gm_transfer *t, CUgraphNodeParams *params,
				    struct gm_node_params *copy)
{
	(void)t, (void)copy;
	return params;
}
#endif

/* gm_node_complete needs the block's owner, so it runs after gm_transfer_begin. */
#define SETS_ANY(symbol, parameters, arguments)                                           \
	GM_HANDLER(symbol, parameters, arguments, ({                                      \
			   struct gm_transfer t = gm_node_transfer(params);               \
			   struct gm_node_params copy;                                    \
			   GM_NODE_RUN(&t, (params = gm_node_complete(&t, params, &copy), \
					    GM_PASS(real.symbol arguments)));             \
		   }))
SETS_ANY(cuGraphNodeSetParams, (CUgraphNode node, CUgraphNodeParams *params), (node, params))
SETS_ANY(cuGraphNodeSetParams_v2, (CUgraphNode node, CUgraphNodeParams *params), (node, params))
SETS_ANY(cuGraphExecNodeSetParams, (CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params),
	 (exec, node, params))
