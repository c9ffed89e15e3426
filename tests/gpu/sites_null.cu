/* SPDX-License-Identifier: BSD-3-Clause */
/* Mallocs in kernels that get NULL, each on a line of its own: see sites_tree.cu. */
#include "gpu.h"

__device__ __noinline__ static void *huge(int more)
{
	return malloc(((size_t)1 << 45) + more); // sites: nulls=2048
}

__global__ void ask(void **out, int times)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	for (int i = 0; i < times; i++)
		out[t] = huge(i);
	if (t % 2)
		out[t] = malloc((size_t)1 << (44 + t % 2)); // sites: nulls=512
	else
		out[t] = malloc(80); // sites: blocks=512 mallocs=512
}

__global__ void count(void **in, unsigned n, unsigned *nulls)
{
	for (unsigned i = 0; i < n; i++)
		*nulls += in[i] == nullptr;
}

int main()
{
	enum { THREADS = 1024 };
	void **out;
	unsigned *nulls, n;
	MUST(cudaMalloc(&out, THREADS * sizeof *out));
	MUST(cudaMalloc(&nulls, sizeof *nulls));
	MUST(cudaMemset(nulls, 0, sizeof *nulls));
	ask<<<THREADS / 64, 64>>>(out, 2);
	count<<<1, 1>>>(out, THREADS, nulls);
	MUST(cudaMemcpy(&n, nulls, sizeof n, cudaMemcpyDeviceToHost));
	MUST(cudaDeviceReset());
	printf("%u NULLs\n", n);
	return 0;
}
