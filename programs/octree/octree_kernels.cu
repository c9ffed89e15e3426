/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of barneshut. Compiled with -fmad=false: each operation is rounded. */
#include "programs/octree/octree_lane.h"

#define THREADS 256
#define BLOCKS(items) (((items) + (THREADS - 1)) / THREADS)

static __device__ uint32_t this_thread()
{
	return blockIdx.x * THREADS + threadIdx.x;
}

static __global__ void root(struct octree_work *w, enum octree_way way)
{
	lane_root(w, way);
}

static __global__ void put(struct octree_work *w, enum octree_way way)
{
	if (this_thread() < w->bodies)
		lane_put(w, way, this_thread());
}

static __global__ void sum(struct octree_work *w)
{
	if (this_thread() < w->bodies)
		lane_sum(w, this_thread());
}

static __global__ void pull(struct octree_work *w)
{
	if (this_thread() < w->bodies)
		lane_pull(w, this_thread());
}

static __global__ void move(struct octree_work *w)
{
	if (this_thread() < w->bodies)
		lane_move(w, this_thread());
}

static __global__ void tree_free(struct octree_work *w, enum octree_way way)
{
	if (this_thread() < w->bodies)
		lane_free(w, way, this_thread());
}

cudaError_t octree_kernel_root(struct octree_work *work, enum octree_way way)
{
	root<<<1, 1>>>(work, way);
	return cudaGetLastError();
}

cudaError_t octree_kernel_put(struct octree_work *work, uint32_t bodies, enum octree_way way)
{
	put<<<BLOCKS(bodies), THREADS>>>(work, way);
	return cudaGetLastError();
}

cudaError_t octree_kernel_sum(struct octree_work *work, uint32_t bodies)
{
	sum<<<BLOCKS(bodies), THREADS>>>(work);
	return cudaGetLastError();
}

cudaError_t octree_kernel_pull(struct octree_work *work, uint32_t bodies)
{
	pull<<<BLOCKS(bodies), THREADS>>>(work);
	return cudaGetLastError();
}

cudaError_t octree_kernel_move(struct octree_work *work, uint32_t bodies)
{
	move<<<BLOCKS(bodies), THREADS>>>(work);
	return cudaGetLastError();
}

cudaError_t octree_kernel_free(struct octree_work *work, uint32_t bodies, enum octree_way way)
{
	tree_free<<<BLOCKS(bodies), THREADS>>>(work, way);
	return cudaGetLastError();
}
