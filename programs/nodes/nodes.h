/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * smallnodes: structures of small nodes that kernels make by malloc, as the programs of Spliet
 * (2013): a tree of nodes with lists of edges, and a work queue. doc/programs.md has them.
 */
#ifndef NODES_H
#define NODES_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "programs/common/both.h"

#ifdef __cplusplus
extern "C" {
#endif

enum nodes_way { NODES_BUMP, NODES_MALLOC, NODES_WAYS };

typedef unsigned long long nodes_word; /* an address, 0: none; also a number, for atomics */

struct tree_node {
	nodes_word child[2], edges;
	uint32_t key, pad;
};

struct tree_edge {
	nodes_word next;
	uint32_t to, pad;
};

struct queue_item {
	uint32_t state, pad[3];
};

/* The argument of all kernels, in device memory. */
struct nodes_work {
	/* tree: edge i goes from node from[i] to node to[i], below `keys` */
	uint32_t *from, *to, edges, keys;
	nodes_word root, *node; /* node: of each key, when the tree is complete */
	/* queue: of one symbol of the input, and of the next one */
	uint32_t states;
	nodes_word *item[2];
	uint32_t count[2], *seen; /* seen: of each state, the symbol at which it was last put */
	/* bump: no memory is freed */
	char *space;
	nodes_word space_bytes, used;
	/* Set to 0 before a run. */
	nodes_word allocated, lacking, checksum, found;
};

PR_BOTH uint64_t nodes_mix(uint64_t a, uint64_t b)
{
	uint64_t x = (a << 32 | b) * UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
	return x ^ x >> 32;
}

/* The j-th state behind `state` at that symbol, j below 3; the return value below `states`. */
#define QUEUE_BRANCHES 3
PR_BOTH uint32_t queue_next(uint32_t state, uint32_t symbol, uint32_t j, uint32_t states)
{
	return (uint32_t)((nodes_mix(state * 4 + j, symbol) >> 32) * states >> 32);
}

/* --- nodes_kernels.cu: each enqueues one kernel on the default stream --- */

/* A thread an edge: the node of its key is found or made, and the edge put into its list. */
cudaError_t nodes_kernel_tree(struct nodes_work *work, uint32_t edges, enum nodes_way way);
/* A thread a key: the sum over its edges, which are freed; then, by another kernel, the nodes. */
cudaError_t nodes_kernel_edges(struct nodes_work *work, uint32_t keys, enum nodes_way way);
cudaError_t nodes_kernel_free(struct nodes_work *work, uint32_t keys, enum nodes_way way);
/* Put the first state; then a thread an item: the states behind its own, and it is freed. */
cudaError_t nodes_kernel_first(struct nodes_work *work, enum nodes_way way);
cudaError_t nodes_kernel_symbol(struct nodes_work *work, uint32_t states, uint32_t symbol,
				enum nodes_way way);
/* Free the items of one of the queues. */
cudaError_t nodes_kernel_drop(struct nodes_work *work, uint32_t states, uint32_t queue,
			      enum nodes_way way);

#ifdef __cplusplus
}
#endif

#endif
