// SPDX-License-Identifier: BSD-3-Clause
// Thrust and CUB: vectors that grow, temporary storage of their own, and CUB's caching allocator.
#include <cub/cub.cuh>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/unique.h>

#include "gpu.h"

typedef thrust::device_vector<uint32_t> Words;

template <class T> static unsigned long long digest(const thrust::device_vector<T> &v)
{
	return digest(thrust::raw_pointer_cast(v.data()), v.size() * sizeof(T));
}

static Words words(size_t n, uint32_t tag)
{
	Words v(n);
	fill<<<256, 256>>>(thrust::raw_pointer_cast(v.data()), n, tag);
	return v;
}

static void with_thrust(size_t n)
{
	Words keys = words(n, 11), values(n), sums(n);
	thrust::sequence(values.begin(), values.end());
	thrust::stable_sort_by_key(keys.begin(), keys.end(), values.begin());
	printf("sort %zu: %016llx %016llx\n", n, digest(keys), digest(values));
	thrust::exclusive_scan(keys.begin(), keys.end(), sums.begin());
	printf("scan %zu: %016llx\n", n, digest(sums));
	thrust::transform(keys.begin(), keys.end(), keys.begin(),
			  [] __device__(uint32_t x) { return x >> 16; });
	Words groups(n), totals(n);
	auto end = thrust::reduce_by_key(keys.begin(), keys.end(), values.begin(), groups.begin(),
					 totals.begin());
	groups.resize(end.first - groups.begin());
	totals.resize(end.second - totals.begin());
	printf("reduce by key %zu: %zu groups, %016llx %016llx\n", n, groups.size(), digest(groups),
	       digest(totals));
}

static void growing()
{
	Words v;
	for (size_t n = 1; n <= 1 << 22; n = n * 3 / 2 + 1) {
		size_t before = v.size();
		v.resize(n);
		thrust::sequence(v.begin() + before, v.end(), (uint32_t)before);
	}
	v.shrink_to_fit();
	printf("grown to %zu: %016llx\n", v.size(), digest(v));
}

static void with_cub(size_t n)
{
	cub::CachingDeviceAllocator cache(8, 3, 9, 1 << 28);
	Words in = words(n, 12), out(n);
	const uint32_t *from = thrust::raw_pointer_cast(in.data());
	uint32_t *to = thrust::raw_pointer_cast(out.data()), *count;
	for (int round = 0; round < 3; round++) {
		void *room = NULL;
		size_t need = 0;
		MUST(cub::DeviceRadixSort::SortKeys(NULL, need, from, to, (int)n));
		MUST(cache.DeviceAllocate(&room, need));
		MUST(cub::DeviceRadixSort::SortKeys(room, need, from, to, (int)n));
		MUST(cache.DeviceFree(room));
		printf("cub sort %zu: %016llx\n", n, digest(out));
		MUST(cache.DeviceAllocate((void **)&count, sizeof *count));
		need = 0;
		MUST(cub::DeviceReduce::Sum(NULL, need, from, count, (int)n));
		MUST(cache.DeviceAllocate(&room, need));
		MUST(cub::DeviceReduce::Sum(room, need, from, count, (int)n));
		printf("cub sum %zu: %016llx\n", n, digest(count, sizeof *count));
		MUST(cache.DeviceFree(room));
		MUST(cache.DeviceFree(count));
	}
	MUST(cache.FreeAllCached());
}

int main()
{
	for (size_t n : {1000, 100000, 10000000}) {
		with_thrust(n);
		with_cub(n);
	}
	growing();
	return 0;
}
