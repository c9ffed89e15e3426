// SPDX-License-Identifier: BSD-3-Clause
// churn ROUNDS [grown] [SIZE]...: a million threads allocate, write, read and free a block, eight
// times each. With CHURN_HEADER the blocks are in a heap of gpumem_device.cuh, a new one each
// round. With CHURN_INLINED malloc is part of the kernel. Otherwise the blocks are of the device's
// malloc. Prints the numbers of missing and damaged blocks for each size. `grown` grows that heap
// before: memcheck reports memory as out of bounds if it was mapped after the kernel began.
#include <cstdlib>
#include <cstring>
#include <vector>

#include "gpu.h"

#ifdef CHURN_INLINED
#define CHURN_HEADER
#endif
#ifdef CHURN_HEADER
#include <gpumem_device.cuh>
#else
struct gm_heap;
#endif

typedef unsigned long long Count;
enum { THREADS = 1000000, TURNS = 8 };
static const size_t HEAP = 12ull << 30;

struct Result {
	Count missing, damaged;
};

static __device__ uint32_t *take(gm_heap *heap, size_t size)
{
#if defined CHURN_INLINED
	return (uint32_t *)gm_granule_malloc(heap, size);
#elif defined CHURN_HEADER
	return (uint32_t *)gpumem_malloc(heap, size);
#else
	(void)heap;
	return (uint32_t *)malloc(size);
#endif
}

static __device__ void give(gm_heap *heap, void *block)
{
#if defined CHURN_INLINED
	gm_granule_free(heap, block);
#elif defined CHURN_HEADER
	gpumem_free(heap, block);
#else
	(void)heap;
	free(block);
#endif
}

static __global__ void churn(gm_heap *heap, size_t size, Result *result)
{
	uint32_t id = blockIdx.x * blockDim.x + threadIdx.x, last = size / sizeof(uint32_t) - 1;
	for (uint32_t turn = 0; id < THREADS && turn < TURNS; turn++) {
		volatile uint32_t *block = take(heap, size);
		if (!block) {
			atomicAdd(&result->missing, 1);
			continue;
		}
		block[0] = id;
		block[last] = id ^ turn;
		__nanosleep(id % 64);
		if (block[0] != id || block[last] != (id ^ turn))
			atomicAdd(&result->damaged, 1);
		give(heap, (void *)block);
	}
}

#ifdef CHURN_HEADER
static __global__ void grow(gm_heap *heap, Result *result)
{
	while (gm_load64(&heap->granted) < HEAP / 2 / GM_GRANULE)
		if (!gm_span_grow(heap, 1, 1, gm_load32(&heap->epoch))) {
			result->missing++;
			return;
		}
}

static void run_grow(gpumem_heap *heap, Result *result)
{
	gpumem_heap_begin(heap, 0);
	grow<<<1, 1>>>(gpumem_heap_device(heap), result);
	gpumem_heap_end(heap, 0);
	MUST(cudaDeviceSynchronize());
}
#endif

static void launch(size_t size, bool grown, Result *result)
{
#ifdef CHURN_HEADER
	gpumem_heap *heap;
	MUST(gpumem_heap_create(0, HEAP, &heap));
	if (grown)
		run_grow(heap, result);
	gpumem_heap_begin(heap, 0);
	churn<<<(THREADS + 255) / 256, 256>>>(gpumem_heap_device(heap), size, result);
	gpumem_heap_end(heap, 0);
	MUST(cudaDeviceSynchronize());
	gpumem_heap_destroy(heap);
#else
	(void)grown;
	churn<<<(THREADS + 255) / 256, 256>>>(NULL, size, result);
	MUST(cudaDeviceSynchronize());
#endif
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1, bad = 0;
	bool grown = argc > 2 && strcmp(argv[2], "grown") == 0;
	std::vector<size_t> sizes;
	for (int i = 2 + grown; i < argc; i++)
		sizes.push_back(strtoull(argv[i], NULL, 0));
	if (sizes.empty())
		sizes = {256, 1024, 4096, 16384};
	Result *result;
	MUST(cudaMallocManaged(&result, sizeof *result));
#ifndef CHURN_HEADER
	MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, HEAP));
#endif
	for (size_t size : sizes) {
		*result = {};
		for (int round = 0; round < rounds; round++)
			launch(size, grown, result);
		printf("%zu bytes: %llu blocks missing, %llu damaged\n", size, result->missing,
		       result->damaged);
		fflush(stdout);
		bad += result->missing || result->damaged;
	}
	return bad != 0;
}
