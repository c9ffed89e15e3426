/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nodes of graphs that copy or fill memory. They are checked, and memory of two devices is made
 * reachable, when they are added or changed: a launch has no way to refuse a single copy. Nothing
 * is counted, for nothing is copied yet.
 */
#ifndef GM_SHIM_COPY_NODE_H
#define GM_SHIM_COPY_NODE_H

#include "shim/copy/transfer.h"

/* What a node of any kind copies or fills; NULL, or a node of another kind: nothing. *params must
 * outlive the result. */
struct gm_transfer gm_node_transfer(const CUgraphNodeParams *params);

/* Check, then make `pass` (GM_PASS...), once more if memory has become reachable; the value is the
 * program's result. Inside of gm_shim_enter, no lock held. */
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
