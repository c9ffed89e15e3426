/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program whose kernels call malloc: see client.h. It also has a kernel that does not call
 * malloc, whose launch is measured, too. Times are in microseconds, by the device's clock.
 */
#include <algorithm>
#include <functional>
#include <vector>

#include "client.h"

static const unsigned BLOCK = 256;

/* --- a piece a thread --- */

__device__ static unsigned word_of(unsigned t, unsigned i)
{
	return t * 2654435761u + i * 40503u;
}

__global__ static void take(unsigned **out, unsigned n, unsigned words)
{
	unsigned t = blockIdx.x * BLOCK + threadIdx.x;
	if (t >= n)
		return;
	unsigned *at = (unsigned *)malloc(words * sizeof *at);
	for (unsigned i = 0; at && i < words; i++)
		at[i] = word_of(t, i);
	out[t] = at;
}

/* counts[0]: threads without a block; counts[1]: wrong words. */
__global__ static void check(unsigned **in, unsigned n, unsigned words, unsigned long long *counts)
{
	unsigned t = blockIdx.x * BLOCK + threadIdx.x;
	if (t >= n)
		return;
	if (!in[t])
		atomicAdd(&counts[0], 1);
	for (unsigned i = 0; in[t] && i < words; i++)
		if (in[t][i] != word_of(t, i))
			atomicAdd(&counts[1], 1);
}

__global__ static void give(unsigned **in, unsigned n)
{
	unsigned t = blockIdx.x * BLOCK + threadIdx.x;
	if (t < n)
		free(in[t]);
}

/* --- an object a thread --- */

struct Shape {
	__device__ virtual ~Shape()
	{
	}
	__device__ virtual unsigned area() const = 0;
};

struct Box : Shape {
	unsigned side[10];
	__device__ explicit Box(unsigned t)
	{
		for (unsigned i = 0; i < 10; i++)
			side[i] = t + i;
	}
	__device__ unsigned area() const override
	{
		unsigned sum = 0;
		for (unsigned s : side)
			sum += s;
		return sum;
	}
};

__global__ static void make(Shape **out, unsigned n)
{
	unsigned t = blockIdx.x * BLOCK + threadIdx.x;
	if (t < n)
		out[t] = new Box(t);
}

__global__ static void measure(Shape **in, unsigned n, unsigned long long *counts)
{
	unsigned t = blockIdx.x * BLOCK + threadIdx.x;
	if (t >= n)
		return;
	if (!in[t])
		atomicAdd(&counts[0], 1);
	else if (in[t]->area() != 10 * t + 45)
		atomicAdd(&counts[1], 1);
}

__global__ static void destroy(Shape **in, unsigned n)
{
	unsigned t = blockIdx.x * BLOCK + threadIdx.x;
	if (t < n)
		delete in[t];
}

/* --- commands --- */

static double microseconds(const std::function<void()> &launch)
{
	static cudaEvent_t begin, end;
	float ms;
	if (!begin) {
		BENCH_MUST(cudaEventCreate(&begin));
		BENCH_MUST(cudaEventCreate(&end));
	}
	BENCH_MUST(cudaEventRecord(begin));
	launch();
	BENCH_MUST(cudaGetLastError());
	BENCH_MUST(cudaEventRecord(end));
	BENCH_MUST(cudaEventSynchronize(end));
	BENCH_MUST(cudaEventElapsedTime(&ms, begin, end));
	return ms * 1e3;
}

/* limit BYTES: set the program's limit for the driver's own heap. */
static void limit(char **words)
{
	BENCH_MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, bench_number(words[1])));
	printf("ok\n");
}

typedef std::function<void(void *, unsigned long long *)> Step;

/* "ok ALLOCATE RELEASE NULLS WRONG": two times, and the counts of the check between them. */
static void turn(unsigned n, const Step &allocate, const Step &examine, const Step &release)
{
	void *kept;
	unsigned long long *counts;
	BENCH_MUST(cudaMalloc(&kept, n * sizeof(void *)));
	BENCH_MUST(cudaMallocManaged(&counts, 2 * sizeof *counts));
	counts[0] = counts[1] = 0;
	double allocated = microseconds([&] { allocate(kept, counts); });
	examine(kept, counts);
	BENCH_MUST(cudaDeviceSynchronize());
	double released = microseconds([&] { release(kept, counts); });
	printf("ok %.3f %.3f %llu %llu\n", allocated, released, counts[0], counts[1]);
	BENCH_MUST(cudaFree(kept));
	BENCH_MUST(cudaFree(counts));
}

/* pieces THREADS BYTES */
static void pieces(char **words)
{
	unsigned n = (unsigned)bench_number(words[1]), grid = (n + BLOCK - 1) / BLOCK;
	unsigned count = (unsigned)bench_number(words[2]) / sizeof(unsigned);
	turn(
		n, [=](void *at, auto) { take<<<grid, BLOCK>>>((unsigned **)at, n, count); },
		[=](void *at, auto c) { check<<<grid, BLOCK>>>((unsigned **)at, n, count, c); },
		[=](void *at, auto) { give<<<grid, BLOCK>>>((unsigned **)at, n); });
}

/* objects THREADS */
static void objects(char **words)
{
	unsigned n = (unsigned)bench_number(words[1]), grid = (n + BLOCK - 1) / BLOCK;
	turn(
		n, [=](void *at, auto) { make<<<grid, BLOCK>>>((Shape **)at, n); },
		[=](void *at, auto c) { measure<<<grid, BLOCK>>>((Shape **)at, n, c); },
		[=](void *at, auto) { destroy<<<grid, BLOCK>>>((Shape **)at, n); });
}

__device__ static unsigned long long nanoseconds()
{
	unsigned long long now;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	return now;
}

/* One thread; it frees only after all allocations. */
__global__ static void grow(unsigned n, size_t bytes, void **kept, unsigned long long *took)
{
	for (unsigned i = 0; i < n; i++) {
		unsigned long long begin = nanoseconds();
		volatile unsigned *at = (unsigned *)malloc(bytes);
		took[i] = nanoseconds() - begin;
		if (at)
			at[0] = at[bytes / sizeof *at - 1] = i;
		kept[i] = (void *)at;
	}
	for (unsigned i = 0; i < n; i++)
		free(kept[i]);
}

/* growth N BYTES: "ok MEDIAN MOST NULLS" of N pieces that one kernel allocates. */
static void growth(char **words)
{
	unsigned n = (unsigned)bench_number(words[1]), nulls = 0;
	void **kept;
	unsigned long long *took;
	BENCH_MUST(cudaMallocManaged(&kept, n * sizeof *kept));
	BENCH_MUST(cudaMallocManaged(&took, n * sizeof *took));
	grow<<<1, 1>>>(n, bench_number(words[2]), kept, took);
	BENCH_MUST(cudaGetLastError());
	BENCH_MUST(cudaDeviceSynchronize());
	for (unsigned i = 0; i < n; i++)
		nulls += !kept[i];
	std::vector<double> us(took, took + n);
	double most = *std::max_element(us.begin(), us.end());
	printf("ok %.3f %.3f %u\n", bench_median(us.data(), n) / 1e3, most / 1e3, nulls);
	BENCH_MUST(cudaFree(kept));
	BENCH_MUST(cudaFree(took));
}

int main()
{
	static const struct bench_command table[] = {
		{"limit", 1, limit},   {"pieces", 2, pieces},	    {"objects", 1, objects},
		{"growth", 2, growth}, {"launch", 1, bench_launch}, {NULL, 0, NULL},
	};
	return bench_serve(table);
}
