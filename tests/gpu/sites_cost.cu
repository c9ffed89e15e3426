/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The time of malloc(64) and free by a million threads of a warm heap, in us: the least and the
 * median of many launches. With GPUMEM_HEAP_SITES=0 and 1 it shows the cost of counting by call:
 * sites_cost.sh.
 */
#include "gpu.h"

#include <algorithm>

__global__ void take(void **out)
{
	out[blockIdx.x * blockDim.x + threadIdx.x] = malloc(64);
}

__global__ void give(void **in)
{
	free(in[blockIdx.x * blockDim.x + threadIdx.x]);
}

enum { THREADS = 1000000, BLOCK = 250, ROUNDS = 101 };

static void print(const char *name, std::vector<float> times)
{
	std::sort(times.begin(), times.end());
	printf("%s %.2f %.2f\n", name, times[0] * 1000, times[times.size() / 2] * 1000);
}

int main()
{
	void **blocks;
	cudaEvent_t at[3];
	std::vector<float> takes, gives;
	MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1 << 30));
	MUST(cudaMalloc(&blocks, THREADS * sizeof *blocks));
	for (int i = 0; i < 3; i++)
		MUST(cudaEventCreate(&at[i]));
	for (int i = 0; i < ROUNDS + 10; i++) {
		float took, gave;
		MUST(cudaEventRecord(at[0]));
		take<<<THREADS / BLOCK, BLOCK>>>(blocks);
		MUST(cudaEventRecord(at[1]));
		give<<<THREADS / BLOCK, BLOCK>>>(blocks);
		MUST(cudaEventRecord(at[2]));
		MUST(cudaDeviceSynchronize());
		MUST(cudaEventElapsedTime(&took, at[0], at[1]));
		MUST(cudaEventElapsedTime(&gave, at[1], at[2]));
		if (i >= 10) {
			takes.push_back(took);
			gives.push_back(gave);
		}
	}
	print("malloc", takes);
	print("free", gives);
	return 0;
}
