/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An ordinary CUDA program that leaves gaps: it fills fifteen sixteenths of the device with blocks
 * of 512 KiB, keeps every fourth, and asks for twice their total in blocks of 1.25 MiB. Natively,
 * blocks of less than 1 MiB share pages of 2 MiB, and larger ones have pages of their own: so each
 * kept block holds a page. It does not use gpumem's interfaces, and is for the simulated device,
 * whose size is SIM_MEMORY. Exit status: 0; 1 out of memory; 2 when a block has lost its contents
 * or a call failed.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime_api.h>

#define MIB ((size_t)1 << 20)
#define SMALL (MIB / 2)
#define LARGE (MIB + MIB / 4)
#define BLOCKS_MOST 8192

struct block {
	char *at;
	size_t size;
	unsigned char value;
};

static struct block blocks[BLOCKS_MOST];
static size_t n, in_use, total;

static void must(cudaError_t error, const char *call)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "fragments: %s: %s\n", call, cudaGetErrorName(error));
	exit(2);
}

static void block_add(size_t size)
{
	struct block *b = &blocks[n];
	if (cudaMalloc((void **)&b->at, size) == cudaErrorMemoryAllocation) {
		printf("fragments: out of memory with %zu of %zu MiB in use\n", in_use / MIB,
		       total / MIB);
		exit(1);
	}
	b->size = size;
	b->value = (unsigned char)(n++ * 7 + 1);
	must(cudaMemset(b->at, b->value, size), "cudaMemset");
	in_use += size;
}

__attribute__((noinline)) static void activations_keep(void)
{
	const size_t most = total / 16 * 15 / SMALL;
	while (n < most)
		block_add(SMALL);
	size_t kept = 0;
	for (size_t i = 0; i < n; i++) {
		if (i % 4 == 0) {
			blocks[kept++] = blocks[i];
			continue;
		}
		must(cudaFree(blocks[i].at), "cudaFree");
		in_use -= blocks[i].size;
	}
	n = kept;
}

__attribute__((noinline)) static void gradients_make(void)
{
	const size_t enough = 3 * in_use;
	while (in_use < enough)
		block_add(LARGE);
}

static void block_check(const struct block *b)
{
	unsigned char ends[2];
	must(cudaMemcpy(&ends[0], b->at, 1, cudaMemcpyDeviceToHost), "cudaMemcpy");
	must(cudaMemcpy(&ends[1], b->at + b->size - 1, 1, cudaMemcpyDeviceToHost), "cudaMemcpy");
	if (ends[0] != b->value || ends[1] != b->value) {
		fprintf(stderr, "fragments: a block has lost its content\n");
		exit(2);
	}
}

int main(void)
{
	size_t unused;
	must(cudaMemGetInfo(&unused, &total), "cudaMemGetInfo");
	if (total / SMALL > BLOCKS_MOST) {
		fprintf(stderr, "fragments: the device is too large: SIM_MEMORY=128M\n");
		return 2;
	}
	activations_keep();
	gradients_make();
	for (size_t i = 0; i < n; i++)
		block_check(&blocks[i]);
	printf("fragments: done with %zu of %zu MiB in use\n", in_use / MIB, total / MIB);
	return 0;
}
