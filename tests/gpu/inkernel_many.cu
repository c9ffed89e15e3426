/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many threads with a block each: ./inkernel_many THREADS BYTES [LIMIT]. Prints the numbers of
 * missing blocks and of wrong words, and on standard error the times of malloc and free. LIMIT in
 * bytes is the program's limit for the driver's own heap. With LIMIT "none", and blocks of at most
 * a quarter of the device in all, missing blocks fail a preloaded run; natively they are only on
 * standard error. Exit status 1: a word was wrong, or such a block missing.
 */
#include <cstring>

#include "gpu.h"

__global__ void grab(unsigned **out, unsigned n, unsigned words)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	if (t >= n)
		return;
	unsigned *at = (unsigned *)malloc(words * sizeof *at);
	for (unsigned i = 0; at && i < words; i++)
		at[i] = pattern(t, i);
	out[t] = at;
}

__global__ void check(unsigned **in, unsigned n, unsigned words, unsigned long long *wrong)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	if (t >= n)
		return;
	if (!in[t])
		atomicAdd(&wrong[0], 1);
	for (unsigned i = 0; in[t] && i < words; i++)
		if (in[t][i] != pattern(t, i))
			atomicAdd(&wrong[1], 1);
}

__global__ void drop(unsigned **in, unsigned n)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	if (t < n)
		free(in[t]);
}

static bool fits(size_t bytes)
{
	size_t have, total;
	MUST(cudaMemGetInfo(&have, &total));
	return bytes <= total / 4;
}

int main(int argc, char **argv)
{
	unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 1000000;
	unsigned words = argc > 2 ? (unsigned)atoi(argv[2]) / 4 : 16, blocks = (n + 255) / 256;
	unsigned **kept;
	unsigned long long *wrong;
	cudaEvent_t at[4];
	bool unlimited = argc > 3 && strcmp(argv[3], "none") == 0, good = true;
	bool native = unlimited && !getenv("LD_PRELOAD");
	if (unlimited && !fits((size_t)n * 4 * words)) {
		printf("the blocks are more than a quarter of the device\n");
		return 77;
	}
	if (argc > 3 && !unlimited)
		MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, strtoull(argv[3], NULL, 10)));
	MUST(cudaMalloc(&kept, n * sizeof *kept));
	MUST(cudaMallocManaged(&wrong, 2 * sizeof *wrong));
	for (cudaEvent_t &event : at)
		MUST(cudaEventCreate(&event));
	for (int round = 0; round < 4; round++) {
		float malloc_ms = 0, free_ms = 0;
		wrong[0] = wrong[1] = 0;
		MUST(cudaEventRecord(at[0]));
		grab<<<blocks, 256>>>(kept, n, words);
		MUST(cudaEventRecord(at[1]));
		check<<<blocks, 256>>>(kept, n, words, wrong);
		MUST(cudaEventRecord(at[2]));
		drop<<<blocks, 256>>>(kept, n);
		MUST(cudaEventRecord(at[3]));
		MUST(cudaDeviceSynchronize());
		MUST(cudaEventElapsedTime(&malloc_ms, at[0], at[1]));
		MUST(cudaEventElapsedTime(&free_ms, at[2], at[3]));
		printf("%u threads, %u bytes, round %d: %llu NULL, %llu wrong\n", n, 4 * words,
		       round, native ? 0 : wrong[0], wrong[1]);
		fprintf(stderr,
			"threads,%u,bytes,%u,round,%d,malloc_ms,%.4f,free_ms,%.4f,null,%llu\n", n,
			4 * words, round, malloc_ms, free_ms, wrong[0]);
		good = good && !wrong[1] && (!unlimited || native || !wrong[0]);
	}
	printf("inkernel_many: %s\n", good ? "ok" : "not ok");
	return !good;
}
