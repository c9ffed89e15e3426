/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replaces nodes_kernels.cu on the simulated driver: the same code of a thread, one after the
 * other, and the host's malloc. With NODES_SIM_WRONG in the environment an edge, or a state, is
 * wrong.
 */
#include "programs/nodes/nodes_lane.h"

cudaError_t nodes_kernel_tree(struct nodes_work *work, uint32_t edges, enum nodes_way way)
{
	if (getenv("NODES_SIM_WRONG"))
		edges--;
	for (uint32_t i = 0; i < edges; i++)
		lane_tree(work, way, i);
	return cudaSuccess;
}

cudaError_t nodes_kernel_edges(struct nodes_work *work, uint32_t keys, enum nodes_way way)
{
	for (uint32_t key = 0; key < keys; key++)
		lane_edges(work, way, key);
	return cudaSuccess;
}

cudaError_t nodes_kernel_free(struct nodes_work *work, uint32_t keys, enum nodes_way way)
{
	for (uint32_t key = 0; key < keys; key++)
		lane_free(work, way, key);
	return cudaSuccess;
}

cudaError_t nodes_kernel_first(struct nodes_work *work, enum nodes_way way)
{
	queue_put(work, way, 1, 0, getenv("NODES_SIM_WRONG") ? 1 : 0);
	return cudaSuccess;
}

cudaError_t nodes_kernel_symbol(struct nodes_work *work, uint32_t states, uint32_t symbol,
				enum nodes_way way)
{
	for (uint32_t i = 0; i < states; i++)
		lane_symbol(work, way, symbol, i);
	work->count[symbol % 2] = 0;
	return cudaSuccess;
}

cudaError_t nodes_kernel_drop(struct nodes_work *work, uint32_t states, uint32_t queue,
			      enum nodes_way way)
{
	for (uint32_t i = 0; i < states; i++)
		lane_drop(work, way, queue, i);
	return cudaSuccess;
}
