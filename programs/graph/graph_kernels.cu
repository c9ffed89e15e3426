/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of dyngraph: a lane or a warp an item, or a run; sorts and sums are CUB's. */
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include "programs/common/page_heap.h"
#include "programs/graph/graph_lane.h"

#define THREADS 256
/* Of a multiprocessor: no more than 40 registers, of which malloc would take more. Turing has room
 * for 1024 threads. */
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ < 800
#define BLOCKS 4
#else
#define BLOCKS 6
#endif

/* K: GRAPH_KERNELS, the argument says it. */
template <enum graph_layout L, uint32_t T, enum graph_kernel K>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
	items(struct graph_work *w, uint32_t count, enum graph_kernel kernel)
{
	uint64_t thread = blockIdx.x * (uint64_t)THREADS + threadIdx.x;
	struct graph_team team = {T, (uint32_t)(thread % T)};
	uint32_t item = (uint32_t)(thread / T);
	if (thread / T >= count)
		return;
	if (K == GRAPH_KERNELS || is_change(K))
		lane_change(w, L, team, K == GRAPH_KERNELS ? kernel : K, item);
	else
		lane_read(w, L, team, K, item);
}

template <enum graph_layout L, enum graph_kernel K>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
	runs(struct graph_work *w, uint32_t count, enum graph_kernel kernel)
{
	uint64_t thread = blockIdx.x * (uint64_t)THREADS + threadIdx.x;
	if (thread < count)
		lane_run(w, L, K == GRAPH_KERNELS ? kernel : K, (uint32_t)thread);
}

typedef void (*items_kernel)(struct graph_work *w, uint32_t count, enum graph_kernel kernel);

/* ouro has one kernel for all changes. */
static constexpr enum graph_kernel kind_of(enum graph_layout l, int k)
{
	return l == GRAPH_OURO && is_change((enum graph_kernel)k) ? GRAPH_KERNELS
								  : (enum graph_kernel)k;
}

static constexpr uint32_t worker_of(uint32_t worker, int k)
{
	return is_single((enum graph_kernel)k) || worker == GRAPH_ADAPTS ? 1 : worker;
}

template <enum graph_layout L, uint32_t T, int... K>
static items_kernel kernel_of(enum graph_kernel kernel, std::integer_sequence<int, K...>)
{
	static const items_kernel all[] = {items<L, worker_of(T, K), kind_of(L, K)>...};
	return all[kernel];
}

template <enum graph_layout L> static items_kernel kernel_of_runs(enum graph_kernel kernel)
{
	if (kernel == GRAPH_INSERT_RUN)
		return runs<L, kind_of(L, GRAPH_INSERT_RUN)>;
	if (kernel == GRAPH_INSERT_SORTED)
		return runs<L, kind_of(L, GRAPH_INSERT_SORTED)>;
	return kernel == GRAPH_DELETE_RUN ? runs<L, kind_of(L, GRAPH_DELETE_RUN)>
					  : runs<L, kind_of(L, GRAPH_DELETE_SORTED)>;
}

template <enum graph_layout L>
static items_kernel kernel_for(uint32_t worker, enum graph_kernel kernel)
{
	std::make_integer_sequence<int, GRAPH_KERNELS> all;
	if (worker == GRAPH_ADAPTS)
		return kernel_of_runs<L>(kernel);
	return worker == 1 ? kernel_of<L, 1>(kernel, all) : kernel_of<L, GM_WARP>(kernel, all);
}

cudaError_t graph_launch(struct graph_work *work, enum graph_layout layout, uint32_t worker,
			 enum graph_kernel kernel, uint32_t count)
{
	items_kernel run = layout == GRAPH_AIM	  ? kernel_for<GRAPH_AIM>(worker, kernel)
			   : layout == GRAPH_FAIM ? kernel_for<GRAPH_FAIM>(worker, kernel)
						  : kernel_for<GRAPH_OURO>(worker, kernel);
	uint64_t threads = (uint64_t)count * worker_of(worker, kernel);
	run<<<(unsigned)((threads + THREADS - 1) / THREADS), THREADS>>>(work, count, kernel);
	return cudaGetLastError();
}

cudaError_t graph_scan(const uint32_t *in, uint32_t *out, uint32_t count, void *scratch,
		       uint64_t bytes)
{
	size_t own = bytes;
	return cub::DeviceScan::ExclusiveSum(scratch, own, in, out, count);
}

cudaError_t graph_sort(const struct graph_edge *in, struct graph_edge *out, uint32_t count,
		       unsigned bits, void *scratch, uint64_t bytes)
{
	size_t own = bytes;
	return cub::DeviceRadixSort::SortKeys(scratch, own, (const uint64_t *)in, (uint64_t *)out,
					      count, 0, (int)(32 + bits));
}

uint64_t graph_scratch(uint32_t count)
{
	size_t sort = 0, scan = 0;
	PR_MUST(cub::DeviceRadixSort::SortKeys(NULL, sort, (const uint64_t *)NULL, (uint64_t *)NULL,
					       count));
	PR_MUST(cub::DeviceScan::ExclusiveSum(NULL, scan, (const uint32_t *)NULL, (uint32_t *)NULL,
					      count));
	return sort > scan ? sort : scan;
}

static __global__ void heap_init(struct gm_heap *heap, uint32_t policy)
{
	if (threadIdx.x == 0)
		gm_span_collect(heap);
	__syncwarp();
	lane_heap_init(heap, policy, threadIdx.x);
}

struct page_heap *graph_heap_open(enum graph_way way, uint64_t bytes)
{
	uint32_t capacity = (uint32_t)((bytes + GM_GRANULE - 1) / GM_GRANULE);
	if (!heap_policy_bytes(way, capacity))
		return NULL;
	struct page_heap *heap = new struct page_heap;
	page_heap_open(heap, capacity, heap_policy_bytes(way, capacity));
	heap_init<<<1, GM_WARP>>>(heap->device, way);
	PR_MUST(cudaDeviceSynchronize());
	return heap;
}

void *graph_heap_device(struct page_heap *heap)
{
	return heap ? heap->device : NULL;
}

void graph_heap_close(struct page_heap *heap)
{
	if (heap)
		page_heap_close(heap);
	delete heap;
}
