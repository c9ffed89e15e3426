/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Aligned memory in kernels, beside malloc: new of an over-aligned type; aligned malloc with many
 * alignments, freed by other threads in another kernel; invalid alignments. "aligned native"
 * instead prints whether the default limit bounds the heap of kernels, as it does where malloc in
 * kernels is the driver's.
 */
#include "gpu.h"

#include <cstring>
#include <new>

extern "C" __device__ void *__cuda_syscall_aligned_malloc(size_t size, size_t alignment);

enum { BLOCKS = 256, THREADS = 128, N = BLOCKS * THREADS };

struct alignas(128) wide {
	double value[20];
	__device__ explicit wide(int n)
	{
		for (double &v : value)
			v = n;
	}
	__device__ virtual ~wide()
	{
	}
};

__device__ char *kept[N];
__device__ unsigned long long good, null;

__device__ int thread()
{
	return blockIdx.x * blockDim.x + threadIdx.x;
}

__device__ void count(bool there, bool holds)
{
	atomicAdd(there ? &good : &null, there ? (unsigned long long)holds : 1);
}

__global__ void objects(int turns)
{
	int t = thread();
	for (int i = 0; i < turns; i++) {
		wide *object = new wide(t + i);
		int *other = (int *)malloc(40);
		bool there = object && other, holds = (uintptr_t)object % 128 == 0;
		if (other)
			other[9] = t;
		for (int k = 0; there && k < 20; k++)
			holds = holds && object->value[k] == t + i;
		count(there, holds && other[9] == t);
		free(other);
		delete object;
	}
}

__device__ size_t size_of(int t)
{
	return 1 + t * 37 % 900;
}

__global__ void keep()
{
	int t = thread();
	size_t alignment = (size_t)1 << t % 11, size = size_of(t);
	kept[t] = (char *)__cuda_syscall_aligned_malloc(size, alignment);
	count(kept[t], (uintptr_t)kept[t] % alignment == 0);
	if (kept[t])
		memset(kept[t], t, size);
}

__global__ void drop()
{
	int t = N - 1 - thread();
	bool holds = true;
	for (size_t i = 0; kept[t] && i < size_of(t); i++)
		holds = holds && kept[t][i] == (char)t;
	count(kept[t], holds);
	free(kept[t]);
}

__global__ void odd(size_t size, size_t alignment, bool *out)
{
	void *at = __cuda_syscall_aligned_malloc(size, alignment);
	out[0] = at;
	out[1] = at && (uintptr_t)at % alignment == 0;
	free(at);
}

static void report(const char *what)
{
	unsigned long long counts[2], none = 0;
	MUST(cudaDeviceSynchronize());
	MUST(cudaMemcpyFromSymbol(&counts[0], good, sizeof good));
	MUST(cudaMemcpyFromSymbol(&counts[1], null, sizeof null));
	printf("%s: %llu good, %llu NULL\n", what, counts[0], counts[1]);
	MUST(cudaMemcpyToSymbol(good, &none, sizeof good));
	MUST(cudaMemcpyToSymbol(null, &none, sizeof null));
}

static void odds()
{
	static const size_t cases[][2] = {{0, 64},	  {64, 0},	   {64, 3},
					  {64, 24},	  {64, 8},	   {1, 1},
					  {100, 4096},	  {1 << 20, 4096}, {3000, 1 << 16},
					  {100, 1 << 20}, {100, 1 << 21}};
	bool *out;
	MUST(cudaMallocManaged(&out, 2));
	for (const size_t *c : cases) {
		odd<<<1, 1>>>(c[0], c[1], out);
		MUST(cudaDeviceSynchronize());
		printf("%zu bytes aligned to %zu: %s\n", c[0], c[1],
		       !out[0]	? "NULL"
		       : out[1] ? "aligned"
				: "not aligned");
	}
	MUST(cudaFree(out));
}

/* Asks for more than the default limit of 8 MiB allows. */
static void native()
{
	bool *out;
	MUST(cudaMallocManaged(&out, 2));
	odd<<<1, 1>>>((size_t)64 << 20, 16, out);
	MUST(cudaDeviceSynchronize());
	printf("64 MiB: %s\n", out[0] ? "there" : "NULL");
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "native") == 0)
		return native(), 0;
	MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, (size_t)512 << 20));
	objects<<<BLOCKS, THREADS>>>(4);
	report("objects");
	for (int i = 0; i < 3; i++) {
		keep<<<BLOCKS, THREADS>>>();
		report("kept");
		drop<<<BLOCKS, THREADS>>>();
		report("freed by others");
	}
	odds();
	return 0;
}
