// SPDX-License-Identifier: BSD-3-Clause
// malloc and free of the device heap's policies on a GPU: time, and whether what was written stayed.
//
//   nvcc -arch=sm_90 -O2 -std=c++17 -maxrregcount=24 -I src tests/bench/heap.cu -o heap
//   ./heap [POLICY [THREADS [MIB]]]          default: every policy, 1000000 threads, a heap of 16 GiB
//
// One CSV row a policy and case: microseconds of a kernel; cold is the first malloc of a new heap, warm and free are the
// median of ten more rounds; churn is malloc, touch, free, eight times in one kernel. "mixed to N" draws a size of 4 to N
// bytes for each thread, so that sizes differ within a warp. wrong counts blocks whose content changed, null refused
// allocations, left the bytes that the policy believes to be in use at the end. A policy that never frees (bump) is
// given a new heap for each round.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "heap/device/policies.h"

#define CHECK(call)                                                                                                    \
	do {                                                                                                           \
		cudaError_t error = (call);                                                                            \
		if (error != cudaSuccess) {                                                                            \
			std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error)); \
			std::exit(1);                                                                                  \
		}                                                                                                      \
	} while (0)

struct Counts {
	unsigned long long wrong, null;
};

struct Case {
	void **address;
	unsigned threads;
	size_t size; // 0: drawn
	unsigned most;
};

__device__ static size_t size_of(const Case &c, unsigned thread)
{
	if (c.size)
		return c.size;
	unsigned r = thread * 2654435761u;
	r ^= r >> 15;
	r *= 2246822519u;
	r ^= r >> 13;
	return 4 + r % (c.most - 3);
}

__global__ static void collect(gm_heap *heap)
{
	gm_span_collect(heap);
}

__global__ static void fill(Case c)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	if (t < c.threads && c.address[t])
		for (size_t i = 0; i < size_of(c, t) / 4; i++)
			((unsigned *)c.address[t])[i] = t + (unsigned)i;
}

__global__ static void verify(Case c, Counts *counts)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	if (t >= c.threads)
		return;
	if (!c.address[t]) {
		atomicAdd(&counts->null, 1);
		return;
	}
	for (size_t i = 0; i < size_of(c, t) / 4; i++)
		if (((unsigned *)c.address[t])[i] != t + (unsigned)i) {
			atomicAdd(&counts->wrong, 1);
			return;
		}
}

// What a policy is here: its functions, behind calls that are not inlined, as malloc and free are in a program.
#define GM_POLICY(name, n, can)                                                                                        \
	__device__ __noinline__ static void *do_malloc_##n(gm_heap *heap, size_t size)                                 \
	{                                                                                                              \
		return gm_##n##_malloc(heap, size);                                                                    \
	}                                                                                                              \
	__device__ __noinline__ static void do_free_##n(gm_heap *heap, void *address)                                  \
	{                                                                                                              \
		gm_##n##_free(heap, address);                                                                          \
	}                                                                                                              \
	struct policy_##n {                                                                                            \
		static size_t bytes(uint32_t capacity)                                                                 \
		{                                                                                                      \
			return gm_##n##_bytes(capacity);                                                               \
		}                                                                                                      \
		__device__ static void init(gm_heap *heap)                                                             \
		{                                                                                                      \
			gm_##n##_init(heap, threadIdx.x, blockDim.x);                                                  \
		}                                                                                                      \
		__device__ static void *malloc(gm_heap *heap, size_t size)                                             \
		{                                                                                                      \
			return do_malloc_##n(heap, size);                                                              \
		}                                                                                                      \
		__device__ static void free(gm_heap *heap, void *address)                                              \
		{                                                                                                      \
			do_free_##n(heap, address);                                                                    \
		}                                                                                                      \
		__device__ static void stats(gm_heap *heap, gm_heap_stats *stats)                                      \
		{                                                                                                      \
			gm_##n##_stats(heap, stats);                                                                   \
		}                                                                                                      \
	};
#include "heap/device/policy.def"
#undef GM_POLICY

template <class P> __global__ void init(gm_heap *heap)
{
	P::init(heap);
}

template <class P> __global__ void allocate(gm_heap *heap, Case c)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	if (t < c.threads)
		c.address[t] = P::malloc(heap, size_of(c, t));
}

template <class P> __global__ void release(gm_heap *heap, Case c)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	if (t < c.threads)
		P::free(heap, c.address[t]);
}

template <class P> __global__ void churn(gm_heap *heap, Case c, Counts *counts)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	for (int i = 0; i < 8 && t < c.threads; i++) {
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

template <class P> __global__ void add_up(gm_heap *heap, gm_heap_stats *stats)
{
	P::stats(heap, stats);
}

// A heap of which all memory was granted at once, and no more will be.
template <class P> struct Heap {
	gm_heap host = {}, *device = nullptr;
	gm_mailbox *mail = nullptr;
	char *memory = nullptr;

	template <class T> static T *zeroed(size_t bytes)
	{
		T *p;
		CHECK(cudaMalloc(&p, bytes));
		CHECK(cudaMemset(p, 0, bytes));
		return p;
	}

	explicit Heap(uint32_t capacity)
	{
		CHECK(cudaMalloc(&memory, (size_t(capacity) + 1) << GM_GRANULE_SHIFT));
		CHECK(cudaHostAlloc(&mail, sizeof *mail, 0));
		std::memset((void *)mail, 0, sizeof *mail);
		mail->grant[0] = capacity;
		mail->have.value = 1;
		mail->refused.value = 1;
		host.base = (uint64_t(memory) + GM_GRANULE - 1) & ~(GM_GRANULE - 1);
		host.capacity = capacity;
		host.summaries = (capacity + 4095) / 4096;
		host.mail = mail;
		host.policy = zeroed<char>(P::bytes(capacity));
		host.free.word = zeroed<uint64_t>((capacity + 63) / 64 * 8);
		host.free.summary = zeroed<uint64_t>(host.summaries * 8);
		host.run = zeroed<uint32_t>(capacity * 4);
		device = zeroed<gm_heap>(sizeof host);
		CHECK(cudaMemcpy(device, &host, sizeof host, cudaMemcpyHostToDevice));
		collect<<<1, 1>>>(device);
		init<P><<<1, 64>>>(device);
		CHECK(cudaDeviceSynchronize());
	}

	~Heap()
	{
		for (void *p : {(void *)memory, host.policy, (void *)host.free.word, (void *)host.free.summary,
				(void *)host.run, (void *)device})
			cudaFree(p);
		cudaFreeHost(mail);
	}
};

template <class F> static double microseconds(F run)
{
	static cudaEvent_t begin, end;
	float ms;
	if (!begin) {
		CHECK(cudaEventCreate(&begin));
		CHECK(cudaEventCreate(&end));
	}
	CHECK(cudaEventRecord(begin));
	run();
	CHECK(cudaEventRecord(end));
	CHECK(cudaEventSynchronize(end));
	CHECK(cudaEventElapsedTime(&ms, begin, end));
	return ms * 1e3;
}

static double median(std::vector<double> v)
{
	std::sort(v.begin(), v.end());
	return v.empty() ? 0 : v[v.size() / 2];
}

template <class P> static void measure(const char *name, unsigned can, Case c, uint32_t capacity)
{
	Counts *counts, seen;
	gm_heap_stats *stats, left;
	Heap<P> *heap = new Heap<P>(capacity);
	std::vector<double> warm, freed, churned;
	unsigned grid = (c.threads + 255) / 256;
	double cold = 0;
	CHECK(cudaMalloc(&counts, sizeof *counts));
	CHECK(cudaMemset(counts, 0, sizeof *counts));
	CHECK(cudaMalloc(&stats, sizeof *stats));
	CHECK(cudaMemset(stats, 0, sizeof *stats));
	for (int i = 0; i < 11; i++) {
		if (i && !(can & GM_POLICY_FREES)) {
			delete heap;
			heap = new Heap<P>(capacity);
		}
		double t = microseconds([&] { allocate<P><<<grid, 256>>>(heap->device, c); });
		i ? warm.push_back(t) : void(cold = t);
		fill<<<grid, 256>>>(c);
		verify<<<grid, 256>>>(c, counts);
		freed.push_back(microseconds([&] { release<P><<<grid, 256>>>(heap->device, c); }));
	}
	for (int i = 0; i < 5 && can & GM_POLICY_FREES; i++)
		churned.push_back(microseconds([&] { churn<P><<<grid, 256>>>(heap->device, c, counts); }));
	add_up<P><<<1, 1>>>(heap->device, stats);
	CHECK(cudaMemcpy(&seen, counts, sizeof seen, cudaMemcpyDeviceToHost));
	CHECK(cudaMemcpy(&left, stats, sizeof left, cudaMemcpyDeviceToHost));
	std::printf("%s,%s%zu,%u,%.1f,%.1f,%.1f,%.1f,%llu,%llu,%llu\n", name, c.size ? "" : "mixed to ",
		    c.size ? c.size : size_t(c.most), c.threads, cold, median(warm), median(freed), median(churned),
		    seen.wrong, seen.null, (unsigned long long)left.live_bytes);
	std::fflush(stdout);
	cudaFree(counts);
	cudaFree(stats);
	delete heap;
}

template <class P> static void suite(const char *name, unsigned can, unsigned threads, uint32_t capacity)
{
	Case c = {nullptr, threads, 0, 0};
	CHECK(cudaMalloc(&c.address, threads * sizeof *c.address));
	for (size_t size : {16, 24, 64, 100, 256, 512, 1024, 4096, 8192}) {
		c.size = size;
		measure<P>(name, can, c, capacity);
	}
	c.size = 0;
	for (unsigned most : {64, 256, 1024, 4096, 8192}) {
		c.most = most;
		measure<P>(name, can, c, capacity);
	}
	CHECK(cudaFree(c.address));
}

int main(int argc, char **argv)
{
	const char *only = argc > 1 ? argv[1] : nullptr;
	unsigned threads = argc > 2 ? unsigned(std::atol(argv[2])) : 1000000;
	uint32_t capacity = uint32_t((argc > 3 ? std::atol(argv[3]) : 16384) / 2);
	bool known = false;
	std::printf("policy,case,threads,cold,warm,free,churn,wrong,null,left\n");
#define GM_POLICY(name, n, can)                                                                                        \
	if (!only || std::strcmp(only, name) == 0) {                                                                   \
		known = true;                                                                                          \
		suite<policy_##n>(name, can, threads, capacity);                                                       \
	}
#include "heap/device/policy.def"
	if (!known || !threads || !capacity) {
		std::fprintf(stderr, "usage: %s [POLICY [THREADS [MIB]]]\n", argv[0]);
		return 2;
	}
	return 0;
}
