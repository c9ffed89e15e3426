/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replaces list_kernels.cu on the simulated driver: the same code of an item, a host thread for
 * each item of a group, and the host's malloc. With LIST_SIM_WRONG in the environment an object is
 * overwritten ("value"), a block has another one's positions ("position"), or the last item does
 * not grow the list ("lost").
 */
#include <string.h>

#include "programs/list/list_lane.h"
#include "threads_sim.h"

enum { WALKERS = 8 }; /* threads of the group that clears the list */

struct launch {
	struct list_work *work;
	enum list_way way;
	uint32_t group, stride;
};

static struct list_shared shared;

void pr_barrier(void)
{
	sim_barrier();
}

static bool is_wrong(const char *how)
{
	const char *wrong = getenv("LIST_SIM_WRONG");
	return wrong && strcmp(wrong, how) == 0;
}

static void grow(void *arg, uint32_t block, uint32_t thread)
{
	const struct launch *l = arg;
	lane_grow(l->work, l->way, &shared, block * l->group + thread, l->group);
}

static void read_one(void *arg, uint32_t thread)
{
	const struct launch *l = arg;
	lane_read(l->work, l->way, l->stride, thread);
}

static void clear_list(void *arg, uint32_t block, uint32_t thread)
{
	const struct launch *l = arg;
	(void)block;
	lane_clear_list(l->work, l->way, l->stride, thread, WALKERS);
}

static void clear(void *arg, uint32_t thread)
{
	const struct launch *l = arg;
	lane_clear(l->work, l->way, l->stride, thread);
}

cudaError_t list_kernel_grow(struct list_work *work, uint32_t items, uint32_t group,
			     enum list_way way)
{
	struct launch l = {work, way, group, 0};
	work->items -= is_wrong("lost");
	sim_blocks_run((items + group - 1) / group, group, grow, &l);
	work->items = items;
	struct list_block *block = (struct list_block *)(uintptr_t)work->list.head;
	if (block && is_wrong("value"))
		++*block_objects(block);
	if (block && is_wrong("position"))
		block->first++;
	return cudaSuccess;
}

cudaError_t list_kernel_read(struct list_work *work, uint32_t reads, uint32_t stride,
			     enum list_way way)
{
	struct launch l = {work, way, 0, stride};
	sim_run(reads, read_one, &l);
	return cudaSuccess;
}

cudaError_t list_kernel_clear(struct list_work *work, uint32_t items, uint32_t stride,
			      enum list_way way)
{
	struct launch l = {work, way, 0, stride};
	if (way_is_list(way))
		sim_blocks_run(1, WALKERS, clear_list, &l);
	else
		sim_run(items, clear, &l);
	return cudaSuccess;
}
