/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * malloc in kernels, as programs use it: malloc and free of many sizes, new and delete, objects
 * with virtual functions that outlive their kernel, recursion, printf and assert, blocks of 1024
 * threads, a cooperative grid, graphs, limits, a reset of the device. Built plainly, with -G and
 * with -rdc=true. The native heap is made large enough to refuse nothing.
 */
#include "gpu.h"

#include <cassert>
#include <cooperative_groups.h>

static unsigned long long *sum;

static void report(const char *what)
{
	MUST(cudaDeviceSynchronize());
	printf("%-40s %016llx\n", what, *sum);
	*sum = 0;
}

/* --- malloc and free --- */

__device__ unsigned long long digest_of(const unsigned char *at, unsigned n)
{
	unsigned long long d = n;
	for (unsigned i = 0; i < n; i++)
		d = d * 31 + at[i];
	return d;
}

__global__ void sizes(unsigned long long *out)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x, n = (t * 7919u) % 2000;
	unsigned char *at = (unsigned char *)malloc(n);
	if (!at || ((uintptr_t)at & 15))
		atomicAdd(out, 1ull << 63);
	if (!at)
		return;
	for (unsigned i = 0; i < n; i++)
		at[i] = (unsigned char)(t + i);
	atomicAdd(out, digest_of(at, n));
	free(at);
	free(NULL);
}

__global__ void keep(unsigned **out)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	out[t] = (unsigned *)malloc(sizeof(unsigned) * (1 + t % 64));
	for (unsigned i = 0; out[t] && i <= t % 64; i++)
		out[t][i] = t + i;
}

/* Each thread frees the block of a thread in another kernel and block. */
__global__ void give_back(unsigned **from, unsigned n, unsigned long long *out)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x, k = n - 1 - t;
	unsigned long long d = 0;
	for (unsigned i = 0; from[k] && i <= k % 64; i++)
		d += from[k][i];
	atomicAdd(out, from[k] ? d : 1ull << 63);
	free(from[k]);
}

static void mallocs(unsigned threads_of_block)
{
	const unsigned n = 64 * 1024;
	unsigned **kept;
	MUST(cudaMalloc(&kept, n * sizeof *kept));
	sizes<<<n / threads_of_block, threads_of_block>>>(sum);
	report("malloc and free");
	keep<<<n / threads_of_block, threads_of_block>>>(kept);
	give_back<<<n / threads_of_block, threads_of_block>>>(kept, n, sum);
	report("freed by another kernel");
	MUST(cudaFree(kept));
}

/* --- objects --- */

struct Shape {
	__device__ virtual ~Shape()
	{
	}
	__device__ virtual unsigned area() const = 0;
};
struct Square : Shape {
	unsigned a;
	__device__ Square(unsigned side) : a(side)
	{
	}
	__device__ unsigned area() const override
	{
		return a * a;
	}
};
struct Strip : Shape {
	unsigned *parts, n;
	__device__ Strip(unsigned count) : parts(new unsigned[count]), n(count)
	{
		for (unsigned i = 0; i < n; i++)
			parts[i] = i + 1;
	}
	__device__ ~Strip() override
	{
		delete[] parts;
	}
	__device__ unsigned area() const override
	{
		unsigned s = 0;
		for (unsigned i = 0; i < n; i++)
			s += parts[i];
		return s;
	}
};

__global__ void make_shapes(Shape **out)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	out[t] = t % 3 ? (Shape *)new Square(t % 100) : (Shape *)new Strip(1 + t % 50);
}

__global__ void measure(Shape **in, unsigned long long *out)
{
	atomicAdd(out, in[blockIdx.x * blockDim.x + threadIdx.x]->area());
}

__global__ void destroy(Shape **in)
{
	delete in[blockIdx.x * blockDim.x + threadIdx.x];
}

static void objects()
{
	const unsigned n = 32 * 1024;
	Shape **shapes;
	MUST(cudaMalloc(&shapes, n * sizeof *shapes));
	make_shapes<<<n / 256, 256>>>(shapes);
	measure<<<n / 128, 128>>>(shapes, sum);
	destroy<<<n / 64, 64>>>(shapes);
	report("objects with virtual functions");
	MUST(cudaFree(shapes));
}

/* --- recursion --- */

struct Node {
	Node *left, *right;
	unsigned value;
};

__device__ __noinline__ Node *grow_tree(unsigned depth, unsigned value)
{
	Node *n = new Node;
	n->value = value;
	n->left = depth ? grow_tree(depth - 1, 2 * value) : NULL;
	n->right = depth ? grow_tree(depth - 1, 2 * value + 1) : NULL;
	return n;
}

__device__ __noinline__ unsigned long long fell(Node *n)
{
	if (!n)
		return 0;
	unsigned long long s = n->value + fell(n->left) + fell(n->right);
	delete n;
	return s;
}

__global__ void trees(unsigned long long *out)
{
	Node *root = grow_tree(5, 1 + threadIdx.x % 7);
	__syncthreads();
	atomicAdd(out, fell(root));
}

/* --- printf and assert --- */

__global__ void talk(unsigned long long *out)
{
	char *text = (char *)malloc(32);
	assert(text != NULL);
	for (int i = 0; i < 5; i++)
		text[i] = (char)('a' + (i + threadIdx.x) % 26);
	text[5] = '\0';
	if (threadIdx.x == 3)
		printf("a kernel says %s\n", text);
	atomicAdd(out, (unsigned long long)text[0]);
	free(text);
}

/* After this the process can no longer use the device, even after a reset. */
__global__ void complain()
{
	char *text = (char *)malloc(1);
	assert(threadIdx.x != 5 || !text);
	free(text);
}

static void failed_assert()
{
	complain<<<1, 32>>>();
	SHOW(cudaDeviceSynchronize());
	SHOW(cudaFree(sum));
}

/* --- cooperative grids, with as many blocks as fit the device at once --- */

__global__ void together(unsigned **slots, unsigned long long *out)
{
	auto grid = cooperative_groups::this_grid();
	unsigned n = (unsigned)grid.size(), t = (unsigned)grid.thread_rank();
	slots[t] = (unsigned *)malloc(16 + t % 100);
	if (slots[t])
		*slots[t] = t;
	grid.sync();
	unsigned *other = slots[(t + n / 2) % n];
	atomicAdd(out, other ? *other == (t + n / 2) % n : 1ull << 63);
	grid.sync();
	free(slots[(t + 1) % n]);
}

/* A barrier kernel that allocates nothing: the last block releases the others. */
__global__ void meet(unsigned long long *out)
{
	for (int i = 0; i < 10; i++)
		cooperative_groups::this_grid().sync();
	if (threadIdx.x == 0)
		atomicAdd(out, 1);
}

__global__ void churn()
{
	for (unsigned i = 0; i < 20; i++) {
		volatile unsigned *word = (unsigned *)malloc(16 + i * 8);
		if (word)
			*word = i;
		free((void *)word);
	}
}

static unsigned most_blocks(const void *kernel)
{
	cudaDeviceProp p;
	int blocks = 0;
	MUST(cudaGetDeviceProperties(&p, 0));
	MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 128, 0));
	printf("%-40s %d\n", "blocks at once", blocks * p.multiProcessorCount);
	return (unsigned)(blocks * p.multiProcessorCount);
}

static void cooperative()
{
	unsigned **slots, grid = most_blocks((const void *)together);
	MUST(cudaMalloc(&slots, grid * 128 * sizeof *slots));
	void *arguments[] = {&slots, &sum};
	MUST(cudaLaunchCooperativeKernel((void *)together, grid, 128, arguments));
	report("a cooperative grid");
	MUST(cudaFree(slots));
}

/* Whole grids after, between and before kernels that allocate, in separate streams. */
static void cooperative_beside()
{
	unsigned grid = most_blocks((const void *)meet);
	void *arguments[] = {&sum};
	cudaStream_t stream[2];
	for (cudaStream_t &one : stream)
		MUST(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
	for (int i = 0; i < 10; i++) {
		churn<<<64, 128, 0, stream[0]>>>();
		MUST(cudaLaunchCooperativeKernel((void *)meet, grid, 128, arguments, 0, stream[1]));
	}
	report("a cooperative grid beside malloc");
	SHOW(cudaLaunchCooperativeKernel((void *)meet, grid + 1, 128, arguments, 0, stream[1]));
	cudaGetLastError();
	for (cudaStream_t one : stream)
		MUST(cudaStreamDestroy(one));
}

/* --- graphs --- */

static void graphs()
{
	const unsigned n = 16 * 1024;
	unsigned **kept;
	cudaStream_t stream;
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	MUST(cudaMalloc(&kept, n * sizeof *kept));
	MUST(cudaStreamCreate(&stream));
	MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	keep<<<n / 256, 256, 0, stream>>>(kept);
	give_back<<<n / 256, 256, 0, stream>>>(kept, n, sum);
	MUST(cudaStreamEndCapture(stream, &graph));
	MUST(cudaGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 5; i++)
		MUST(cudaGraphLaunch(exec, stream));
	report("a graph, five times");
	MUST(cudaGraphExecDestroy(exec));
	MUST(cudaGraphDestroy(graph));
	MUST(cudaStreamDestroy(stream));
	MUST(cudaFree(kept));
}

/* --- limits --- */

static void limit(size_t value)
{
	size_t answer = 0;
	int result = cudaDeviceSetLimit(cudaLimitMallocHeapSize, value);
	MUST(cudaDeviceGetLimit(&answer, cudaLimitMallocHeapSize));
	cudaGetLastError();
	printf("limit %-34zu %d %zu\n", value, result, answer);
}

/* The resources that each kernel needs, and its number of resident blocks. */
static void registers()
{
	static const struct {
		const char *name;
		const void *kernel;
	} all[] = {
#define KERNEL(name) {#name, (const void *)name}
		KERNEL(sizes),	  KERNEL(keep),	    KERNEL(give_back), KERNEL(make_shapes),
		KERNEL(measure),  KERNEL(destroy),  KERNEL(trees),     KERNEL(talk),
		KERNEL(complain), KERNEL(together), KERNEL(meet),      KERNEL(churn),
	};
	for (const auto &one : all) {
		cudaFuncAttributes a;
		MUST(cudaFuncGetAttributes(&a, one.kernel));
		printf("%-12s %d registers, %zu local, %zu shared, %zu constant, %d threads:",
		       one.name, a.numRegs, a.localSizeBytes, a.sharedSizeBytes, a.constSizeBytes,
		       a.maxThreadsPerBlock);
		for (int threads : {32, 128, 256, 1024}) {
			int blocks = 0;
			MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, one.kernel,
									   threads, 0));
			printf(" %d", blocks);
		}
		printf("\n");
	}
}

static void round_of_tests()
{
	size_t stack = 0;
	MUST(cudaMallocManaged(&sum, sizeof *sum));
	*sum = 0;
	for (size_t value : {(size_t)0, (size_t)12345678, (size_t)1 << 40, (size_t)512 << 20})
		limit(value);
	MUST(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
	MUST(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
	registers();
	limit((size_t)600 << 20); /* after the load of kernels, before the first launch */
	mallocs(128);
	limit((size_t)700 << 20);
	mallocs(1024);
	objects();
	trees<<<64, 64>>>(sum);
	report("recursion");
	talk<<<1, 64>>>(sum);
	report("printf and assert");
	cooperative();
	cooperative_beside();
	graphs();
	mallocs(32);
	registers();
}

int main()
{
	for (int i = 0; i < 3; i++) {
		round_of_tests();
		MUST(cudaFree(sum));
		MUST(cudaDeviceReset());
	}
	round_of_tests();
	failed_assert();
	return 0;
}
