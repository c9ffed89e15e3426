/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of hashjoin: a thread a tuple; of probes, as many as the caller says. */
#include "programs/common/page_heap.h"
#include "programs/join/join_lane.h"

#define THREADS 256
#define BLOCKS(items) (((items) + (THREADS - 1)) / THREADS)

static __device__ uint32_t this_thread()
{
	return blockIdx.x * THREADS + threadIdx.x;
}

static __global__ void count(struct join_work *w, int side)
{
	if (this_thread() < w->tuples)
		lane_count(w, side, this_thread());
}

static __global__ void scatter(struct join_work *w, int side)
{
	if (this_thread() < w->tuples)
		lane_scatter(w, side, this_thread());
}

static __global__ void build(struct join_work *w)
{
	if (this_thread() < w->tuples)
		lane_build(w, this_thread());
}

template <enum join_policy P> static __global__ void probe(struct join_work *w)
{
	if (this_thread() < w->threads)
		lane_probe(w, P, this_thread());
}

template <enum join_policy P> static __global__ void finish(struct join_work *w)
{
	if (this_thread() < w->threads)
		lane_finish(w, P, this_thread());
}

template <enum join_policy P> static __global__ void heap_init(struct gm_heap *heap)
{
	if (threadIdx.x == 0)
		gm_span_collect(heap);
	__syncwarp();
	lane_heap_init(heap, P, threadIdx.x);
}

/* A row a policy: its kernels. */
struct kernels {
	void (*probe)(struct join_work *w);
	void (*finish)(struct join_work *w);
	void (*init)(struct gm_heap *heap);
};

static const struct kernels kernels[JOIN_POLICIES] = {
	{probe<JOIN_DIRECT>, finish<JOIN_DIRECT>, NULL},
#define JOIN_POLICY(name, n) {probe<JOIN_##n>, finish<JOIN_##n>, heap_init<JOIN_##n>},
#include "programs/join/policies.def"
#undef JOIN_POLICY
	{probe<JOIN_MALLOC>, finish<JOIN_MALLOC>, NULL},
};

struct page_heap *join_heap_open(enum join_policy policy, uint64_t pages)
{
	if (!kernels[policy].init)
		return NULL;
	struct page_heap *heap = new struct page_heap;
	uint32_t capacity = (uint32_t)((pages * JOIN_PAGE + GM_GRANULE - 1) / GM_GRANULE);
	page_heap_open(heap, capacity, join_heap_bytes(policy, capacity));
	kernels[policy].init<<<1, 32>>>(heap->device);
	PR_MUST(cudaDeviceSynchronize());
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
	delete heap;
}

cudaError_t join_kernel_count(struct join_work *work, uint32_t tuples, int side)
{
	count<<<BLOCKS(tuples), THREADS>>>(work, side);
	return cudaGetLastError();
}

cudaError_t join_kernel_scatter(struct join_work *work, uint32_t tuples, int side)
{
	scatter<<<BLOCKS(tuples), THREADS>>>(work, side);
	return cudaGetLastError();
}

cudaError_t join_kernel_build(struct join_work *work, uint32_t tuples)
{
	build<<<BLOCKS(tuples), THREADS>>>(work);
	return cudaGetLastError();
}

cudaError_t join_kernel_probe(struct join_work *work, uint32_t threads, enum join_policy policy)
{
	kernels[policy].probe<<<BLOCKS(threads), THREADS>>>(work);
	return cudaGetLastError();
}

cudaError_t join_kernel_finish(struct join_work *work, uint32_t threads, enum join_policy policy)
{
	kernels[policy].finish<<<BLOCKS(threads), THREADS>>>(work);
	return cudaGetLastError();
}
