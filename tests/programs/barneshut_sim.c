/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replaces octree_kernels.cu on the simulated driver: the same code of a thread, by several host
 * threads, and the host's malloc. With OCTREE_SIM_WRONG in the environment a body is missing in the
 * tree ("lost"), has moved by a bit ("moved"), is pulled twice as much ("far"), or does not free
 * ("kept").
 */
#include <string.h>

#include "programs/octree/octree_lane.h"
#include "threads_sim.h"

struct launch {
	struct octree_work *work;
	enum octree_way way;
};

static bool is_wrong(const char *how)
{
	const char *wrong = getenv("OCTREE_SIM_WRONG");
	return wrong && strcmp(wrong, how) == 0;
}

static void put(void *arg, uint32_t thread)
{
	const struct launch *l = arg;
	lane_put(l->work, l->way, thread);
}

static void sum(void *arg, uint32_t thread)
{
	lane_sum(arg, thread);
}

static void pull(void *arg, uint32_t thread)
{
	lane_pull(arg, thread);
}

static void move(void *arg, uint32_t thread)
{
	lane_move(arg, thread);
}

static void tree_free(void *arg, uint32_t thread)
{
	const struct launch *l = arg;
	lane_free(l->work, l->way, thread);
}

cudaError_t octree_kernel_root(struct octree_work *work, enum octree_way way)
{
	lane_root(work, way);
	return cudaSuccess;
}

cudaError_t octree_kernel_put(struct octree_work *work, uint32_t bodies, enum octree_way way)
{
	struct launch l = {work, way};
	sim_run(bodies - is_wrong("lost"), put, &l);
	return cudaSuccess;
}

cudaError_t octree_kernel_sum(struct octree_work *work, uint32_t bodies)
{
	sim_run(bodies, sum, work);
	return cudaSuccess;
}

cudaError_t octree_kernel_pull(struct octree_work *work, uint32_t bodies)
{
	sim_run(bodies, pull, work);
	if (is_wrong("far"))
		work->pull[0].x = 2 * work->pull[0].x;
	return cudaSuccess;
}

cudaError_t octree_kernel_move(struct octree_work *work, uint32_t bodies)
{
	sim_run(bodies, move, work);
	if (is_wrong("moved"))
		work->at[0].x = nextafterf(work->at[0].x, 0);
	return cudaSuccess;
}

cudaError_t octree_kernel_free(struct octree_work *work, uint32_t bodies, enum octree_way way)
{
	struct launch l = {work, way};
	sim_run(bodies - is_wrong("kept"), tree_free, &l);
	return cudaSuccess;
}
