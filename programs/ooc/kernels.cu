/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernels.h"

#include "cells.h"

#define THREADS 256u
#define BLOCKS_MAX 0x7fffffffu /* of a grid; a grid-stride loop does the rest */

static __device__ uint64_t own_thread(void)
{
	return blockIdx.x * (uint64_t)blockDim.x + threadIdx.x;
}

static __device__ uint64_t all_threads(void)
{
	return gridDim.x * (uint64_t)blockDim.x;
}

static __global__ void add(float *a, const float *b, uint64_t from, uint64_t to)
{
	ooc_add_cells(a, b, from, to, own_thread(), all_threads());
}

static __global__ void heat(const float *in, float *out, uint64_t from, uint64_t to)
{
	ooc_heat_cells(in, out, from, to, own_thread(), all_threads());
}

/* A thread a cell. */
static unsigned blocks_for(uint64_t cells)
{
	uint64_t blocks = (cells + THREADS - 1) / THREADS;
	return blocks < BLOCKS_MAX ? (unsigned)blocks : BLOCKS_MAX;
}

cudaError_t ooc_kernel_add(float *a, const float *b, uint64_t from, uint64_t to,
			   cudaStream_t stream)
{
	if (from < to)
		add<<<blocks_for(to - from), THREADS, 0, stream>>>(a, b, from, to);
	return cudaGetLastError();
}

cudaError_t ooc_kernel_heat(const float *in, float *out, uint64_t from, uint64_t to,
			    cudaStream_t stream)
{
	if (from < to)
		heat<<<blocks_for(to - from), THREADS, 0, stream>>>(in, out, from, to);
	return cudaGetLastError();
}
