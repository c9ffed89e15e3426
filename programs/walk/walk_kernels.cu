/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of pagesteps. */
#include "programs/common/page_heap.h"
#include "programs/walk/walk_lane.h"

#define THREADS 256
#define BLOCKS(items) (((items) + (THREADS - 1)) / THREADS)

static __device__ uint32_t this_thread()
{
	return blockIdx.x * THREADS + threadIdx.x;
}

static __global__ void begin(struct gm_heap *heap)
{
	lane_begin(heap);
}

static __global__ void mark(struct walk_work *w)
{
	if (this_thread() < 1u << w->bits >> 5)
		lane_mark(w, this_thread());
}

template <enum walk_policy P> static __global__ void walk(struct walk_work *w)
{
	if (this_thread() < w->threads)
		lane_walk(w, P, this_thread());
}

struct page_heap *walk_heap_open(uint32_t bits)
{
	uint32_t capacity = 1u << bits >> (GM_GRANULE_SHIFT - GM_RW_UNIT_SHIFT);
	struct page_heap *heap = new struct page_heap;
	page_heap_open(heap, capacity, gm_rw_bytes(capacity));
	begin<<<1, 1>>>(heap->device);
	PR_MUST(cudaDeviceSynchronize());
	return heap;
}

void *walk_heap_device(struct page_heap *heap)
{
	return heap->device;
}

void walk_heap_close(struct page_heap *heap)
{
	page_heap_close(heap);
	delete heap;
}

cudaError_t walk_kernel_mark(struct walk_work *work, uint32_t words)
{
	mark<<<BLOCKS(words), THREADS>>>(work);
	return cudaGetLastError();
}

cudaError_t walk_kernel_run(struct walk_work *work, uint32_t threads, enum walk_policy policy)
{
	static void (*const kernels[WALK_POLICIES])(struct walk_work * w) = {
		walk<WALK_RW>, walk<WALK_RW_BM>, walk<WALK_CORW>};
	kernels[policy]<<<BLOCKS(threads), THREADS>>>(work);
	return cudaGetLastError();
}
