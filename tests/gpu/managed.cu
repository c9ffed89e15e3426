/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Managed memory of a process that has used and freed three quarters of the device before: the
 * freed memory must not keep managed pages from the device. Live and managed memory never exceed
 * the device. The times on standard error are for the reader, and not compared.
 *
 *   ./managed much    managed memory of 35% of the device, read by four kernels
 *   ./managed flags   64 bytes that host and kernels write in turn
 */
#include <cstring>
#include <ctime>

#include "gpu.h"

enum { PASSES = 4, FLAGS = 16, ROUNDS = 1000 };

static const size_t MIB = (size_t)1 << 20, BLOCK = 512 * MIB;

static unsigned long long *bad;

static size_t share_of(size_t size, unsigned percent)
{
	return size / 100 * percent / BLOCK * BLOCK;
}

static double now_ms()
{
	timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static size_t free_now(size_t *total)
{
	size_t have;
	MUST(cudaMemGetInfo(&have, total));
	return have;
}

static void put(uint32_t *at, size_t size, uint32_t tag)
{
	fill<<<1024, 256>>>(at, size / sizeof *at, tag);
	MUST(cudaGetLastError());
}

/* Words that differ. */
static unsigned long long differs(const uint32_t *at, size_t size, uint32_t tag)
{
	unsigned long long wrong;
	MUST(cudaMemset(bad, 0, sizeof *bad));
	verify<<<1024, 256>>>(at, size / sizeof *at, tag, bad);
	MUST(cudaMemcpy(&wrong, bad, sizeof wrong, cudaMemcpyDeviceToHost));
	return wrong;
}

/* Allocate, use and free `size` bytes in blocks. True: each block was as written. */
static bool use(size_t size, uint32_t tag, const char *when)
{
	std::vector<uint32_t *> blocks(size / BLOCK);
	unsigned long long wrong = 0;
	double begin = now_ms();
	for (uint32_t *&block : blocks)
		MUST(cudaMalloc(&block, BLOCK));
	for (size_t i = 0; i < blocks.size(); i++)
		put(blocks[i], BLOCK, tag + (uint32_t)i);
	for (size_t i = 0; i < blocks.size(); i++)
		wrong += differs(blocks[i], BLOCK, tag + (uint32_t)i);
	for (uint32_t *block : blocks)
		MUST(cudaFree(block));
	printf("three quarters of the device, %s: %llu words wrong\n", when, wrong);
	fprintf(stderr, "three quarters of the device, %s: %.1f ms\n", when, now_ms() - begin);
	return !wrong;
}

/* --- much --- */

/* The first word of each 64 MiB: their pages move to the host. */
static size_t differs_on_host(const uint32_t *at, size_t size, uint32_t tag)
{
	size_t wrong = 0;
	for (size_t i = 0; i < size / sizeof *at; i += 64 * MIB / sizeof *at)
		wrong += at[i] != pattern(tag, i);
	return wrong;
}

static bool much(size_t total)
{
	uint32_t *at;
	size_t size = share_of(total, 35), before = free_now(&total), host;
	unsigned long long wrong, sum = 0;
	MUST(cudaMallocManaged(&at, size));
	double begin = now_ms();
	put(at, size, 1);
	MUST(cudaDeviceSynchronize());
	fprintf(stderr, "first use of %zu MiB: %.1f ms\n", size >> 20, now_ms() - begin);
	for (int i = 0; i < PASSES; i++) {
		begin = now_ms();
		sum += wrong = differs(at, size, 1);
		printf("managed memory, pass %d: %llu words wrong\n", i, wrong);
		fprintf(stderr, "pass %d: %.1f ms\n", i, now_ms() - begin);
	}
	fprintf(stderr, "free before %zu MiB, now %zu MiB\n", before >> 20, free_now(&total) >> 20);
	host = differs_on_host(at, size, 1);
	sum += host + (wrong = differs(at, size, 1));
	printf("on the host %zu words wrong, then on the device %llu\n", host, wrong);
	MUST(cudaFree(at));
	return !sum;
}

/* --- flags --- */

static __global__ void answer(volatile unsigned *flags)
{
	flags[threadIdx.x] = flags[threadIdx.x] * 3 + threadIdx.x;
}

static bool flags(size_t)
{
	unsigned *at, expected[FLAGS] = {}, wrong = 0;
	MUST(cudaMallocManaged(&at, FLAGS * sizeof *at));
	memset(at, 0, FLAGS * sizeof *at);
	double begin = now_ms();
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < FLAGS; i++) {
			at[i] += round;
			expected[i] = (expected[i] + round) * 3 + i;
		}
		answer<<<1, FLAGS>>>(at);
		MUST(cudaDeviceSynchronize());
		wrong += memcmp(at, expected, sizeof expected) != 0;
	}
	printf("managed flags: %u of %d rounds wrong\n", wrong, ROUNDS);
	fprintf(stderr, "flags: %.1f ms\n", now_ms() - begin);
	MUST(cudaFree(at));
	return !wrong;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		bool (*run)(size_t total);
	} parts[] = {{"much", much}, {"flags", flags}};
	size_t total, live;
	uint32_t *kept;
	bool good = true, found = false;
	free_now(&total);
	live = share_of(total, 5);
	MUST(cudaMalloc(&bad, sizeof *bad));
	MUST(cudaMalloc(&kept, live));
	put(kept, live, 7);
	for (const auto &part : parts)
		if (argc == 2 && strcmp(argv[1], part.name) == 0) {
			found = true;
			good = use(share_of(total, 75), 100, "before") && good;
			good = part.run(total) && good;
			good = use(share_of(total, 75), 200, "after") && good;
		}
	if (!found)
		return fprintf(stderr, "usage: managed much|flags\n"), 2;
	unsigned long long wrong = differs(kept, live, 7);
	good = !wrong && good;
	printf("memory that was live all the time: %llu words wrong\n", wrong);
	printf("managed: %s\n", good ? "ok" : "not ok");
	return !good;
}
