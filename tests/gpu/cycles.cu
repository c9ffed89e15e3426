/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs long enough for twenty sleeps (cycled.sh): cycles plain|graph|blas|malloc. Each step uses
 * all memory of the program. The printed digests cover every byte.
 */
#include "gpu.h"

#include <cstring>
#include <cublas_v2.h>
#include <unistd.h>

#define STEPS 1200
#define PAUSE 10000 /* us after each step: all steps take at least 12 s */
#define BLOCKS 24
#define SIDE 1024  /* of the square matrices */
#define LISTS 4096 /* the driver's heap holds twice as many */

static uint32_t *blocks[BLOCKS];
static uint64_t words[BLOCKS];
static unsigned long long *sum;
static cudaStream_t stream;

static __global__ void advance(uint32_t *at, uint64_t n, uint32_t step)
{
	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < n;
	     i += (uint64_t)gridDim.x * blockDim.x)
		at[i] = at[i] * 1664525u + step + (uint32_t)i;
}

static __global__ void digest(const uint32_t *at, uint64_t n, unsigned long long *out)
{
	unsigned long long part = 0;
	for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < n;
	     i += (uint64_t)gridDim.x * blockDim.x)
		part += at[i] * (2 * i + 1);
	atomicAdd(out, part);
}

/* Lists in memory of malloc that live from one step to the next. */
static __global__ void lists(uint32_t **heads, uint32_t step, unsigned long long *out)
{
	uint32_t t = blockIdx.x * blockDim.x + threadIdx.x, n = 8 + (t * 7 + step) % 200;
	uint32_t *before = heads[t], *now = (uint32_t *)malloc(n * sizeof *now);
	if (!now)
		return;
	now[0] = n;
	for (uint32_t i = 1; i < n; i++)
		now[i] = (before ? before[i % before[0]] : t) * 31 + i + step;
	atomicAdd(out, (unsigned long long)now[n - 1]);
	free(before);
	heads[t] = now;
}

static void report(uint32_t step)
{
	MUST(cudaStreamSynchronize(stream));
	unsigned long long said;
	MUST(cudaMemcpy(&said, sum, sizeof said, cudaMemcpyDeviceToHost));
	if (step % 100 == 0)
		printf("%u %016llx\n", step, said);
}

static void plain(uint32_t step)
{
	for (int b = 0; b < BLOCKS; b++)
		advance<<<256, 256, 0, stream>>>(blocks[b], words[b], step);
	for (int b = 0; b < BLOCKS; b++)
		digest<<<256, 256, 0, stream>>>(blocks[b], words[b], sum);
}

/* Captured once, before the first sleep: the nodes keep the addresses. */
static void graph(uint32_t)
{
	static cudaGraphExec_t captured;
	if (!captured) {
		cudaGraph_t made;
		MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
		plain(7);
		MUST(cudaMemcpyAsync(blocks[0], blocks[1], 4096, cudaMemcpyDeviceToDevice, stream));
		MUST(cudaMemsetAsync(blocks[2], 5, 999, stream));
		MUST(cudaStreamEndCapture(stream, &made));
		MUST(cudaGraphInstantiate(&captured, made, 0));
	}
	MUST(cudaGraphLaunch(captured, stream));
}

static void blas(uint32_t step)
{
	static cublasHandle_t handle;
	const float one = 1, half = 0.5f;
	if (!handle) {
		MUST(cublasCreate(&handle));
		MUST(cublasSetStream(handle, stream));
		for (int b = 0; b < 3; b++)
			MUST(cudaMemsetAsync(blocks[b], 0x3c + b, SIDE * SIDE * sizeof(float),
					     stream));
	}
	MUST(cublasSgemm(handle, CUBLAS_OP_N, step & 1 ? CUBLAS_OP_T : CUBLAS_OP_N, SIDE, SIDE,
			 SIDE, &half, (float *)blocks[0], SIDE, (float *)blocks[1], SIDE, &one,
			 (float *)blocks[2], SIDE));
	digest<<<256, 256, 0, stream>>>(blocks[2], SIDE * SIDE, sum);
}

static void in_kernel(uint32_t step)
{
	static uint32_t **heads;
	if (!heads) {
		MUST(cudaMalloc(&heads, LISTS * sizeof *heads));
		MUST(cudaMemset(heads, 0, LISTS * sizeof *heads));
	}
	lists<<<LISTS / 256, 256, 0, stream>>>(heads, step, sum);
}

static const struct {
	const char *name;
	void (*step)(uint32_t);
} parts[] = {{"plain", plain}, {"graph", graph}, {"blas", blas}, {"malloc", in_kernel}};

int main(int argc, char **argv)
{
	void (*step)(uint32_t) = nullptr;
	for (auto &part : parts)
		if (argc == 2 && !strcmp(argv[1], part.name))
			step = part.step;
	if (!step)
		return fprintf(stderr, "usage: cycles plain|graph|blas|malloc\n"), 2;
	MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	MUST(cudaMalloc(&sum, sizeof *sum));
	MUST(cudaMemset(sum, 0, sizeof *sum));
	for (uint32_t b = 0; b < BLOCKS; b++) {
		words[b] = b == 2 ? SIDE * SIDE : b % 3 == 2 ? 100 + b : (uint64_t)(b + 1) << 20;
		MUST(cudaMalloc(&blocks[b], words[b] * sizeof(uint32_t)));
		fill<<<256, 256>>>(blocks[b], words[b], b);
	}
	MUST(cudaDeviceSynchronize());
	for (uint32_t i = 0; i < STEPS; i++) {
		step(i);
		report(i);
		usleep(PAUSE);
	}
	return 0;
}
