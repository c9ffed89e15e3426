/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The whole device: allocate until it is full, free, and get the memory again: by cudaMalloc, by
 * every other call that takes device memory, and in the answer of cudaMemGetInfo.
 */
#include "gpu.h"

static size_t free_now()
{
	size_t size, total;
	MUST(cudaMemGetInfo(&size, &total));
	return size;
}

static size_t fill_device(std::vector<void *> &blocks, size_t step)
{
	size_t sum = 0;
	void *at;
	while (cudaMalloc(&at, step) == cudaSuccess) {
		blocks.push_back(at);
		sum += step;
	}
	printf("full: %d\n", (int)cudaGetLastError());
	return sum;
}

static void empty(std::vector<void *> &blocks)
{
	for (void *at : blocks)
		MUST(cudaFree(at));
	blocks.clear();
}

/* Idle memory must serve every call: 80% of the device by each other one. */
static void take_by_others(size_t size)
{
	void *at;
	std::vector<void *> blocks;
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp prop = {};
	int device;
	MUST(cudaGetDevice(&device));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = device;
	size = size / 100 * 80 / (2 << 20) * (2 << 20);

	fill_device(blocks, (size_t)4 << 30);
	empty(blocks);
	SHOW(cuMemCreate(&handle, size, &prop, 0));
	SHOW(cuMemRelease(handle));
	fill_device(blocks, (size_t)4 << 30);
	empty(blocks);
	SHOW(cudaMallocAsync(&at, size, 0));
	SHOW(cudaFreeAsync(at, 0));
	SHOW(cudaDeviceSynchronize());
	cudaMemPool_t pool;
	MUST(cudaDeviceGetDefaultMemPool(&pool, device));
	MUST(cudaMemPoolTrimTo(pool, 0));
	fill_device(blocks, (size_t)4 << 30);
	empty(blocks);
	SHOW(cudaMalloc(&at, size));
	SHOW(cudaFree(at));
}

int main()
{
	std::vector<void *> blocks;
	MUST(cudaFree(0));
	size_t before = free_now();
	for (size_t step : {(size_t)1 << 30, (size_t)300 << 20, (size_t)5000000}) {
		if (step < ((size_t)16 << 20)) { /* leave only little room for the small blocks */
			void *most;
			MUST(cudaMalloc(&most, before - ((size_t)4 << 30)));
			blocks.push_back(most);
		}
		size_t got = fill_device(blocks, step);
		if (step >= ((size_t)16 << 20))
			printf("at least 97%% of what was free: %d\n", got >= before / 100 * 97);
		empty(blocks);
		size_t after = free_now();
		printf("free again: within 32 MiB %d\n",
		       after + ((size_t)32 << 20) >= before &&
			       after <= before + ((size_t)32 << 20));
	}
	take_by_others(before);
	return 0;
}
