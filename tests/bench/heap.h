/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For the measurements of the device heap: tables of each policy's kernels, the driver's own malloc
 * among them, and a heap on memory that all policies use by turns.
 */
#ifndef GM_TESTS_BENCH_HEAP_H
#define GM_TESTS_BENCH_HEAP_H

#include <algorithm>
#include <chrono>
#include <functional>

#include "tests/gpu/heap.h"

enum { BLOCK = 256, TURNS = 8 };

/* Thread t of `threads` has a block of `size` bytes in at[t / every] if t % every == 0. Size 0: 4
 * to `most` bytes. */
struct Case {
	void **at;
	unsigned threads, every, size, most;
};

struct Counts {
	unsigned long long wrong, null;
};

__device__ static unsigned size_of(const Case &c, unsigned t)
{
	return c.size ? c.size : 4 + scatter(t) % (c.most - 3);
}

/* The driver's own malloc, which needs no heap of ours. */
struct policy_cuda {
	static constexpr const char *name = "cuda";
	static constexpr unsigned can = GM_POLICY_FREES | GM_POLICY_MIXES;
	static size_t bytes(uint32_t)
	{
		return 64;
	}
	__device__ static void init(gm_heap *, uint32_t, uint32_t)
	{
	}
	__device__ static void *malloc(gm_heap *, size_t size)
	{
		return ::malloc(size);
	}
	__device__ static void free(gm_heap *, void *address)
	{
		::free(address);
	}
	__device__ static void stats(gm_heap *, gm_heap_stats *)
	{
	}
};

template <class P> __global__ void do_allocate(gm_heap *heap, Case c)
{
	unsigned t = blockIdx.x * BLOCK + threadIdx.x;
	if (t < c.threads && t % c.every == 0)
		c.at[t / c.every] = P::malloc(heap, size_of(c, t));
}

template <class P> __global__ void do_release(gm_heap *heap, Case c)
{
	unsigned t = blockIdx.x * BLOCK + threadIdx.x;
	if (t < c.threads && t % c.every == 0)
		P::free(heap, c.at[t / c.every]);
}

/* Malloc, touch and free, TURNS times in one kernel. */
template <class P> __global__ void do_churn(gm_heap *heap, Case c, Counts *counts)
{
	unsigned t = blockIdx.x * BLOCK + threadIdx.x;
	for (int i = 0; i < TURNS && t < c.threads; i++) {
		volatile unsigned *word = (volatile unsigned *)P::malloc(heap, size_of(c, t));
		if (!word) {
			atomicAdd(&counts->null, 1);
			continue;
		}
		*word = t;
		if (*word != t)
			atomicAdd(&counts->wrong, 1);
		P::free(heap, (void *)word);
	}
}

/* Allocates until the heap is full; adds the number of blocks to *count. */
template <class P> __global__ void do_fill(gm_heap *heap, unsigned size, unsigned long long *count)
{
	unsigned long long mine = 0;
	while (P::malloc(heap, size))
		mine++;
	atomicAdd(count, mine);
}

struct Policy {
	const char *name;
	unsigned can;
	size_t (*bytes)(uint32_t capacity);
	void (*init)(gm_heap *heap);
	void (*allocate)(gm_heap *heap, const Case &c);
	void (*release)(gm_heap *heap, const Case &c);
	void (*churn)(gm_heap *heap, const Case &c, Counts *counts);
	void (*fill)(gm_heap *heap, unsigned size, unsigned long long *count);
	const void *kernel_of_malloc, *kernel_of_free;
};

static unsigned grid_of(const Case &c)
{
	return (c.threads + BLOCK - 1) / BLOCK;
}

template <class P> Policy policy_of()
{
	return {P::name,
		P::can,
		P::bytes,
		[](gm_heap *heap) { heap_init<P><<<1, 64>>>(heap); },
		[](gm_heap *heap, const Case &c) {
			do_allocate<P><<<grid_of(c), BLOCK>>>(heap, c);
		},
		[](gm_heap *heap, const Case &c) { do_release<P><<<grid_of(c), BLOCK>>>(heap, c); },
		[](gm_heap *heap, const Case &c, Counts *counts) {
			do_churn<P><<<grid_of(c), BLOCK>>>(heap, c, counts);
		},
		[](gm_heap *heap, unsigned size, unsigned long long *count) {
			do_fill<P><<<1024, BLOCK>>>(heap, size, count);
		},
		(const void *)do_allocate<P>,
		(const void *)do_release<P>};
}

static const std::vector<Policy> policies = {
#define GM_POLICY(name, n, can) policy_of<policy_##n>(),
#include "heap/device/policy.def"
#undef GM_POLICY
	policy_of<policy_cuda>(),
};

[[maybe_unused]] static const Policy &policy_named(const char *name)
{
	for (const Policy &p : policies)
		if (!strcmp(p.name, name))
			return p;
	printf("error no policy %s\n", name);
	exit(2);
}

/* Device memory for a heap, with all that a heap needs. One heap at a time. */
struct Ground {
	uint32_t capacity;
	char *memory;
	gm_mailbox *mail;
	gm_heap host = {}, *device;

	explicit Ground(uint32_t capacity) : capacity(capacity)
	{
		MUST(cudaMalloc(&memory, (size_t(capacity) + 1) << GM_GRANULE_SHIFT));
		MUST(cudaHostAlloc(&mail, sizeof *mail, 0));
		MUST(cudaMalloc(&device, sizeof host));
		host.base = (uint64_t(memory) + GM_GRANULE - 1) & ~(GM_GRANULE - 1);
		host.mail = mail;
		MUST(cudaMalloc(&host.free.word, (capacity + 63) / 64 * 8));
		MUST(cudaMalloc(&host.free.summary, (capacity + 4095) / 4096 * 8));
		MUST(cudaMalloc(&host.run, capacity * 4));
	}

	/* Makes a heap of `granules`. Returns the time in microseconds, without that of allocating
	 * memory. */
	double open(const Policy &p, uint32_t granules)
	{
		size_t bytes = p.bytes(granules);
		MUST(cudaMalloc(&host.policy, bytes));
		MUST(cudaDeviceSynchronize());
		auto begin = std::chrono::steady_clock::now();
		host.capacity = granules;
		host.summaries = (granules + 4095) / 4096;
		std::memset((void *)mail, 0, sizeof *mail);
		mail->grant[0] = granules;
		mail->have.value = mail->refused.value = 1;
		MUST(cudaMemsetAsync(host.policy, 0, bytes));
		MUST(cudaMemsetAsync(host.free.word, 0, (granules + 63) / 64 * 8));
		MUST(cudaMemsetAsync(host.free.summary, 0, host.summaries * 8));
		MUST(cudaMemsetAsync(host.run, 0, granules * 4));
		MUST(cudaMemcpyAsync(device, &host, sizeof host, cudaMemcpyHostToDevice));
		p.init(device);
		MUST(cudaDeviceSynchronize());
		std::chrono::duration<double, std::micro> took =
			std::chrono::steady_clock::now() - begin;
		return took.count();
	}

	void close()
	{
		MUST(cudaDeviceSynchronize());
		MUST(cudaFree(host.policy));
	}
};

static double microseconds(const std::function<void()> &launch)
{
	static cudaEvent_t begin, end;
	float ms;
	if (!begin) {
		MUST(cudaEventCreate(&begin));
		MUST(cudaEventCreate(&end));
	}
	MUST(cudaEventRecord(begin));
	launch();
	MUST(cudaEventRecord(end));
	MUST(cudaEventSynchronize(end));
	MUST(cudaEventElapsedTime(&ms, begin, end));
	return ms * 1e3;
}

#endif
