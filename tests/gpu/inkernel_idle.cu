/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that kernels allocated and freed, while the program does other work:
 * ./inkernel_idle CUBIN     CUBIN is kernels.cu's; its kernels cannot allocate
 */
#include "gpu.h"

#include <unistd.h>

static const unsigned BLOCKS = 64, BLOCK = 32;
static const size_t MIB = 1 << 20, LIMIT = 4096 * MIB;

/* Each thread allocates and touches a block. The kernel `give` frees all blocks. */
__global__ void take(char **kept, size_t size, unsigned long long *refused)
{
	unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
	kept[t] = (char *)malloc(size);
	if (!kept[t])
		atomicAdd(refused, 1);
	else
		kept[t][0] = kept[t][size - 1] = (char)t;
}

__global__ void give(char **kept)
{
	free(kept[blockIdx.x * blockDim.x + threadIdx.x]);
}

static char **kept;
static unsigned long long *refused;

static void use(cudaStream_t stream, size_t size)
{
	take<<<BLOCKS, BLOCK, 0, stream>>>(kept, size, refused);
	give<<<BLOCKS, BLOCK, 0, stream>>>(kept);
	MUST(cudaGetLastError());
}

static void show(const char *when)
{
	MUST(cudaDeviceSynchronize());
	printf("%-50s %llu\n", when, *refused);
	fflush(stdout);
}

static size_t free_now()
{
	size_t size, total;
	MUST(cudaMemGetInfo(&size, &total));
	return size;
}

/* Retains and releases, as another user of the context would. */
static void retain_and_release()
{
	CUcontext context;
	for (int i = 0; i < 3; i++) {
		MUST(cuDevicePrimaryCtxRetain(&context, 0));
		MUST(cuDevicePrimaryCtxRelease(0));
	}
}

static void comes_back(size_t before)
{
	for (int i = 0; i < 600 && free_now() + 64 * MIB < before; i++)
		usleep(100000);
	fprintf(stderr, "free before %zu MiB, after %zu MiB\n", before / MIB, free_now() / MIB);
	printf("%-50s %s\n", "the memory is back: within 64 MiB",
	       free_now() + 64 * MIB >= before ? "yes" : "no");
	fflush(stdout);
}

/* A kernel that fills the GPU runs after those that allocate. It waits for the host, which
 * meanwhile launches more of them. */
static void behind_a_full_gpu(const char *cubin)
{
	CUmodule module;
	CUfunction hold;
	cudaStream_t first, second;
	int processors, *go;
	MUST(cuModuleLoad(&module, cubin));
	MUST(cuModuleGetFunction(&hold, module, "hold"));
	MUST(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
	MUST(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
	MUST(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
	MUST(cudaMallocHost(&go, sizeof *go));
	for (int i = 0; i < 5; i++) {
		*go = 0;
		use(first, LIMIT / 4 / (BLOCKS * BLOCK));
		void *arguments[] = {&go};
		MUST(cuLaunchKernel(hold, 2 * (unsigned)processors, 1, 1, 1024, 1, 1, 0, first,
				    arguments, NULL));
		usleep(200000); /* time for a trim; the result does not depend on it */
		use(second, LIMIT / 8 / (BLOCKS * BLOCK));
		*(volatile int *)go = 1;
		show("launched while the GPU is full: NULLs");
	}
	MUST(cudaStreamDestroy(first));
	MUST(cudaStreamDestroy(second));
	MUST(cudaFreeHost(go));
	MUST(cuModuleUnload(module));
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, LIMIT));
	MUST(cudaMalloc(&kept, BLOCKS * BLOCK * sizeof *kept));
	MUST(cudaMallocManaged(&refused, sizeof *refused));
	*refused = 0;
	use(NULL, 1000);
	show("the heap is made: NULLs");
	size_t before = free_now();
	retain_and_release();
	use(NULL, LIMIT / 4 / (BLOCKS * BLOCK));
	show("after the context was retained and released: NULLs");
	for (int i = 0; i < 3; i++) {
		comes_back(before);
		use(NULL, LIMIT / 4 / (BLOCKS * BLOCK));
		show("used again: NULLs");
	}
	behind_a_full_gpu(argv[1]);
	comes_back(before);
	return 0;
}
