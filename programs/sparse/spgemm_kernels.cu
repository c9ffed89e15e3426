/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of spgemm: warps take rows from a queue, so that long ones do not hold others up. */
#include <cooperative_groups.h>

#include "spgemm_rows.h"

#define THREADS (SP_WARPS * SP_LANES)

static __device__ unsigned long long clock_ns()
{
	unsigned long long ns;
	asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
	return ns;
}

static __device__ void warp_count_busy(struct sp_work *w, unsigned long long begin)
{
	if (sp_lane() == 0)
		sp_add64(&w->busy_ns, clock_ns() - begin);
}

static __global__ void upper(struct sp_work *w)
{
	for (uint32_t r = blockIdx.x * blockDim.x + threadIdx.x; r < w->matrix.rows;
	     r += gridDim.x * blockDim.x)
		row_upper(w, r);
}

static __global__ void count(struct sp_work *w, char *scratch, uint32_t slots)
{
	uint32_t warp = (blockIdx.x * blockDim.x + threadIdx.x) / SP_LANES;
	struct sp_segment *own = (struct sp_segment *)(scratch + warp * segment_bytes(slots));
	while (warp_count_next(w, own, slots))
		;
}

static __global__ void rows(struct sp_work *w)
{
	unsigned long long begin = clock_ns();
	while (warp_compute_next(w))
		;
	warp_count_busy(w, begin);
}

static __global__ void persistent(struct sp_work *w)
{
	cooperative_groups::grid_group grid = cooperative_groups::this_grid();
	unsigned long long begin = clock_ns();
	for (;;) {
		while (warp_compute_next(w))
			;
		grid.sync();
		bool more = w->remaining && w->used < w->space_bytes;
		grid.sync();
		if (!more)
			break;
		if (grid.thread_rank() == 0)
			round_begin(w);
		grid.sync();
	}
	warp_count_busy(w, begin);
}

static __global__ void finish(struct sp_work *w)
{
	for (uint32_t r = blockIdx.x * blockDim.x + threadIdx.x; r < w->matrix.rows;
	     r += gridDim.x * blockDim.x)
		row_finish(w, r);
}

cudaError_t sp_kernel_warps(uint32_t *warps, uint32_t *processors)
{
	int device = 0, count = 0, blocks = 0;
	cudaError_t error = cudaGetDevice(&device);
	if (error == cudaSuccess)
		error = cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
	if (error == cudaSuccess)
		error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, persistent, THREADS,
								      0);
	*processors = (uint32_t)count;
	*warps = (uint32_t)(count * blocks) * SP_WARPS;
	return error;
}

cudaError_t sp_kernel_upper(struct sp_work *work)
{
	upper<<<1024, 256>>>(work);
	return cudaGetLastError();
}

cudaError_t sp_kernel_count(struct sp_work *work, char *scratch, uint32_t slots, uint32_t warps)
{
	count<<<warps, SP_LANES>>>(work, scratch, slots);
	return cudaGetLastError();
}

cudaError_t sp_kernel_rows(struct sp_work *work, uint32_t warps)
{
	rows<<<warps / SP_WARPS, THREADS>>>(work);
	return cudaGetLastError();
}

cudaError_t sp_kernel_persistent(struct sp_work *work, uint32_t warps)
{
	void *arguments[] = {&work};
	return cudaLaunchCooperativeKernel((const void *)persistent, dim3(warps / SP_WARPS),
					   dim3(THREADS), arguments, 0, 0);
}

cudaError_t sp_kernel_finish(struct sp_work *work, uint32_t warps)
{
	finish<<<warps / SP_WARPS, THREADS>>>(work);
	return cudaGetLastError();
}
