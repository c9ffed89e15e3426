/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of hostarrays, none of which takes memory. Compiled with -fmad=false: each operation
 * is rounded. */
#include "programs/arrays/arrays_lane.h"

#define THREADS 256
#define BLOCKS(items) (((items) + (THREADS - 1)) / THREADS)

static __device__ uint32_t this_thread()
{
	return blockIdx.x * THREADS + threadIdx.x;
}

static __global__ void assign(struct kmeans k)
{
	if (this_thread() < k.points)
		lane_assign(&k, this_thread());
}

static __global__ void centre(struct kmeans k)
{
	if (this_thread() < k.clusters)
		lane_centre(&k, this_thread());
}

static __global__ void product(struct spmv m, const float *x, float *y)
{
	if (this_thread() < m.rows)
		lane_spmv(&m, x, y, this_thread());
}

cudaError_t kmeans_kernel_assign(const struct kmeans *k)
{
	assign<<<BLOCKS(k->points), THREADS>>>(*k);
	return cudaGetLastError();
}

cudaError_t kmeans_kernel_centre(const struct kmeans *k)
{
	centre<<<BLOCKS(k->clusters), THREADS>>>(*k);
	return cudaGetLastError();
}

cudaError_t spmv_kernel(const struct spmv *m, const float *x, float *y)
{
	product<<<BLOCKS(m->rows), THREADS>>>(*m, x, y);
	return cudaGetLastError();
}
