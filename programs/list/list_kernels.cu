/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of arraylist. */
#include "programs/list/list_lane.h"

#define THREADS 256
#define BLOCKS(items, threads) (((items) + ((threads)-1)) / (threads))

static __device__ uint32_t this_thread()
{
	return blockIdx.x * blockDim.x + threadIdx.x;
}

static __global__ void grow(struct list_work *w, enum list_way way)
{
	__shared__ struct list_shared shared;
	lane_grow(w, way, &shared, this_thread(), blockDim.x);
}

static __global__ void read(struct list_work *w, enum list_way way, uint32_t reads, uint32_t stride)
{
	if (this_thread() < reads)
		lane_read(w, way, stride, this_thread());
}

static __global__ void clear_list(struct list_work *w, enum list_way way, uint32_t stride)
{
	lane_clear_list(w, way, stride, threadIdx.x, blockDim.x);
}

static __global__ void clear(struct list_work *w, enum list_way way, uint32_t stride)
{
	if (this_thread() < w->items)
		lane_clear(w, way, stride, this_thread());
}

cudaError_t list_kernel_grow(struct list_work *work, uint32_t items, uint32_t group,
			     enum list_way way)
{
	grow<<<BLOCKS(items, group), group>>>(work, way);
	return cudaGetLastError();
}

cudaError_t list_kernel_read(struct list_work *work, uint32_t reads, uint32_t stride,
			     enum list_way way)
{
	read<<<BLOCKS(reads, THREADS), THREADS>>>(work, way, reads, stride);
	return cudaGetLastError();
}

cudaError_t list_kernel_clear(struct list_work *work, uint32_t items, uint32_t stride,
			      enum list_way way)
{
	if (way == LIST_ITEM || way == LIST_GROUP || way == LIST_GROUP_BUMP)
		clear_list<<<1, THREADS>>>(work, way, stride);
	else
		clear<<<BLOCKS(items, THREADS), THREADS>>>(work, way, stride);
	return cudaGetLastError();
}
