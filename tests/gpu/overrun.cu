// SPDX-License-Identifier: BSD-3-Clause
// A kernel writes out of bounds, and compute-sanitizer must report it. Usage: overrun end|freed:
// past the end of its block, or into a freed block.
#include <cstring>

#include "gpu.h"

int main(int argc, char **argv)
{
	bool freed = argc == 2 && strcmp(argv[1], "freed") == 0;
	uint32_t *at;
	MUST(cudaMalloc(&at, 1000));
	fill<<<1, 32>>>(at, 250, 1);
	printf("within: %d\n", cudaDeviceSynchronize() != cudaSuccess);
	if (freed)
		MUST(cudaFree(at));
	fill<<<1, 1>>>(at, freed ? 1 : 251, 1);
	printf("%s: %d\n", freed ? "freed" : "past the end",
	       cudaDeviceSynchronize() != cudaSuccess);
	return 0;
}
