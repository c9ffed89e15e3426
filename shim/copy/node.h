/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nodes of graphs that copy or fill memory. They are checked, and memory of two devices is made
 * reachable, when they are added or changed: a launch cannot refuse a single copy. Nothing is
 * counted, for nothing is copied yet.
 */
#ifndef GM_SHIM_COPY_NODE_H
#define GM_SHIM_COPY_NODE_H

#include "shim/copy/transfer.h"

/* The copy or fill of a node of any kind; NULL, or a node of another kind: an empty transfer.
 * *params must outlive the result. */
struct gm_transfer gm_node_transfer(const CUgraphNodeParams *params);

/* A copy of the program's parameters; empty if the toolkit does not declare them. */
struct gm_node_params {
#if CUDA_VERSION >= 12020
	CUgraphNodeParams any;
#else
	char none;
#endif
};

/* Returns `params`, or, for a copy or fill, *copy of them. If they have no context, *copy has the
 * context of the block's owner: natively the driver fills it in, but not for mapped memory. By the
 * driver's documentation cuGraphNodeGetParams may return the filled-in context. After
 * gm_transfer_begin. */
CUgraphNodeParams *gm_node_complete(const struct gm_transfer *t, CUgraphNodeParams *params,
				    struct gm_node_params *copy);

/* Check, then make `pass` (GM_PASS...), with a retry if memory has become reachable; the value is
 * the program's result. Inside of gm_shim_enter, no lock held. */
#define GM_NODE_RUN(t, pass)                                                                       \
	({                                                                                         \
		CUresult node_ = gm_transfer_begin(t);                                             \
		if (node_ == CUDA_SUCCESS)                                                         \
			do                                                                         \
				node_ = (pass);                                                    \
			while (GM_UNLIKELY(node_ != CUDA_SUCCESS) && gm_transfer_again(t, node_)); \
		node_;                                                                             \
	})

#endif
