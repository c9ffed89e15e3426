// SPDX-License-Identifier: BSD-3-Clause
// CUB: for every algorithm the temporary storage is queried first, and allocated by cudaMalloc or
// CUB's caching allocator. Also a kernel that changes its memory in place: a profiler that runs it
// several times has to restore the memory.
#include <cub/cub.cuh>

#include "gpu.h"

typedef unsigned long long Sum;

template <class T> struct Array {
	T *at;
	size_t n;
	explicit Array(size_t n) : n(n)
	{
		MUST(cudaMalloc(&at, n * sizeof(T)));
		MUST(cudaMemset(at, 0, n * sizeof(T)));
	}
	~Array()
	{
		MUST(cudaFree(at));
	}
	Array(const Array &) = delete;
	void show(const char *what) const
	{
		printf("%s %zu: %016llx\n", what, n, digest(at, n * sizeof(T)));
	}
};

struct Odd {
	__device__ bool operator()(uint32_t x) const
	{
		return x & 1;
	}
};

/* Sources of temporary storage. */
struct Driver {
	void *take(size_t size)
	{
		void *at;
		MUST(cudaMalloc(&at, size ? size : 1));
		return at;
	}
	void give(void *at)
	{
		MUST(cudaFree(at));
	}
};

struct Cache {
	cub::CachingDeviceAllocator cache{8, 3, 9, 1 << 28};
	void *take(size_t size)
	{
		void *at;
		MUST(cache.DeviceAllocate(&at, size ? size : 1));
		return at;
	}
	void give(void *at)
	{
		MUST(cache.DeviceFree(at));
	}
};

/* Call `algorithm` for the size of its temporary storage, then with the storage. */
template <class Source, class Algorithm> static void twice(Source &source, Algorithm algorithm)
{
	size_t size = 0;
	MUST(algorithm(nullptr, size));
	void *room = source.take(size);
	MUST(algorithm(room, size));
	source.give(room);
}

template <class Source> static void algorithms(const char *name, Source &source, int n)
{
	Array<uint32_t> in(n), values(n), out(n), out_values(n), counts(n);
	Array<int> selected(1), bins(97);
	Array<Sum> sum(1);
	printf("temporary storage from %s\n", name);
	fill<<<256, 256>>>(in.at, n, 12);
	fill<<<256, 256>>>(values.at, n, 13);
	twice(source, [&](void *room, size_t &size) {
		return cub::DeviceRadixSort::SortPairs(room, size, in.at, out.at, values.at,
						       out_values.at, n);
	});
	out.show("sorted");
	out_values.show("sorted values");
	twice(source, [&](void *room, size_t &size) {
		return cub::DeviceScan::InclusiveSum(room, size, in.at, out.at, n);
	});
	out.show("scanned");
	twice(source, [&](void *room, size_t &size) {
		return cub::DeviceReduce::Reduce(room, size, in.at, sum.at, n, cuda::std::plus<>(),
						 Sum(0));
	});
	sum.show("summed");
	MUST(cudaMemset(out.at, 0, n * sizeof *out.at));
	twice(source, [&](void *room, size_t &size) {
		return cub::DeviceSelect::If(room, size, in.at, out.at, selected.at, n, Odd());
	});
	out.show("selected");
	selected.show("number selected");
	twice(source, [&](void *room, size_t &size) {
		return cub::DeviceHistogram::HistogramEven(room, size, in.at, bins.at, 98, 0u,
							   97u << 25, n);
	});
	bins.show("counted");
	MUST(cudaMemset(out.at, 0, n * sizeof *out.at));
	twice(source, [&](void *room, size_t &size) {
		return cub::DeviceRunLengthEncode::Encode(room, size, in.at, out.at, counts.at,
							  selected.at, n);
	});
	counts.show("runs");
	selected.show("number of runs");
}

static __global__ void add_to(uint32_t *at, size_t n, uint32_t what)
{
	size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
	if (i < n)
		at[i] += what;
}

static void in_place(size_t n)
{
	Array<uint32_t> at(n), other(n);
	for (uint32_t round = 1; round <= 10; round++) {
		add_to<<<(unsigned)((n + 255) / 256), 256>>>(at.at, n, round);
		Array<uint32_t> between(n); /* a neighbour, freed in each round */
		add_to<<<(unsigned)((n + 255) / 256), 256>>>(between.at, n, round);
		MUST(cudaMemcpy(other.at, between.at, n * sizeof *other.at,
				cudaMemcpyDeviceToDevice));
	}
	at.show("in place");
	other.show("in place, the last one");
}

int main()
{
	Driver driver;
	Cache cache;
	in_place(3000);
	in_place(1 << 20);
	for (int n : {1000, 100000, 5000000}) {
		algorithms("cudaMalloc", driver, n);
		algorithms("CachingDeviceAllocator", cache, n);
		algorithms("CachingDeviceAllocator, again", cache, n);
	}
	MUST(cache.cache.FreeAllCached());
	return 0;
}
