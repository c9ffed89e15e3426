// SPDX-License-Identifier: BSD-3-Clause
// A kernel writes past the end of its block, and reads one that was freed: compute-sanitizer has to
// say so.
#include "gpu.h"

int main()
{
	uint32_t *at, *freed;
	MUST(cudaMalloc(&at, 1000));
	MUST(cudaMalloc(&freed, 4 << 20));
	fill<<<1, 32>>>(at, 250, 1);
	MUST(cudaDeviceSynchronize());
	fill<<<1, 1>>>(at, 251, 1);
	printf("past the end: %d\n", (int)cudaDeviceSynchronize() != 0);
	cudaFree(freed);
	fill<<<1, 1>>>(freed, 1, 1);
	printf("freed: %d\n", (int)cudaDeviceSynchronize() != 0);
	return 0;
}
