// SPDX-License-Identifier: BSD-3-Clause
// malloc and free of every policy, each as a function that a kernel calls. heap_nvcc.sh compiles
// and measures them.
#include "heap/device/policies.h"

__device__ struct gm_heap *test_heap;

#define GM_POLICY(name, n, can)                                                   \
	extern "C" __device__ __noinline__ void *test_malloc_##n(size_t size)     \
	{                                                                         \
		return gm_##n##_malloc(test_heap, size);                          \
	}                                                                         \
	extern "C" __device__ __noinline__ void test_free_##n(void *address)      \
	{                                                                         \
		gm_##n##_free(test_heap, address);                                \
	}                                                                         \
	extern "C" __global__ void test_kernel_##n(void **address, size_t size)   \
	{                                                                         \
		struct gm_heap_stats stats = {};                                  \
		gm_##n##_init(test_heap, threadIdx.x, blockDim.x);                \
		address[threadIdx.x] = test_malloc_##n(size + gm_##n##_bytes(1)); \
		address[0] = (void *)gm_##n##_usable(test_heap, address[1]);      \
		test_free_##n(address[2]);                                        \
		gm_##n##_trim(test_heap);                                         \
		gm_##n##_stats(test_heap, &stats);                                \
		address[3] = (void *)stats.live_bytes;                            \
	}
#include "heap/device/policy.def"
