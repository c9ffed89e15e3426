/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For the programs of tests/gpu. They do not know of gpumem, and print only observable results,
 * never an address: a native and a preloaded run must print the same.
 */
#ifndef GM_TESTS_GPU_H
#define GM_TESTS_GPU_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#ifdef __CUDACC__
#include <cuda_runtime.h>
#endif
#include <vector>

/* A call that must succeed: otherwise print the place, and exit. */
#define MUST(call)                                                                         \
	do {                                                                               \
		int must_ = (int)(call);                                                   \
		if (must_ != 0) {                                                          \
			printf("%s:%d: %s: error %d\n", __FILE__, __LINE__, #call, must_); \
			exit(1);                                                           \
		}                                                                          \
	} while (0)

/* A call whose result is compared. */
#define SHOW(call) printf("%-60s %d\n", #call, (int)(call))

/* A generator with the same numbers on every machine. */
struct Random {
	uint64_t state;
	uint64_t next()
	{
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		return state;
	}
	uint64_t below(uint64_t n)
	{
		return next() % n;
	}
};

#ifdef __CUDACC__

/* Word i of block `tag`. */
static __host__ __device__ inline uint32_t pattern(uint32_t tag, uint64_t i)
{
	return tag * 2654435761u + (uint32_t)i * 40503u;
}

static __global__ void fill(uint32_t *at, uint64_t words, uint32_t tag)
{
	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < words;
	     i += (uint64_t)gridDim.x * blockDim.x)
		at[i] = pattern(tag, i);
}

static __global__ void verify(const uint32_t *at, uint64_t words, uint32_t tag,
			      unsigned long long *bad)
{
	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < words;
	     i += (uint64_t)gridDim.x * blockDim.x)
		if (at[i] != pattern(tag, i))
			atomicAdd(bad, 1);
}

/* Waits until the host sets *go; then writes pattern `tag` to `words` words, late. */
static __global__ void wait_then_fill(volatile int *go, uint32_t *at, uint64_t words, uint32_t tag)
{
	while (!*go)
		;
	for (uint64_t i = threadIdx.x; i < words; i += blockDim.x)
		at[i] = pattern(tag, i);
}

/* A checksum over device memory that depends on the order of bytes (FNV-1a by words). */
[[maybe_unused]] static unsigned long long digest(const void *device, size_t size)
{
	std::vector<unsigned char> host((size + 7) / 8 * 8);
	MUST(cudaMemcpy(host.data(), device, size, cudaMemcpyDeviceToHost));
	unsigned long long sum = 14695981039346656037ull;
	for (size_t i = 0; i < host.size(); i += 8)
		sum = (sum ^ *(const unsigned long long *)&host[i]) * 1099511628211ull;
	return sum;
}

#endif /* __CUDACC__ */

#endif
