/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc of 16 bytes to 1 GiB in kernels, by one lane and by 128 lanes, at most a quarter of the
 * device in all: bigblocks limit|nolimit sizes|many|one. `limit`: the program sets
 * cudaLimitMallocHeapSize to 3 GiB before its first launch.
 *
 *   sizes   each size, freed before the next; the first kernel of the process allocates the largest
 *   many    the first kernel allocates 200 blocks of 64 KiB in each of 128 lanes, and frees none
 *   one     the first kernel allocates one block of 100 MiB
 *
 * Every word of a block is written and checked. The driver's heap refuses what exceeds its limit,
 * so the number of NULLs is on standard error, and fails a preloaded run only.
 */
#include <cstring>

#include "gpu.h"

enum { LANES = 128, TIMES = 200 };

static const size_t KIB = 1024, MIB = KIB << 10, GIB = MIB << 10;

static const size_t sizes[] = {GIB,	256 * MIB, 100 * MIB, 64 * MIB, 16 * MIB,
			       4 * MIB, MIB,	   256 * KIB, 64 * KIB, 16 * KIB,
			       4 * KIB, 1000,	   256,	      64,	16};

static const bool preloaded = getenv("LD_PRELOAD") != NULL;

struct Counts {
	unsigned long long null, damaged;
};

static uint32_t **kept; /* LANES * TIMES */
static Counts *counts;

/* `times` blocks a lane. */
static __global__ void take(uint32_t **out, size_t size, unsigned times, Counts *seen)
{
	unsigned lane = blockIdx.x * blockDim.x + threadIdx.x;
	for (unsigned i = 0; i < times; i++) {
		uint32_t *at = (uint32_t *)malloc(size);
		out[lane * times + i] = at;
		if (!at)
			atomicAdd(&seen->null, 1);
		else if ((uintptr_t)at % 16)
			atomicAdd(&seen->damaged, 1);
	}
}

/* All threads write each block in turn, since one lane would take seconds for a gigabyte. */
static __global__ void write_all(uint32_t **in, unsigned n, size_t words)
{
	for (unsigned b = 0; b < n; b++)
		for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; in[b] && i < words;
		     i += (size_t)gridDim.x * blockDim.x)
			in[b][i] = pattern(b, i);
}

static __global__ void check_all(uint32_t **in, unsigned n, size_t words, Counts *seen)
{
	for (unsigned b = 0; b < n; b++)
		for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; in[b] && i < words;
		     i += (size_t)gridDim.x * blockDim.x)
			if (in[b][i] != pattern(b, i))
				atomicAdd(&seen->damaged, 1);
}

/* The first lane frees another's blocks. */
static __global__ void drop(uint32_t **in, unsigned times)
{
	unsigned lane = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
	for (unsigned i = 0; i < times; i++)
		free(in[(lane + 1) % n * times + i]);
}

/* `lanes` is 1 or a multiple of 32. */
static bool round_of(size_t size, unsigned lanes, unsigned times, bool frees)
{
	unsigned block = lanes < 32 ? lanes : 32, n = lanes * times;
	size_t words = size / sizeof(uint32_t);
	MUST(cudaMemset(counts, 0, sizeof *counts));
	take<<<lanes / block, block>>>(kept, size, times, counts);
	write_all<<<512, 256>>>(kept, n, words);
	check_all<<<512, 256>>>(kept, n, words, counts);
	if (frees)
		drop<<<lanes / block, block>>>(kept, times);
	MUST(cudaGetLastError());
	Counts seen;
	MUST(cudaMemcpy(&seen, counts, sizeof seen, cudaMemcpyDeviceToHost));
	printf("%u lanes, %u blocks of %zu bytes each: %llu words damaged\n", lanes, times, size,
	       seen.damaged);
	fprintf(stderr, "%u lanes, %u blocks of %zu bytes each: %llu NULL of %u\n", lanes, times,
		size, seen.null, n);
	if (preloaded && seen.null)
		printf("%u lanes, %zu bytes: %llu NULL\n", lanes, size, seen.null);
	fflush(stdout);
	return !seen.damaged && !(preloaded && seen.null);
}

static bool run_sizes(size_t most)
{
	const size_t n = sizeof sizes / sizeof *sizes;
	bool good = true;
	for (size_t i = 0; i < n; i++)
		if (sizes[i] <= most)
			good = round_of(sizes[i], 1, 1, true) && good;
	for (size_t i = n; i-- > 0;)
		if (sizes[i] * LANES <= most)
			good = round_of(sizes[i], LANES, 1, true) && good;
	for (size_t i = 0; i < n; i++) /* and back to large blocks of one lane */
		if (sizes[i] <= most && sizes[i] >= 64 * MIB)
			good = round_of(sizes[i], 1, 1, true) && good;
	return good;
}

static bool run_many(size_t)
{
	return round_of(64 * KIB, LANES, TIMES, false);
}

static bool run_one(size_t)
{
	return round_of(100 * MIB, 1, 1, true);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		bool (*run)(size_t most);
	} parts[] = {{"sizes", run_sizes}, {"many", run_many}, {"one", run_one}};
	size_t have, total, limit = 0;
	bool good = true, found = false;
	if (argc != 3 || (strcmp(argv[1], "limit") != 0 && strcmp(argv[1], "nolimit") != 0))
		return fprintf(stderr, "usage: bigblocks limit|nolimit sizes|many|one\n"), 2;
	if (strcmp(argv[1], "limit") == 0) {
		MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 3 * GIB));
		MUST(cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize));
		printf("the limit is at least 3 GiB: %d\n", limit >= 3 * GIB);
	}
	MUST(cudaMemGetInfo(&have, &total));
	MUST(cudaMalloc(&kept, LANES * TIMES * sizeof *kept));
	MUST(cudaMalloc(&counts, sizeof *counts));
	for (const auto &part : parts)
		if (strcmp(argv[2], part.name) == 0) {
			found = true;
			good = part.run(total / 4);
		}
	MUST(cudaDeviceSynchronize());
	printf("bigblocks %s %s: %s\n", argv[1], argv[2], good && found ? "ok" : "not ok");
	return !(good && found);
}
