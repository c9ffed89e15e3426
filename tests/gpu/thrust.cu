// SPDX-License-Identifier: BSD-3-Clause
// Thrust: algorithms with temporary storage of Thrust and of a program's allocator; growing
// vectors; managed memory; work on a stream without a wait.
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/universal_vector.h>

#include <map>

#include "gpu.h"

typedef thrust::device_vector<uint32_t> Words;

template <class Vector> static unsigned long long digest(const Vector &v)
{
	return digest(thrust::raw_pointer_cast(v.data()),
		      v.size() * sizeof(typename Vector::value_type));
}

static Words words(size_t n, uint32_t tag)
{
	Words v(n);
	fill<<<256, 256>>>(thrust::raw_pointer_cast(v.data()), n, tag);
	return v;
}

/* Keeps freed memory for a request of the same size, as programs do because cudaMalloc is slow. */
struct Keeper {
	typedef char value_type;
	std::multimap<size_t, char *> idle;
	std::map<char *, size_t> used;
	unsigned again = 0;

	char *allocate(std::ptrdiff_t size)
	{
		char *at;
		auto found = idle.find(size);
		if (found != idle.end()) {
			at = found->second;
			idle.erase(found);
			again++;
		} else {
			MUST(cudaMalloc(&at, size));
		}
		used[at] = size;
		return at;
	}
	void deallocate(char *at, size_t)
	{
		idle.emplace(used.at(at), at);
		used.erase(at);
	}
	~Keeper()
	{
		for (auto &block : idle)
			MUST(cudaFree(block.second));
	}
};

template <class Policy> static void algorithms(const char *name, const Policy &policy, size_t n)
{
	Words keys = words(n, 11), values(n), sums(n);
	thrust::sequence(policy, values.begin(), values.end());
	thrust::stable_sort_by_key(policy, keys.begin(), keys.end(), values.begin());
	MUST(cudaDeviceSynchronize());
	printf("%s: sort %zu: %016llx %016llx\n", name, n, digest(keys), digest(values));
	thrust::exclusive_scan(policy, keys.begin(), keys.end(), sums.begin());
	MUST(cudaDeviceSynchronize());
	printf("%s: scan %zu: %016llx\n", name, n, digest(sums));
	thrust::transform(policy, keys.begin(), keys.end(), keys.begin(),
			  [] __device__(uint32_t x) { return x >> 16; });
	Words groups(n), totals(n);
	auto end = thrust::reduce_by_key(policy, keys.begin(), keys.end(), values.begin(),
					 groups.begin(), totals.begin());
	MUST(cudaDeviceSynchronize());
	groups.resize(end.first - groups.begin());
	totals.resize(end.second - totals.begin());
	printf("%s: reduce by key %zu: %zu groups, %016llx %016llx\n", name, n, groups.size(),
	       digest(groups), digest(totals));
}

static void growing()
{
	Words v;
	for (size_t n = 1; n <= 1 << 22; n = n * 3 / 2 + 1) {
		size_t before = v.size();
		v.resize(n);
		thrust::sequence(v.begin() + before, v.end(), (uint32_t)before);
	}
	for (uint32_t i = 0; i < 2000; i++)
		v.push_back(i);
	v.shrink_to_fit();
	printf("grown to %zu: %016llx\n", v.size(), digest(v));
}

static void managed()
{
	thrust::universal_vector<uint32_t> v(100000);
	for (size_t i = 0; i < v.size(); i++)
		v[i] = pattern(5, i);
	thrust::sort(thrust::cuda::par, v.begin(), v.end());
	printf("managed: %u %u, %016llx\n", v.front(), v.back(), digest(v));
}

int main()
{
	cudaStream_t stream;
	MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	Keeper keeper;
	for (size_t n : {1000, 100000, 5000000}) {
		algorithms("plain", thrust::cuda::par, n);
		algorithms("keeper", thrust::cuda::par(keeper), n);
		algorithms("keeper", thrust::cuda::par(keeper), n);
		algorithms("no wait", thrust::cuda::par_nosync(keeper).on(stream), n);
	}
	printf("kept and used again: %u\n", keeper.again);
	growing();
	managed();
	MUST(cudaStreamDestroy(stream));
	return 0;
}
