/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels allocate until they get NULL, free all of it, and the memory is available to others
 * again:
 *
 *   ./inkernel_full LIMIT   the heap is asked to have LIMIT bytes; it has to be full near that
 *   ./inkernel_full whole   the heap has to be full when the device is; natively, without such a
 *                           heap, at the default limit
 */
#include "gpu.h"

#include <cstring>

struct Piece {
	Piece *next;
	unsigned long long tag;
};

struct Counts {
	unsigned long long pieces, refused, wrong;
};

/* Each thread allocates until it gets NULL, or all of them have `most`. */
__global__ void take_all(Piece **list, size_t size, unsigned long long most, Counts *counts)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	for (unsigned long long n = 0; atomicAdd(&counts->pieces, 1) < most; n++) {
		Piece *p = (Piece *)malloc(size);
		if (!p) {
			atomicAdd(&counts->refused, 1);
			atomicAdd(&counts->pieces, ~0ull);
			break;
		}
		p->next = list[t];
		p->tag = ((unsigned long long)t << 32) + n;
		*((volatile char *)p + size - 1) = (char)t;
		list[t] = p;
	}
}

__global__ void free_all(Piece **list, size_t size, Counts *counts)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	for (Piece *p = list[t]; p;) {
		Piece *next = p->next;
		unsigned long long n = next ? (next->tag & 0xffffffff) + 1 : 0;
		if (p->tag != ((unsigned long long)t << 32) + n ||
		    *((volatile char *)p + size - 1) != (char)t)
			atomicAdd(&counts->wrong, 1);
		free(p);
		p = next;
	}
	list[t] = NULL;
}

static size_t free_now()
{
	size_t size, total;
	MUST(cudaMemGetInfo(&size, &total));
	return size;
}

/* Memory that kernels have freed is available. */
static void use_all_but(size_t size, size_t spare)
{
	void *at;
	SHOW(cudaMalloc(&at, size - spare));
	SHOW(cudaMemset(at, 1, size - spare));
	SHOW(cudaDeviceSynchronize());
	SHOW(cudaFree(at));
}

static void yes(const char *what, bool so)
{
	printf("%-50s %s\n", what, so ? "yes" : "no");
	fflush(stdout);
}

static const unsigned BLOCKS = 128, BLOCK = 32;

int main(int argc, char **argv)
{
	bool whole = argc < 2 || !strcmp(argv[1], "whole");
	size_t limit = whole ? 0 : strtoull(argv[1], NULL, 10), size = whole ? 1000000 : 10000;
	Piece **list;
	Counts *counts;
	if (limit)
		MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, limit));
	MUST(cudaMalloc(&list, BLOCKS * BLOCK * sizeof *list));
	MUST(cudaMemset(list, 0, BLOCKS * BLOCK * sizeof *list));
	MUST(cudaMallocManaged(&counts, sizeof *counts));
	take_all<<<1, 1>>>(list, 16, 1, counts); /* makes the heap */
	free_all<<<1, 1>>>(list, 16, counts);
	MUST(cudaDeviceSynchronize());
	size_t before = free_now(), least = limit / 100 * 75;
	if (whole) /* natively the heap has 8 MiB */
		least = getenv("LD_PRELOAD") ? before / 100 * 80 : (size_t)4 << 20;
	/* Without a limit no thread may run for ever. */
	unsigned long long most = (limit ? 4 * limit : 2 * before) / size;
	for (int round = 0; round < 3; round++) {
		*counts = {};
		take_all<<<BLOCKS, BLOCK>>>(list, size, most, counts);
		MUST(cudaDeviceSynchronize());
		size_t got = counts->pieces * size;
		fprintf(stderr, "round %d: %zu MiB in pieces of %zu B\n", round, got >> 20, size);
		yes("all threads got NULL in the end", counts->refused == BLOCKS * BLOCK);
		yes("and most of the heap before it", got >= least);
		yes("but no more than there is", got <= (limit ? limit : before));
		free_all<<<BLOCKS, BLOCK>>>(list, size, counts);
		MUST(cudaDeviceSynchronize());
		printf("%-50s %llu\n", "pieces that were not as written", counts->wrong);
		use_all_but(before, (size_t)512 << 20);
		size_t after = free_now();
		fprintf(stderr, "free before %zu MiB, after %zu MiB\n", before >> 20, after >> 20);
		yes("the memory is back: within 128 MiB", after + ((size_t)128 << 20) >= before);
	}
	return 0;
}
