// SPDX-License-Identifier: BSD-3-Clause
// malloc in kernels of a program that does not use gpumem's interfaces: each thread builds a list
// of its own, and the next kernel reads and frees them. Together the nodes take 16 times the
// driver's default heap.
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

enum { THREADS = 1 << 18, EACH = 8 };

struct Node {
	Node *next;
	unsigned long long value, rest[6];
};

struct Answer {
	unsigned long long missing, sum;
};

__global__ void lists_build(Node **lists, Answer *answer)
{
	const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	lists[t] = nullptr;
	for (unsigned i = 0; i < EACH; i++) {
		Node *node = static_cast<Node *>(malloc(sizeof *node));
		if (!node) {
			atomicAdd(&answer->missing, 1ull);
			continue;
		}
		node->value = t + i;
		node->next = lists[t];
		lists[t] = node;
	}
}

__global__ void lists_sum(Node **lists, Answer *answer)
{
	unsigned long long sum = 0;
	for (Node *node = lists[blockIdx.x * blockDim.x + threadIdx.x]; node;) {
		Node *next = node->next;
		sum += node->value;
		free(node);
		node = next;
	}
	atomicAdd(&answer->sum, sum);
}

static void must(cudaError_t result)
{
	if (result == cudaSuccess)
		return;
	std::printf("lists: %s\n", cudaGetErrorString(result));
	std::exit(2);
}

int main()
{
	const unsigned long long all = (unsigned long long)THREADS * EACH;
	const unsigned long long sum = (unsigned long long)THREADS * (THREADS - 1) / 2 * EACH +
				       (unsigned long long)EACH * (EACH - 1) / 2 * THREADS;
	Node **lists;
	Answer *on_device, answer;
	must(cudaMalloc(&lists, THREADS * sizeof *lists));
	must(cudaMalloc(&on_device, sizeof *on_device));
	must(cudaMemset(on_device, 0, sizeof *on_device));
	must(cudaDeviceSynchronize());
	const auto start = std::chrono::steady_clock::now();
	lists_build<<<THREADS / 256, 256>>>(lists, on_device);
	lists_sum<<<THREADS / 256, 256>>>(lists, on_device);
	must(cudaDeviceSynchronize());
	const std::chrono::duration<double, std::milli> took =
		std::chrono::steady_clock::now() - start;
	must(cudaMemcpy(&answer, on_device, sizeof answer, cudaMemcpyDeviceToHost));
	std::printf("lists: %llu of %llu mallocs in kernels got NULL%s; the kernels took %.1f ms\n",
		    answer.missing, all,
		    answer.missing == 0 && answer.sum != sum ? ", and the sum is wrong" : "",
		    took.count());
	return answer.missing != 0 || answer.sum != sum;
}
