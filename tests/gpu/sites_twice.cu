/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wrong frees in kernels, each on a line of its own: see sites_tree.cu. They are made only with an
 * argument, under the preload: natively they are undefined. No kernel of these allocates, for that
 * could use a block again before it is freed twice.
 */
#include "gpu.h"

__global__ void take(char **out, int size)
{
	out[blockIdx.x * blockDim.x + threadIdx.x] = (char *)malloc(size); // sites: mallocs=6144
}

/* All threads of a block free its one pointer. */
__global__ void together(char **in, int wrong)
{
	if (wrong || threadIdx.x == 0)
		free(in[blockIdx.x]); // sites: twice=8128
}

__global__ void again(char **in, int wrong)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	free(in[t]);
	__syncwarp();
	if (wrong && t % 4 == 0)
		free(in[t]); // sites: twice=1024
}

__device__ __noinline__ static void invalid_free(char *block, int offset)
{
	free(block + offset); // sites: invalid=2048
}

__global__ void beside(char **in, int wrong)
{
	char *block = in[blockIdx.x * blockDim.x + threadIdx.x];
	__shared__ char on_chip[64];
	on_chip[threadIdx.x % 64] = 0;
	if (wrong) {
		invalid_free(block, 16);
		invalid_free(block, 8);
		free(on_chip); // sites: invalid=1024
	}
	free(block);
}

int main(int argc, char **argv)
{
	int wrong = argc > 1;
	char **blocks;
	MUST(cudaMalloc(&blocks, 4096 * sizeof *blocks));
	take<<<8, 128>>>(blocks, 300);
	together<<<64, 128>>>(blocks, wrong);
	together<<<960, 1>>>(blocks + 64, 0);
	take<<<32, 128>>>(blocks, 48);
	again<<<32, 128>>>(blocks, wrong);
	take<<<8, 128>>>(blocks, 256);
	beside<<<8, 128>>>(blocks, wrong);
	MUST(cudaDeviceSynchronize());
	MUST(cudaDeviceReset());
	printf("done\n");
	return 0;
}
