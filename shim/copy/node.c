/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/copy/node.h"

#include "shim/copy/copy2d.h"

/* NULL goes to the driver, which refuses it. */
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

#define NODE(symbol, of, parameters, arguments)                             \
	GM_HANDLER(symbol, parameters, arguments, ({                        \
			   struct gm_transfer t = of(params);               \
			   GM_NODE_RUN(&t, GM_PASS(real.symbol arguments)); \
		   }))

/* Natively the fill of a block needs no context; of mapped memory the driver wants one. */
static CUcontext node_context(const struct gm_transfer *t, CUcontext context)
{
	struct gm_context *owner =
		context || !t->dst_pool ? NULL : gm_context_find(t->dst_block.context);
	return owner ? owner->handle : context;
}

#define ADDS(symbol, of, type)                                                        \
	NODE(symbol, of,                                                              \
	     (CUgraphNode * node, CUgraph graph, const CUgraphNode *before, size_t n, \
	      const type *params, CUcontext context),                                 \
	     (node, graph, before, n, params, context))
ADDS(cuGraphAddMemcpyNode, node_of_copy, CUDA_MEMCPY3D)

GM_HANDLER(cuGraphAddMemsetNode,
	   (CUgraphNode * node, CUgraph graph, const CUgraphNode *before, size_t n,
	    const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context),
	   (node, graph, before, n, params, context), ({
		   struct gm_transfer t = node_of_fill(params);
		   GM_NODE_RUN(&t, GM_PASS(real.cuGraphAddMemsetNode(node, graph, before, n, params,
								     node_context(&t, context))));
	   }))

NODE(cuGraphMemcpyNodeSetParams, node_of_copy, (CUgraphNode node, const CUDA_MEMCPY3D *params),
     (node, params))
NODE(cuGraphMemsetNodeSetParams, node_of_fill,
     (CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params), (node, params))
NODE(cuGraphExecMemcpyNodeSetParams, node_of_copy,
     (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params, CUcontext context),
     (exec, node, params, context))
NODE(cuGraphExecMemsetNodeSetParams, node_of_fill,
     (CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context),
     (exec, node, params, context))

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
#else
/* This toolkit does not declare the parameters: passed on. */
struct gm_transfer gm_node_transfer(const CUgraphNodeParams *params)
{
	(void)params;
	return (struct gm_transfer){0};
}
#endif

NODE(cuGraphNodeSetParams, gm_node_transfer, (CUgraphNode node, CUgraphNodeParams *params),
     (node, params))
NODE(cuGraphNodeSetParams_v2, gm_node_transfer, (CUgraphNode node, CUgraphNodeParams *params),
     (node, params))
NODE(cuGraphExecNodeSetParams, gm_node_transfer,
     (CUgraphExec exec, CUgraphNode node, CUgraphNodeParams *params), (exec, node, params))
