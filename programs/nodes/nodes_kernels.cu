/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of smallnodes. */
#include "programs/nodes/nodes_lane.h"

#define THREADS 256
#define BLOCKS(items) (((items) + (THREADS - 1)) / THREADS)

static __device__ uint32_t this_thread()
{
	return blockIdx.x * THREADS + threadIdx.x;
}

static __global__ void tree(struct nodes_work *w, enum nodes_way way)
{
	if (this_thread() < w->edges)
		lane_tree(w, way, this_thread());
}

static __global__ void edges_sum(struct nodes_work *w, enum nodes_way way)
{
	if (this_thread() < w->keys)
		lane_edges(w, way, this_thread());
}

static __global__ void nodes_free(struct nodes_work *w, enum nodes_way way)
{
	if (this_thread() < w->keys)
		lane_free(w, way, this_thread());
}

static __global__ void first(struct nodes_work *w, enum nodes_way way)
{
	queue_put(w, way, 1, 0, 0);
}

static __global__ void symbol_read(struct nodes_work *w, enum nodes_way way, uint32_t symbol)
{
	lane_symbol(w, way, symbol, this_thread());
}

/* The queue that was read is empty. */
static __global__ void symbol_end(struct nodes_work *w, uint32_t symbol)
{
	w->count[symbol % 2] = 0;
}

static __global__ void drop(struct nodes_work *w, enum nodes_way way, uint32_t queue)
{
	lane_drop(w, way, queue, this_thread());
}

cudaError_t nodes_kernel_tree(struct nodes_work *work, uint32_t edges, enum nodes_way way)
{
	tree<<<BLOCKS(edges), THREADS>>>(work, way);
	return cudaGetLastError();
}

cudaError_t nodes_kernel_edges(struct nodes_work *work, uint32_t keys, enum nodes_way way)
{
	edges_sum<<<BLOCKS(keys), THREADS>>>(work, way);
	return cudaGetLastError();
}

cudaError_t nodes_kernel_free(struct nodes_work *work, uint32_t keys, enum nodes_way way)
{
	nodes_free<<<BLOCKS(keys), THREADS>>>(work, way);
	return cudaGetLastError();
}

cudaError_t nodes_kernel_first(struct nodes_work *work, enum nodes_way way)
{
	first<<<1, 1>>>(work, way);
	return cudaGetLastError();
}

cudaError_t nodes_kernel_symbol(struct nodes_work *work, uint32_t states, uint32_t symbol,
				enum nodes_way way)
{
	symbol_read<<<BLOCKS(states), THREADS>>>(work, way, symbol);
	symbol_end<<<1, 1>>>(work, symbol);
	return cudaGetLastError();
}

cudaError_t nodes_kernel_drop(struct nodes_work *work, uint32_t states, uint32_t queue,
			      enum nodes_way way)
{
	drop<<<BLOCKS(states), THREADS>>>(work, way, queue);
	return cudaGetLastError();
}
