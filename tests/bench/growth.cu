// SPDX-License-Identifier: BSD-3-Clause
// Growth of gpumem::vector beside thrust::device_vector: figure 5.3 of M. Suresh, Dynamically
// Determined Output Space for SpGEMM Using GPU Virtual Memory Management (2023). The figure shows
// the share of resizing in the time of a vector for the non-zeros of a product.
//
//     growth ELEMENTS STEP
//
// Each container is empty at first, and grows by STEP elements at a time up to ELEMENTS ints; a
// kernel writes each step. So grows a result of unknown size. Prints a line of key=value for each
// container: vector; reserved, a vector with its full capacity from the start; thrust, a
// device_vector with Thrust's allocator; allocator, a device_vector with gpumem::allocator.
//
//   total_ms      total time, kernels included
//   resize_ms     the calls that grow, with a wait for each
//     resize_share  resize_ms / total_ms, in percent
//   peak_bytes    peak of the container's bytes, an old block beside the new one
//   copied_bytes  bytes moved by growth
//     checksum      of the elements at the end, computed on the device
#include <thrust/device_vector.h>

#include <gpumem_vector.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#define MUST(call)                                                      \
	do {                                                            \
		cudaError_t must_ = (call);                             \
		if (must_ != cudaSuccess) {                             \
			std::fprintf(stderr, "growth: %s: %s\n", #call, \
				     cudaGetErrorString(must_));        \
			std::exit(1);                                   \
		}                                                       \
	} while (0)

static double now_ms()
{
	return std::chrono::duration<double, std::milli>(
		       std::chrono::steady_clock::now().time_since_epoch())
		.count();
}

// Memory of an allocator: the blocks of all vectors of one run.
static struct {
	std::size_t live, peak;
} handed_out;

template <class Base> struct counting : Base {
	using pointer = typename Base::pointer;
	using size_type = typename Base::size_type;
	template <class U> struct rebind {
		using other =
			counting<typename std::allocator_traits<Base>::template rebind_alloc<U>>;
	};
	counting() = default;
	pointer allocate(size_type n)
	{
		pointer p = Base::allocate(n);
		handed_out.live += n * sizeof(typename Base::value_type);
		handed_out.peak = std::max(handed_out.peak, handed_out.live);
		return p;
	}
	void deallocate(pointer p, size_type n)
	{
		handed_out.live -= n * sizeof(typename Base::value_type);
		Base::deallocate(p, n);
	}
};

static __global__ void write_numbers(int *to, std::uint64_t from, std::uint64_t until)
{
	for (std::uint64_t i = from + blockIdx.x * (std::uint64_t)blockDim.x + threadIdx.x;
	     i < until; i += gridDim.x * (std::uint64_t)blockDim.x)
		to[i] = (int)(i * 2654435761u);
}

static __global__ void sum_numbers(const int *from, std::uint64_t n, unsigned long long *sum)
{
	unsigned long long own = 0;
	for (std::uint64_t i = blockIdx.x * (std::uint64_t)blockDim.x + threadIdx.x; i < n;
	     i += gridDim.x * (std::uint64_t)blockDim.x)
		own += (unsigned)from[i] * (2 * i + 1);
	atomicAdd(sum, own);
}

static unsigned long long checksum(const int *from, std::uint64_t n)
{
	unsigned long long *sum, result;
	MUST(cudaMalloc(&sum, sizeof *sum));
	MUST(cudaMemset(sum, 0, sizeof *sum));
	sum_numbers<<<1024, 256>>>(from, n, sum);
	MUST(cudaMemcpy(&result, sum, sizeof result, cudaMemcpyDeviceToHost));
	MUST(cudaFree(sum));
	return result;
}

struct growth {
	double total_ms, resize_ms;
	std::size_t peak_bytes, copied_bytes;
	unsigned long long checksum;
};

static int *address(gpumem::vector<int> &v)
{
	return v.data();
}
template <class Vector> static int *address(Vector &v)
{
	return thrust::raw_pointer_cast(v.data());
}

template <class Vector>
static void grow(Vector &v, std::uint64_t elements, std::uint64_t step, growth &out)
{
	const double begin = now_ms();
	for (std::uint64_t size = 0; size < elements;) {
		const std::uint64_t next = std::min(elements, size + step);
		const int *before = address(v);
		const double start = now_ms();
		v.resize(next);
		MUST(cudaDeviceSynchronize());
		out.resize_ms += now_ms() - start;
		if (address(v) != before)
			out.copied_bytes += size * sizeof(int);
		write_numbers<<<1024, 256>>>(address(v), size, next);
		MUST(cudaGetLastError());
		size = next;
	}
	MUST(cudaDeviceSynchronize());
	out.total_ms = now_ms() - begin;
	out.checksum = checksum(address(v), elements);
}

static void report(const char *way, std::uint64_t elements, std::uint64_t step, const growth &g)
{
	std::printf("growth way=%s elements=%llu step=%llu checksum=%016llx total_ms=%.6g "
		    "resize_ms=%.6g resize_share=%.4g "
		    "peak_bytes=%zu copied_bytes=%zu\n",
		    way, (unsigned long long)elements, (unsigned long long)step, g.checksum,
		    g.total_ms, g.resize_ms, 100 * g.resize_ms / g.total_ms, g.peak_bytes,
		    g.copied_bytes);
}

template <class Vector>
static void run_thrust(const char *way, std::uint64_t elements, std::uint64_t step)
{
	growth g = {};
	handed_out = {};
	{
		Vector v;
		grow(v, elements, step, g);
	}
	g.peak_bytes = handed_out.peak;
	report(way, elements, step, g);
}

static void run_vector(const char *way, std::uint64_t elements, std::uint64_t step, bool reserved)
{
	growth g = {};
	gpumem::vector<int> v(0, 0, GPUMEM_MEMORY_DEVICE, elements);
	if (reserved)
		v.reserve(elements);
	grow(v, elements, step, g);
	g.peak_bytes = v.capacity() * sizeof(int);
	report(way, elements, step, g);
}

int main(int argc, char **argv)
{
	const std::uint64_t elements = argc == 3 ? std::strtoull(argv[1], nullptr, 10) : 0;
	const std::uint64_t step = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 0;
	if (!elements || !step) {
		std::fprintf(stderr, "Usage: growth ELEMENTS STEP\n");
		return 2;
	}
	MUST(cudaFree(nullptr));
	try {
		growth unused = {};
		thrust::device_vector<int> first; // loads the kernels outside the timing
		grow(first, 1, 1, unused);
		run_vector("vector", elements, step, false);
		run_vector("reserved", elements, step, true);
		run_thrust<thrust::device_vector<int, counting<thrust::device_allocator<int>>>>(
			"thrust", elements, step);
		run_thrust<thrust::device_vector<int, counting<gpumem::allocator<int>>>>(
			"allocator", elements, step);
	} catch (const std::exception &why) {
		std::fprintf(stderr, "growth: %s\n", why.what());
		return 1;
	}
	return 0;
}
