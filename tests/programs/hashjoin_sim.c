/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replaces join_kernels.cu on the simulated driver: the same code of a lane, on the emulation of
 * lanes, and the host's malloc. With HASHJOIN_SIM_WRONG in the environment a pair is wrong.
 */
#include "programs/common/page_heap.h"
#include "programs/join/join_lane.h"

struct launch {
	struct join_work *work;
	void (*lane)(const struct launch *l, uint32_t thread);
	uint32_t threads;
	int side;
	enum join_policy policy;
	struct gm_heap *heap;
};

static void count(const struct launch *l, uint32_t thread)
{
	lane_count(l->work, l->side, thread);
}

static void scatter(const struct launch *l, uint32_t thread)
{
	lane_scatter(l->work, l->side, thread);
}

static void build(const struct launch *l, uint32_t thread)
{
	lane_build(l->work, thread);
}

static void probe(const struct launch *l, uint32_t thread)
{
	lane_probe(l->work, l->policy, thread);
}

static void finish(const struct launch *l, uint32_t thread)
{
	lane_finish(l->work, l->policy, thread);
}

static void init(const struct launch *l, uint32_t thread)
{
	lane_heap_init(l->heap, l->policy, thread);
}

static void lane_run(void *arg, uint32_t thread)
{
	const struct launch *l = arg;
	if (thread < l->threads)
		l->lane(l, thread);
}

static cudaError_t launch(struct launch l)
{
	struct gm_simt shape = {(l.threads + 31) / 32, 8, 1, GM_SIMT_FAIR};
	return gm_simt_launch(&shape, lane_run, &l) ? cudaSuccess : cudaErrorUnknown;
}

struct page_heap *join_heap_open(enum join_policy policy, uint64_t pages)
{
	if (policy == JOIN_DIRECT || policy == JOIN_MALLOC)
		return NULL;
	struct page_heap *heap = malloc(sizeof *heap);
	uint32_t capacity = (uint32_t)((pages * JOIN_PAGE + GM_GRANULE - 1) / GM_GRANULE);
	if (!heap)
		pr_fail(1, "no memory of the host");
	page_heap_open(heap, capacity, join_heap_bytes(policy, capacity));
	gm_span_collect(heap->device);
	PR_MUST(launch((struct launch){
		.lane = init, .threads = 32, .policy = policy, .heap = heap->device}));
	return heap;
}

void *join_heap_device(struct page_heap *heap)
{
	return heap ? heap->device : NULL;
}

void join_heap_close(struct page_heap *heap)
{
	if (heap)
		page_heap_close(heap);
	free(heap);
}

cudaError_t join_kernel_count(struct join_work *work, uint32_t tuples, int side)
{
	return launch((struct launch){work, count, tuples, side, JOIN_DIRECT, NULL});
}

cudaError_t join_kernel_scatter(struct join_work *work, uint32_t tuples, int side)
{
	return launch((struct launch){work, scatter, tuples, side, JOIN_DIRECT, NULL});
}

cudaError_t join_kernel_build(struct join_work *work, uint32_t tuples)
{
	return launch((struct launch){work, build, tuples, 0, JOIN_DIRECT, NULL});
}

cudaError_t join_kernel_probe(struct join_work *work, uint32_t threads, enum join_policy policy)
{
	return launch((struct launch){work, probe, threads, 0, policy, NULL});
}

cudaError_t join_kernel_finish(struct join_work *work, uint32_t threads, enum join_policy policy)
{
	for (uint32_t t = 0; getenv("HASHJOIN_SIM_WRONG") && t < threads; t++)
		if (work->first[t]) {
			work->first[t]->pair[0].key++;
			break;
		}
	return launch((struct launch){work, finish, threads, 0, policy, NULL});
}
