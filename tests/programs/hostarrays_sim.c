/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replaces arrays_kernels.cu on the simulated driver: the same code of a thread, by several host
 * threads. With ARRAYS_SIM_WRONG in the environment a point, or a row, is wrong.
 */
#include "programs/arrays/arrays_lane.h"
#include "threads_sim.h"

struct product {
	const struct spmv *m;
	const float *x;
	float *y;
};

static void assign(void *arg, uint32_t thread)
{
	lane_assign(arg, thread);
}

static void centre(void *arg, uint32_t thread)
{
	lane_centre(arg, thread);
}

static void product(void *arg, uint32_t thread)
{
	const struct product *p = arg;
	lane_spmv(p->m, p->x, p->y, thread);
}

cudaError_t kmeans_kernel_assign(const struct kmeans *k)
{
	struct kmeans own = *k;
	sim_run(k->points, assign, &own);
	if (getenv("ARRAYS_SIM_WRONG"))
		k->member[k->points - 1]++;
	return cudaSuccess;
}

cudaError_t kmeans_kernel_centre(const struct kmeans *k)
{
	struct kmeans own = *k;
	sim_run(k->clusters, centre, &own);
	return cudaSuccess;
}

cudaError_t spmv_kernel(const struct spmv *m, const float *x, float *y)
{
	struct product own = {m, x, y};
	sim_run(m->rows - (getenv("ARRAYS_SIM_WRONG") != NULL), product, &own);
	return cudaSuccess;
}
