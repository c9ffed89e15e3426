/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device heap without a host side, for programs that test and measure the policies on a GPU. All
 * its memory is one cudaMalloc, granted at once; it cannot grow. Also the policies, each a type
 * with the same members.
 */
#ifndef GM_TESTS_GPU_HEAP_H
#define GM_TESTS_GPU_HEAP_H

#include <cstring>

#include "heap/device/policies.h"
#include "tests/gpu/gpu.h"

/* malloc and free are not inlined, as in a program. */
#define GM_POLICY(name_, n, can_)                                                             \
	__device__ __noinline__ static void *do_malloc_##n(gm_heap *heap, size_t size)        \
	{                                                                                     \
		return gm_##n##_malloc(heap, size);                                           \
	}                                                                                     \
	__device__ __noinline__ static void do_free_##n(gm_heap *heap, void *address)         \
	{                                                                                     \
		gm_##n##_free(heap, address);                                                 \
	}                                                                                     \
	struct policy_##n {                                                                   \
		static constexpr const char *name = name_;                                    \
		static constexpr unsigned can = can_;                                         \
		static size_t bytes(uint32_t capacity)                                        \
		{                                                                             \
			return gm_##n##_bytes(capacity);                                      \
		}                                                                             \
		__device__ static void init(gm_heap *heap, uint32_t thread, uint32_t threads) \
		{                                                                             \
			gm_##n##_init(heap, thread, threads);                                 \
		}                                                                             \
		__device__ static void *malloc(gm_heap *heap, size_t size)                    \
		{                                                                             \
			return do_malloc_##n(heap, size);                                     \
		}                                                                             \
		__device__ static void free(gm_heap *heap, void *address)                     \
		{                                                                             \
			do_free_##n(heap, address);                                           \
		}                                                                             \
		__device__ static size_t usable(gm_heap *heap, void *address)                 \
		{                                                                             \
			return gm_##n##_usable(heap, address);                                \
		}                                                                             \
		__device__ static void trim(gm_heap *heap)                                    \
		{                                                                             \
			gm_##n##_trim(heap);                                                  \
		}                                                                             \
		__device__ static void stats(gm_heap *heap, gm_heap_stats *stats)             \
		{                                                                             \
			gm_##n##_stats(heap, stats);                                          \
		}                                                                             \
	};
#include "heap/device/policy.def"
#undef GM_POLICY

static __device__ inline unsigned this_thread()
{
	unsigned in_block = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
	return blockIdx.x * blockDim.x * blockDim.y * blockDim.z + in_block;
}

/* A hash of n, the same on every machine. */
static __host__ __device__ inline unsigned scatter(unsigned n)
{
	n = (n ^ n >> 16) * 0x85ebca6bu;
	n = (n ^ n >> 13) * 0xc2b2ae35u;
	return n ^ n >> 16;
}

template <class P> __global__ void heap_init(gm_heap *heap)
{
	if (threadIdx.x == 0)
		gm_span_collect(heap);
	__syncthreads();
	P::init(heap, threadIdx.x, blockDim.x);
}

template <class P> __global__ void heap_stats(gm_heap *heap, gm_heap_stats *stats)
{
	*stats = {};
	P::stats(heap, stats);
}

template <class P> __global__ void heap_trim(gm_heap *heap)
{
	P::trim(heap);
}

template <class P> struct Heap {
	gm_heap host = {}, *device = nullptr;
	gm_mailbox *mail = nullptr;
	char *memory = nullptr;

	template <class T> static T *zeroed(size_t bytes)
	{
		T *p;
		MUST(cudaMalloc(&p, bytes));
		MUST(cudaMemset(p, 0, bytes));
		return p;
	}

	/* `shared`: use this memory, `capacity` granules, aligned to a granule; NULL: allocate. */
	explicit Heap(uint32_t capacity, char *shared = nullptr)
	{
		if (!shared)
			MUST(cudaMalloc(&memory, (size_t(capacity) + 1) << GM_GRANULE_SHIFT));
		MUST(cudaHostAlloc(&mail, sizeof *mail, 0));
		std::memset((void *)mail, 0, sizeof *mail);
		mail->grant[0] = capacity;
		mail->have.value = 1;
		mail->refused.value = 1;
		host.base =
			(uint64_t(shared ? shared : memory) + GM_GRANULE - 1) & ~(GM_GRANULE - 1);
		host.capacity = capacity;
		host.summaries = (capacity + 4095) / 4096;
		host.mail = mail;
		host.policy = zeroed<char>(P::bytes(capacity));
		host.free.word = zeroed<uint64_t>((capacity + 63) / 64 * 8);
		host.free.summary = zeroed<uint64_t>(host.summaries * 8);
		host.run = zeroed<uint32_t>(capacity * 4);
		device = zeroed<gm_heap>(sizeof host);
		MUST(cudaMemcpy(device, &host, sizeof host, cudaMemcpyHostToDevice));
		heap_init<P><<<1, 64>>>(device);
		MUST(cudaDeviceSynchronize());
	}
	Heap(const Heap &) = delete;

	~Heap()
	{
		for (void *p : {(void *)memory, host.policy, (void *)host.free.word,
				(void *)host.free.summary, (void *)host.run, (void *)device})
			MUST(cudaFree(p));
		MUST(cudaFreeHost(mail));
	}

	gm_heap_stats stats()
	{
		gm_heap_stats *there = zeroed<gm_heap_stats>(sizeof *there), here;
		heap_stats<P><<<1, 1>>>(device, there);
		MUST(cudaMemcpy(&here, there, sizeof here, cudaMemcpyDeviceToHost));
		MUST(cudaFree(there));
		return here;
	}

	/* A copy of the words that the device changes. */
	gm_heap words()
	{
		gm_heap here;
		MUST(cudaMemcpy(&here, device, sizeof here, cudaMemcpyDeviceToHost));
		return here;
	}
};

#endif
