/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replaces walk_kernels.cu on the simulated driver: the same code of a lane, on the emulation of
 * lanes. With PAGESTEPS_SIM_WRONG in the environment two threads have the same page.
 */
#include <stdlib.h>

#include "programs/common/page_heap.h"
#include "programs/walk/walk_lane.h"

struct launch {
	struct walk_work *work;
	enum walk_policy policy;
};

static void lane_run(void *arg, uint32_t thread)
{
	const struct launch *l = arg;
	lane_walk(l->work, l->policy, thread);
}

struct page_heap *walk_heap_open(uint32_t bits)
{
	uint32_t capacity = 1u << bits >> (GM_GRANULE_SHIFT - GM_RW_UNIT_SHIFT);
	struct page_heap *heap = malloc(sizeof *heap);
	if (!heap)
		pr_fail(1, "no memory of the host");
	page_heap_open(heap, capacity, gm_rw_bytes(capacity));
	lane_begin(heap->device);
	return heap;
}

void *walk_heap_device(struct page_heap *heap)
{
	return heap->device;
}

void walk_heap_close(struct page_heap *heap)
{
	page_heap_close(heap);
	free(heap);
}

cudaError_t walk_kernel_mark(struct walk_work *work, uint32_t words)
{
	for (uint32_t word = 0; word < words; word++)
		lane_mark(work, word);
	return cudaSuccess;
}

cudaError_t walk_kernel_run(struct walk_work *work, uint32_t threads, enum walk_policy policy)
{
	struct launch l = {work, policy};
	struct gm_simt shape = {threads / WALK_WARP, 4, 1, GM_SIMT_FAIR};
	if (!gm_simt_launch(&shape, lane_run, &l))
		return cudaErrorUnknown;
	if (getenv("PAGESTEPS_SIM_WRONG"))
		work->page[1] = work->page[0];
	return cudaSuccess;
}
