/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that has allocated its memory, and only multiplies matrices by cuBLAS, in a loop. */
#include "client.h"

#include <cublas_v2.h>

#define N 1024
#define BATCH 100
#define SAMPLES_MIN 3
#define SAMPLES_MAX 1024

static cublasHandle_t blas;
static float *matrix[3];

static double multiply(void)
{
	const float one = 1, zero = 0;
	double begin = bench_now();
	for (int i = 0; i < BATCH; i++)
		BENCH_MUST(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &one, matrix[0], N,
				       matrix[1], N, &zero, matrix[2], N));
	BENCH_MUST(cudaDeviceSynchronize());
	return (bench_now() - begin) / BATCH;
}

static void setup(void)
{
	BENCH_MUST(cublasCreate(&blas));
	for (int i = 0; i < 3; i++) {
		BENCH_MUST(cudaMalloc((void **)&matrix[i], (size_t)N * N * sizeof(float)));
		BENCH_MUST(cudaMemset(matrix[i], 0x3c, (size_t)N * N * sizeof(float)));
	}
	multiply();
}

/* gemm TIME: the median time of a product. */
static void gemm(char **words)
{
	static double times[SAMPLES_MAX];
	double end;
	size_t n = 0;
	if (!blas)
		setup();
	multiply();
	end = bench_now() + (double)bench_number(words[1]);
	while (n < SAMPLES_MIN || (n < SAMPLES_MAX && bench_now() < end))
		times[n++] = multiply();
	printf("ok %.4f\n", bench_median(times, n));
}

int main(void)
{
	static const struct bench_command table[] = {{"gemm", 1, gemm}, {NULL, 0, NULL}};
	return bench_serve(table);
}
