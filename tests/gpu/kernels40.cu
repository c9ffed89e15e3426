// SPDX-License-Identifier: BSD-3-Clause
/*
 * malloc in 40 kernels: ten kinds of sizes, few or many live registers around the call, inlined or
 * called; each kernel has another launch shape. local.mk builds it as code for one GPU, and as PTX
 * that the driver compiles.
 *
 *   kernels40 kernels [LAUNCHES]   each kernel, 1,000 launches. A block stays for the next launch,
 *                                  where another thread checks and frees it
 *   kernels40 threads              4 Ki to 4 Mi threads, each with a block at the same time
 *   kernels40 rounds [ROUNDS]      mixed sizes, allocated and freed at random, 1,001 times
 *
 * Every word is checked. Exit status 1: a block was missing or damaged, or a register changed.
 */
#include <string>
#include <utility>

#include "gpu.h"

enum { KINDS = 10, KERNELS = 4 * KINDS, HELD = 48 };

struct Counts {
	unsigned long long missing, damaged, lost;
};

struct Table {
	void **kept[2];	     /* blocks of this launch and of the last one, one a thread */
	const float *number; /* HELD numbers */
	Counts *counts;
	float one;
	unsigned launch;
	bool last; /* only check and free */
};

static __host__ __device__ unsigned scattered(unsigned n)
{
	n = (n ^ n >> 16) * 0x85ebca6bu;
	n = (n ^ n >> 13) * 0xc2b2ae35u;
	return n ^ n >> 16;
}

/* Size of thread `t`'s block in a launch, bytes. */
static __host__ __device__ unsigned size_of(int kind, unsigned t, unsigned launch)
{
	const unsigned fixed[] = {16, 24, 40, 64, 100, 777};
	switch (kind) {
	case 6:
		return 1 + scattered(t * 1001 + launch) % 256; /* differs by thread */
	case 7:
		return 16u << (t / 32 + launch) % 8; /* differs by warp */
	case 8:
		return t % 8 == 0 ? 8192 : 32;
	case 9:
		return 4 + scattered(launch) % 8189; /* differs by launch */
	default:
		return fixed[kind];
	}
}

static __device__ bool holds(const void *block, unsigned size, unsigned tag)
{
	bool good = true;
	for (unsigned i = 0; i < size / 4; i++)
		good = good && ((const unsigned *)block)[i] == pattern(tag, i);
	for (unsigned i = size & ~3u; i < size; i++)
		good = good && ((const unsigned char *)block)[i] == (unsigned char)(tag + i);
	return good;
}

static __device__ void write(void *block, unsigned size, unsigned tag)
{
	for (unsigned i = 0; i < size / 4; i++)
		((unsigned *)block)[i] = pattern(tag, i);
	for (unsigned i = size & ~3u; i < size; i++)
		((unsigned char *)block)[i] = (unsigned char)(tag + i);
}

static __device__ __noinline__ void *called_malloc(size_t size)
{
	return malloc(size);
}

static __device__ __noinline__ void called_free(void *block)
{
	free(block);
}

/* Check and free the kept block; write and free one block, and keep another. */
template <int KIND, bool CALLED>
static __device__ void turn(const Table &table, unsigned t, unsigned n)
{
	unsigned other = (t + 37) % n, before = table.launch - 1, launch = table.launch;
	void *old = table.launch ? table.kept[before & 1][other] : nullptr;
	if (table.launch && (!old || !holds(old, size_of(KIND, other, before), other + before)))
		atomicAdd(&table.counts->damaged, 1);
	CALLED ? called_free(old) : free(old);
	if (table.last)
		return;
	unsigned size = size_of(KIND, t, launch);
	void *fresh = CALLED ? called_malloc(size) : malloc(size);
	void *brief = CALLED ? called_malloc(size) : malloc(size);
	if (!fresh || !brief)
		atomicAdd(&table.counts->missing, 1);
	if (fresh)
		write(fresh, size, t + launch);
	if (brief) {
		write(brief, size, ~t);
		if (!holds(brief, size, ~t))
			atomicAdd(&table.counts->damaged, 1);
	}
	CALLED ? called_free(brief) : free(brief);
	table.kept[launch & 1][t] = fresh;
}

template <int KIND, bool MANY, bool CALLED>
__global__ __launch_bounds__(1024) void work(Table table)
{
	unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
	unsigned lane = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
	unsigned size = blockDim.x * blockDim.y * blockDim.z, t = block * size + lane;
	unsigned n = gridDim.x * gridDim.y * gridDim.z * size;
	constexpr int COUNT = MANY ? HELD : 1;
	float held[COUNT], before = 0, after = 0;
#pragma unroll
	for (int i = 0; i < COUNT; i++) {
		held[i] = table.number[(i + t) % HELD];
		before += held[i];
	}
	turn<KIND, CALLED>(table, t, n);
	/* `one` is 1, unknown to the compiler: so each number stays live across the calls. */
#pragma unroll
	for (int i = 0; i < COUNT; i++)
		after += held[i] * table.one;
	if (after != before)
		atomicAdd(&table.counts->lost, 1);
}

typedef void (*Kernel)(Table);

template <size_t... I> static std::vector<Kernel> all(std::index_sequence<I...>)
{
	return {work<int(I / 4), (I & 2) != 0, (I & 1) != 0>...};
}

struct Shape {
	dim3 grid, block;
};

static const Shape shapes[] = {
	{dim3(256), dim3(32)},	    {dim3(43), dim3(96)},	    {dim3(16, 2), dim3(64, 2)},
	{dim3(80), dim3(17, 3)},    {dim3(4, 2, 2), dim3(8, 8, 4)}, {dim3(5), dim3(1024)},
	{dim3(125), dim3(33)},	    {dim3(9), dim3(31, 15)},	    {dim3(2000), dim3(1)},
	{dim3(3, 3), dim3(16, 30)},
};

static unsigned threads_of(const Shape &s)
{
	return s.grid.x * s.grid.y * s.grid.z * s.block.x * s.block.y * s.block.z;
}

/* Prints the counts since the last call. */
static bool told(Counts *counts, const char *what, unsigned number)
{
	Counts seen;
	MUST(cudaMemcpy(&seen, counts, sizeof seen, cudaMemcpyDeviceToHost));
	MUST(cudaMemset(counts, 0, sizeof *counts));
	printf("%s %u: %llu blocks missing, %llu damaged, %llu registers\n", what, number,
	       seen.missing, seen.damaged, seen.lost);
	return !seen.missing && !seen.damaged && !seen.lost;
}

static bool run_kernels(Counts *counts, unsigned launches)
{
	enum { MOST = 8192 };
	Table table = {};
	float number[HELD], *on_device;
	bool good = true;
	for (int i = 0; i < HELD; i++)
		number[i] = float(i * i % 31) / 4;
	MUST(cudaMalloc(&on_device, sizeof number));
	MUST(cudaMemcpy(on_device, number, sizeof number, cudaMemcpyHostToDevice));
	for (void **&kept : table.kept)
		MUST(cudaMalloc(&kept, MOST * sizeof *kept));
	table.number = on_device;
	table.counts = counts;
	table.one = 1;
	const std::vector<Kernel> kernels = all(std::make_index_sequence<KERNELS>());
	for (unsigned k = 0; k < KERNELS; k++) {
		const Shape &shape = shapes[(k * 7 + k / 4) % (sizeof shapes / sizeof *shapes)];
		if (threads_of(shape) > MOST)
			return false;
		for (table.launch = 0; table.launch <= launches; table.launch++) {
			table.last = table.launch == launches;
			kernels[k]<<<shape.grid, shape.block>>>(table);
			MUST(cudaGetLastError());
		}
		MUST(cudaDeviceSynchronize());
		good = told(counts, "kernel", k) && good;
	}
	return good;
}

/* --- many threads --- */

static __global__ void take_all(void **kept, unsigned n, Counts *counts)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	if (t >= n)
		return;
	kept[t] = malloc(64);
	if (kept[t])
		write(kept[t], 64, t);
	else
		atomicAdd(&counts->missing, 1);
}

static __global__ void free_all(void **kept, unsigned n, Counts *counts)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	if (t >= n)
		return;
	if (kept[t] && !holds(kept[t], 64, t))
		atomicAdd(&counts->damaged, 1);
	free(kept[t]);
}

static bool run_threads(Counts *counts)
{
	enum { MOST = 4 << 20, BLOCK = 192, ROUNDS = 2 };
	void **kept;
	bool good = true;
	MUST(cudaMalloc(&kept, MOST * sizeof *kept));
	for (unsigned n = 4096; n <= MOST; n *= 4) {
		for (unsigned i = 0; i < ROUNDS; i++) {
			take_all<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(kept, n, counts);
			free_all<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(kept, n, counts);
		}
		MUST(cudaDeviceSynchronize());
		good = told(counts, "threads", n) && good;
	}
	return good;
}

/* --- rounds --- */

struct Slot {
	void *at;
	unsigned size, tag;
};

static __global__ void mix(Slot *slot, unsigned n, unsigned round, Counts *counts)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x, dice = scattered(t * 7919 + round);
	if (t >= n || dice % 3 == 0)
		return;
	Slot *mine = &slot[(t + round * 61) % n];
	if (mine->at) {
		if (!holds(mine->at, mine->size, mine->tag))
			atomicAdd(&counts->damaged, 1);
		free(mine->at);
		mine->at = nullptr;
		if (dice % 3 == 1)
			return;
	}
	mine->size = 1 + scattered(dice) % (dice % 16 ? 256 : 8192);
	mine->tag = t ^ round;
	mine->at = malloc(mine->size);
	if (mine->at)
		write(mine->at, mine->size, mine->tag);
	else
		atomicAdd(&counts->missing, 1);
}

static bool run_rounds(Counts *counts, unsigned rounds)
{
	enum { SLOTS = 32768, BLOCK = 128 };
	Slot *slot;
	MUST(cudaMalloc(&slot, SLOTS * sizeof *slot));
	MUST(cudaMemset(slot, 0, SLOTS * sizeof *slot));
	for (unsigned round = 0; round < rounds; round++)
		mix<<<SLOTS / BLOCK, BLOCK>>>(slot, SLOTS, round, counts);
	MUST(cudaDeviceSynchronize());
	return told(counts, "rounds", rounds);
}

int main(int argc, char **argv)
{
	std::string what = argc > 1 ? argv[1] : "";
	unsigned times = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	Counts *counts;
	bool good = true;
	MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, (size_t)1 << 30));
	MUST(cudaMalloc(&counts, sizeof *counts));
	MUST(cudaMemset(counts, 0, sizeof *counts));
	if (what == "kernels")
		good = run_kernels(counts, times ? times : 1000);
	else if (what == "threads")
		good = run_threads(counts);
	else if (what == "rounds")
		good = run_rounds(counts, times ? times : 1001);
	else
		return 2;
	return good ? 0 : 1;
}
