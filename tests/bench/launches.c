/* SPDX-License-Identifier: BSD-3-Clause */
/* A free while a kernel runs, and the cost of a launch. */
#include "client.h"

#define ROUNDS_MAX 256
#define BATCH 512 /* launches in one measurement: fewer than the driver queues before it waits */
#define BATCHES_MIN 5
#define BATCHES_MAX 4096

/*
 * A block is freed while a kernel of another stream runs. Answers the median time of the free, and
 * the number of rounds in which the kernel had ended after the free and one more pair.
 */
void bench_free_under(char **words)
{
	double times[ROUNDS_MAX];
	size_t size = bench_number(words[1]);
	uint64_t kernel = bench_number(words[2]), rounds = bench_number(words[3]), waited = 0;
	cudaStream_t stream;
	BENCH_MUST(rounds == 0 || rounds > ROUNDS_MAX);
	BENCH_MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	bench_kernel_spin(stream, 1); /* loads the kernel */
	BENCH_MUST(cudaStreamSynchronize(stream));
	for (uint64_t i = 0; i < rounds; i++) {
		void *at, *next;
		BENCH_MUST(cudaMalloc(&at, size));
		bench_kernel_spin(stream, kernel);
		double begin = bench_now();
		BENCH_MUST(cudaFree(at));
		times[i] = bench_now() - begin;
		BENCH_MUST(cudaMalloc(&next, size));
		BENCH_MUST(cudaFree(next));
		waited += cudaStreamQuery(stream) != cudaErrorNotReady;
		BENCH_MUST(cudaStreamSynchronize(stream));
	}
	BENCH_MUST(cudaStreamDestroy(stream));
	printf("ok %.3f %llu\n", bench_median(times, rounds), (unsigned long long)waited);
}

/* Nanoseconds of a launch, measured by the program. */
void bench_launch(char **words)
{
	static double times[BATCHES_MAX];
	double end = bench_now() + (double)bench_number(words[1]);
	size_t n = 0;
	cudaStream_t stream;
	BENCH_MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	bench_kernel_empty(stream);
	while (n < BATCHES_MIN || (n < BATCHES_MAX && bench_now() < end)) {
		BENCH_MUST(cudaStreamSynchronize(stream));
		double begin = bench_now();
		for (int i = 0; i < BATCH; i++)
			bench_kernel_empty(stream);
		times[n++] = (bench_now() - begin) * 1e3 / BATCH;
	}
	BENCH_MUST(cudaStreamSynchronize(stream));
	BENCH_MUST(cudaStreamDestroy(stream));
	printf("ok %.2f\n", bench_median(times, n));
}
