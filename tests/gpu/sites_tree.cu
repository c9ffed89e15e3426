/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels that leak, with each call of malloc on a line of its own; sited.py compares the lines of
 * a log with the words behind "sites:". Calls in functions, templates and lambdas; new; blocks of
 * many sizes.
 */
#include "gpu.h"

struct Node {
	Node *next;
	int value[6];
};

struct Owner {
	Node *list;
	int *array, *whole;
};

__device__ __noinline__ static Node *node_make(Node *next, int value)
{
	Node *node = (Node *)malloc(sizeof(Node)); // sites: blocks=20480 mallocs=81920
	node->next = next;
	node->value[0] = value;
	return node;
}

__device__ static int *array_make(int n)
{
	return new int[n]; // sites: blocks=4096 mallocs=8192
}

template <int SIZE> __device__ static void *sized(void)
{
	return malloc(SIZE); // sites: blocks=3 mallocs=3
}

__global__ void grow(Owner *owners, int nodes)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	Owner *owner = &owners[t];
	owner->list = nullptr;
	for (int i = 0; i < nodes; i++)
		owner->list = node_make(owner->list, i);
	owner->array = array_make(10 + t % 7);
	auto take = [](size_t n) {
		return (int *)malloc(n); // sites: blocks=0 mallocs=8192
	};
	owner->whole = take(1000 * (t % 3 + 1));
}

/* Frees all lists of odd threads, and half of the others. */
__global__ void shrink(Owner *owners)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x, i = 0;
	for (Node *node = owners[t].list, *next; node; node = next, i++) {
		next = node->next;
		if (t % 2 || i >= 5)
			free(node);
	}
	if (t % 2)
		delete[] owners[t].array;
	free(owners[t].whole);
}

__global__ void constant(void **out)
{
	out[0] = sized<100>();
	out[1] = sized<100>();
	out[2] = sized<100>();
	out[3] = malloc(5 << 20); // sites: blocks=1 mallocs=1
}

int main(int argc, char **argv)
{
	enum { THREADS = 8192 };
	Owner *owners;
	void **out;
	MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 256 << 20));
	MUST(cudaMalloc(&owners, THREADS * sizeof *owners));
	MUST(cudaMalloc(&out, 4 * sizeof *out));
	grow<<<THREADS / 128, 128>>>(owners, 10);
	shrink<<<THREADS / 256, 256>>>(owners);
	constant<<<1, 1>>>(out);
	MUST(cudaDeviceSynchronize());
	MUST(cudaFree(owners));
	MUST(cudaDeviceReset());
	printf("%d threads\n", THREADS);
	return 0;
}
