// SPDX-License-Identifier: BSD-3-Clause
// A device heap that grows from empty while kernels run: 40 times in one kernel; up to its limit by
// many lanes; and while the host is in a call that waits for this kernel. Then the heap is trimmed.
// Prints conditions that must hold; times are on standard error.
#include <algorithm>
#include <chrono>
#include <gpumem_device.cuh>
#include <sys/resource.h>
#include <unistd.h>

#include "gpu.h"

typedef unsigned long long Count;
enum { GROWTHS = 40, BLOCK = 8000 };

static bool all_so = true;

static void say(const char *what, bool so)
{
	all_so = all_so && so;
	printf("%-60s %s\n", what, so ? "yes" : "no");
	fflush(stdout);
}

static gpumem_heap *make(size_t limit)
{
	gpumem_heap *heap;
	MUST(gpumem_heap_create(0, limit, &heap));
	return heap;
}

static struct gpumem_heap_stats stats(gpumem_heap *heap)
{
	struct gpumem_heap_stats s;
	s.size = sizeof s;
	MUST(gpumem_heap_stats(heap, &s));
	return s;
}

template <typename Launch> static void run(gpumem_heap *heap, Launch launch)
{
	gpumem_heap_begin(heap, 0);
	launch();
	gpumem_heap_end(heap, 0);
	MUST(cudaDeviceSynchronize());
}

// All chunks but the first return to the pool, and so does slack, which "mapped" does not count.
static void trim(gpumem_heap *heap, const char *when)
{
	struct gpumem_heap_stats before = stats(heap);
	auto begin = std::chrono::steady_clock::now();
	uint64_t given = gpumem_heap_trim(heap);
	std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
	struct gpumem_heap_stats s = stats(heap);
	fprintf(stderr, "%s: trim of %llu chunks, %llu MiB: %.2f ms\n", when,
		(Count)before.chunks - 1, (Count)given >> 20, took.count());
	printf("%-30s live %llu, used %llu, chunks %llu\n", when, (Count)s.live, (Count)s.used,
	       (Count)s.chunks);
	say("what was mapped went",
	    given >= before.mapped - s.mapped && gpumem_heap_trim(heap) == 0);
}

// --- one lane, 40 growths ---

struct Times {
	uint64_t whole[GROWTHS], grow[GROWTHS];
};

// Each allocation is longer than all free memory.
static __global__ void grow_by_malloc(gm_heap *heap, void **block, Times *times)
{
	for (int i = 0; i < GROWTHS; i++) {
		uint64_t size = (gm_load64(&heap->available) + 1) * GM_GRANULE,
			 begin = gm_nanoseconds();
		block[i] = gpumem_malloc(heap, size);
		times->whole[i] = gm_nanoseconds() - begin;
		if (block[i]) {
			*(volatile uint64_t *)block[i] = i;
			*(volatile uint64_t *)((char *)block[i] + size - 8) = i;
		}
	}
}

// Only the wait for the host.
static __global__ void grow_alone(gm_heap *heap, Times *times, Count *failed)
{
	for (int i = 0; i < GROWTHS; i++) {
		uint64_t begin = gm_nanoseconds();
		*failed += !gm_span_grow(heap, 1, 1, gm_load32(&heap->epoch));
		times->grow[i] = gm_nanoseconds() - begin;
	}
}

static __global__ void free_blocks(gm_heap *heap, void **block, Count n)
{
	for (Count i = blockIdx.x * (Count)blockDim.x + threadIdx.x; i < n;
	     i += (Count)gridDim.x * blockDim.x)
		gpumem_free(heap, block[i]);
}

static void tell(const char *what, uint64_t *ns)
{
	std::sort(ns, ns + GROWTHS);
	fprintf(stderr, "%s: median %.1f us, p90 %.1f, p99 %.1f, longest %.1f\n", what,
		ns[GROWTHS / 2] / 1e3, ns[GROWTHS * 9 / 10] / 1e3, ns[GROWTHS * 99 / 100] / 1e3,
		ns[GROWTHS - 1] / 1e3);
}

static void growths()
{
	gpumem_heap *heap = make(40ull << 30);
	gm_heap *device = gpumem_heap_device(heap);
	Times *times;
	void **block;
	Count *failed;
	MUST(cudaMallocManaged(&times, sizeof *times));
	MUST(cudaMallocManaged(&block, GROWTHS * sizeof *block));
	MUST(cudaMallocManaged(&failed, sizeof *failed));
	struct gpumem_heap_stats s = stats(heap);
	fprintf(stderr, "empty: %llu MiB mapped, and %llu of books\n", (Count)s.mapped >> 20,
		(Count)s.own >> 20);
	say("at most 64 MiB are mapped before", s.mapped + s.own <= 64 << 20);
	run(heap, [&] { grow_alone<<<1, 1>>>(device, times, failed); });
	tell("waiting for the host, new memory", times->grow);
	struct gpumem_heap_stats after = stats(heap);
	fprintf(stderr, "grown %llu times, to %llu MiB\n", (Count)after.grown,
		(Count)after.mapped >> 20);
	say("grew 40 times in one kernel", after.grown - s.grown == GROWTHS && *failed == 0);
	trim(heap, "after 40 growths");
	run(heap, [&] { grow_alone<<<1, 1>>>(device, times, failed); });
	tell("waiting for the host, idle memory of the pool", times->grow);
	trim(heap, "after 40 more");
	gpumem_trim();
	s = stats(heap);
	run(heap, [&] { grow_by_malloc<<<1, 1>>>(device, block, times); });
	tell("malloc that has to wait for the host, new memory", times->whole);
	after = stats(heap);
	say("40 times again", after.grown - s.grown == GROWTHS);
	say("nobody got NULL", after.nulls == 0);
	run(heap, [&] { free_blocks<<<1, 32>>>(device, block, GROWTHS); });
	trim(heap, "after 40 allocations");
	gpumem_heap_destroy(heap);
	MUST(cudaFree(times));
	MUST(cudaFree(block));
	MUST(cudaFree(failed));
}

// --- many lanes, up to the limit ---

static __global__ void fill_heap(gm_heap *heap, uint32_t **block, Count room, Count *n)
{
	for (;;) {
		uint32_t *p = (uint32_t *)gpumem_malloc(heap, BLOCK);
		if (!p)
			return;
		Count i = atomicAdd(n, 1);
		p[0] = (uint32_t)i;
		p[BLOCK / 4 - 1] = ~(uint32_t)i;
		if (i < room)
			block[i] = p;
	}
}

static __global__ void check_and_free(gm_heap *heap, uint32_t **block, Count n, Count *bad)
{
	for (Count i = blockIdx.x * (Count)blockDim.x + threadIdx.x; i < n;
	     i += (Count)gridDim.x * blockDim.x) {
		if (block[i][0] != (uint32_t)i || block[i][BLOCK / 4 - 1] != ~(uint32_t)i)
			atomicAdd(bad, 1);
		gpumem_free(heap, block[i]);
	}
}

static void full()
{
	const uint64_t limit = 8ull << 30;
	const Count room = limit / BLOCK;
	gpumem_heap *heap = make(limit);
	gm_heap *device = gpumem_heap_device(heap);
	uint32_t **block;
	Count *n;
	MUST(cudaMalloc(&block, room * sizeof *block));
	MUST(cudaMallocManaged(&n, 2 * sizeof *n));
	for (int round = 0; round < 2; round++) {
		n[0] = n[1] = 0;
		auto begin = std::chrono::steady_clock::now();
		run(heap, [&] { fill_heap<<<1024, 256>>>(device, block, room, n); });
		std::chrono::duration<double, std::milli> took =
			std::chrono::steady_clock::now() - begin;
		struct gpumem_heap_stats s = stats(heap);
		fprintf(stderr, "filled with %llu blocks, %.2f%% of the limit, in %.1f ms\n", n[0],
			100. * n[0] * 8192 / limit, took.count());
		say("the heap is at its limit", s.mapped == limit);
		say("at least 95% of it is in use",
		    n[0] * 8192 >= limit / 100 * 95 && n[0] <= room);
		say("then there is NULL", s.nulls >= 1024 * 256);
		run(heap, [&] { check_and_free<<<1024, 256>>>(device, block, n[0], &n[1]); });
		say("what was written was there", n[1] == 0);
		if (round)
			trim(heap, "after filling it");
	}
	gpumem_heap_destroy(heap);
	MUST(cudaFree(block));
	MUST(cudaFree(n));
}

// --- while the host is in a call ---

static __global__ void grow_slowly(gm_heap *heap, volatile int *begun, void **block, int n)
{
	*begun = 1;
	for (int i = 0; i < n; i++) {
		block[i] = gpumem_malloc(heap, (gm_load64(&heap->available) + 1) * GM_GRANULE);
		uint64_t begin = gm_nanoseconds();
		while (gm_nanoseconds() - begin < 200000)
			;
	}
}

static __global__ void lazy(int *p)
{
	if (p)
		*p = 1;
}

static void under_calls()
{
	enum { N = 20 };
	gpumem_heap *heap = make(16ull << 30);
	gm_heap *device = gpumem_heap_device(heap);
	void **block;
	volatile int *begun;
	cudaStream_t stream, other;
	void *old, *taken;
	static char host[1 << 20];
	MUST(cudaHostAlloc(&block, N * sizeof *block, 0));
	MUST(cudaHostAlloc((void **)&begun, sizeof *begun, 0));
	MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	MUST(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
	cudaFuncAttributes attributes;
	MUST(cudaFuncGetAttributes(&attributes, grow_slowly));
	MUST(cudaFuncGetAttributes(&attributes, free_blocks));
	for (int call = 0; call < 7; call++) {
		static const char *const names[] = {"cudaFree",
						    "cudaMalloc",
						    "cudaMemcpy",
						    "first launch",
						    "cudaHostRegister",
						    "cudaDeviceSetLimit",
						    "cudaDeviceSynchronize"};
		MUST(cudaMalloc(&old, 64 << 20));
		*begun = 0;
		gpumem_heap_begin(heap, stream);
		grow_slowly<<<1, 1, 0, stream>>>(device, begun, block, N);
		gpumem_heap_end(heap, stream);
		while (!*begun)
			;
		switch (call) {
		case 0:
			MUST(cudaFree(old));
			break;
		case 1:
			MUST(cudaMalloc(&taken, 256 << 20));
			MUST(cudaFree(taken));
			break;
		case 2:
			MUST(cudaMemcpy(old, host, sizeof host, cudaMemcpyHostToDevice));
			break;
		case 3:
			lazy<<<1, 1, 0, other>>>(NULL);
			MUST(cudaStreamSynchronize(other));
			break;
		case 4:
			MUST(cudaHostRegister(host, sizeof host, 0));
			MUST(cudaHostUnregister(host));
			break;
		case 5:
			MUST(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
			break;
		case 6:
			MUST(cudaDeviceSynchronize());
			break;
		}
		MUST(cudaDeviceSynchronize());
		int got = 0;
		for (int i = 0; i < N; i++)
			got += block[i] != NULL;
		char line[64];
		snprintf(line, sizeof line, "%s: %d of %d", names[call], got, N);
		say(line, got == N);
		run(heap, [&] { free_blocks<<<1, 32>>>(device, block, N); });
		gpumem_heap_trim(heap);
		if (call)
			MUST(cudaFree(old));
	}
	gpumem_heap_destroy(heap);
}

// --- cost of the service for a kernel that makes no request ---

static __global__ void spin(uint64_t ns)
{
	uint64_t begin = gm_nanoseconds();
	while (gm_nanoseconds() - begin < ns)
		;
}

static void quiet()
{
	gpumem_heap *heap = make(1ull << 30);
	struct rusage before, after;
	gpumem_heap_begin(heap, 0);
	spin<<<1, 1>>>(2000000000ull);
	gpumem_heap_end(heap, 0);
	getrusage(RUSAGE_SELF, &before);
	usleep(1900000);
	getrusage(RUSAGE_SELF, &after);
	MUST(cudaDeviceSynchronize());
	double us = (after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec -
		     before.ru_stime.tv_sec) *
			    1e6 +
		    after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec -
		    before.ru_stime.tv_usec;
	fprintf(stderr, "a kernel of 2 s that asks for nothing: %.0f us of CPU\n", us);
	gpumem_heap_destroy(heap);
}

// --- other functions of gpumem_device.cuh ---

// Counts an unexpected NULL, and any other unexpected result.
static __device__ void expect(bool so, Count *bad)
{
	if (!so)
		atomicAdd(bad, 1);
}

static __device__ bool writes(uint32_t *part, uint32_t value)
{
	if (!part)
		return false;
	*part = value;
	return true;
}

static __device__ void realloc_zeroed(gm_heap *heap, size_t size, Count *bad)
{
	unsigned char *p = (unsigned char *)gpumem_calloc(heap, size, 1), *longer = NULL;
	for (size_t i = 0; p && i < size; i++)
		expect(p[i] == 0, bad);
	if (p) {
		p[size - 1] = 7;
		longer = (unsigned char *)gpumem_realloc(heap, p, 4 * size);
	}
	expect(longer && longer[size - 1] == 7, bad);
	gpumem_free(heap, longer ? longer : p);
}

static __global__ void kin(gm_heap *heap, gpumem_arena *arena, Count *bad)
{
	__shared__ gpumem_block block;
	uint32_t id = blockIdx.x * blockDim.x + threadIdx.x;
	size_t size = 16 + id % 500;
	realloc_zeroed(heap, size, bad);
	void *p = gpumem_aligned_alloc(heap, 1024, size);
	expect(p && (uintptr_t)p % 1024 == 0, bad);
	gpumem_free(heap, p);
	uint32_t *part = (uint32_t *)gpumem_warp_malloc(heap, ~0u, size);
	bool got = writes(part, id);
	__syncwarp();
	expect(got && *part == id, bad);
	gpumem_warp_free(heap, ~0u, part);
	part = (uint32_t *)gpumem_block_malloc(heap, &block, size);
	got = writes(part, id);
	__syncthreads();
	expect(got && *part == id, bad);
	gpumem_block_free(heap, &block);
	part = (uint32_t *)gpumem_arena_malloc(heap, arena, size);
	got = writes(part, id);
	__syncthreads();
	expect(got && *part == id, bad);
}

static __global__ void end_arena(gm_heap *heap, gpumem_arena *arena)
{
	gpumem_arena_free(heap, arena);
}

static void others()
{
	gpumem_heap *heap = make(4ull << 30);
	gm_heap *device = gpumem_heap_device(heap);
	gpumem_arena *arena;
	Count *bad;
	MUST(cudaMalloc(&arena, sizeof *arena));
	MUST(cudaMemset(arena, 0, sizeof *arena));
	MUST(cudaMallocManaged(&bad, sizeof *bad));
	// Many rounds: in the first launches the heap grows.
	for (int round = 0; round < 100; round++) {
		run(heap, [&] { kin<<<1024, dim3(16, 16)>>>(device, arena, bad); });
		run(heap, [&] { end_arena<<<1, 1>>>(device, arena); });
		if (round % 4 == 0)
			gpumem_heap_trim(heap);
	}
	if (*bad)
		fprintf(stderr, "of malloc's kin %llu were bad\n", *bad);
	say("malloc's kin, warps, blocks and arenas", *bad == 0);
	say("freed what was no allocation: nobody", stats(heap).foreign_frees == 0);
	trim(heap, "after all that");
	gpumem_heap_destroy(heap);
	MUST(cudaFree(arena));
	MUST(cudaFree(bad));
}

int main()
{
	MUST(cudaFree(0));
	growths();
	full();
	under_calls();
	others();
	quiet();
	return all_so ? 0 : 1;
}
