/* SPDX-License-Identifier: BSD-3-Clause */
/* Pairs of allocate and free, by one thread and by many; the first allocation of a process. */
#include "client.h"

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#define WARM_PAIRS 3
#define SAMPLES_MIN 5
#define SAMPLES_MAX 8192
#define BATCH_MAX 64
#define BATCH_US 20.0 /* minimum of a batch of pairs: the clock's own time is negligible */
#define THREADS_MAX 64
#define NEIGHBOURS_BELOW ((size_t)1 << 20)
#define MIXED 8 /* number of sizes in a mixed run: SIZE, 2 SIZE, 4 SIZE ... */

/* One pair on a stream; plain calls ignore the stream. */
typedef void pair_fn(size_t size, cudaStream_t stream);

static void plain(size_t size, cudaStream_t stream)
{
	void *at;
	(void)stream;
	BENCH_MUST(cudaMalloc(&at, size));
	BENCH_MUST(cudaFree(at));
}

static void ordered(size_t size, cudaStream_t stream)
{
	void *at;
	BENCH_MUST(cudaMallocAsync(&at, size, stream));
	BENCH_MUST(cudaFreeAsync(at, stream));
}

/* The pool of the stream-ordered calls keeps all its memory. */
static void keep_all(void)
{
	CUmemoryPool pool;
	cuuint64_t all = UINT64_MAX;
	BENCH_MUST(cuDeviceGetDefaultMemPool(&pool, 0));
	BENCH_MUST(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
}

static pair_fn *pair_of(const char *word)
{
	if (strcmp(word, "ordered") != 0)
		return plain;
	keep_all();
	return ordered;
}

static cudaStream_t own_stream(void)
{
	cudaStream_t stream;
	BENCH_MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	return stream;
}

/*
 * Natively the free of the last small block also frees its 2 MiB, and the next allocation maps them
 * again. A program with other live blocks, as most have, does not pay for that; so a neighbour
 * stays alive. Larger blocks always pay.
 */
static void *neighbour(size_t size)
{
	void *at = NULL;
	if (size < NEIGHBOURS_BELOW)
		BENCH_MUST(cudaMalloc(&at, size));
	return at;
}

static double time_pairs(pair_fn *pair, size_t size, cudaStream_t stream, unsigned n)
{
	double begin = bench_now();
	for (unsigned i = 0; i < n; i++)
		pair(size, stream);
	return (bench_now() - begin) / n;
}

/* The median time of a pair on an idle device. `time` bounds the measurement. */
void bench_pair(char **words)
{
	static double samples[SAMPLES_MAX];
	pair_fn *pair = pair_of(words[1]);
	size_t size = bench_number(words[2]), n = 0;
	double time = (double)bench_number(words[3]);
	cudaStream_t stream = own_stream();
	void *other = neighbour(size);
	time_pairs(pair, size, stream, WARM_PAIRS);
	double one = time_pairs(pair, size, stream, WARM_PAIRS);
	unsigned batch = one * BATCH_MAX < BATCH_US ? BATCH_MAX
			 : one < BATCH_US	    ? (unsigned)(BATCH_US / one)
						    : 1;
	double end = bench_now() + time;
	while (n < SAMPLES_MIN || (n < SAMPLES_MAX && bench_now() < end)) {
		BENCH_MUST(cudaStreamSynchronize(stream));
		samples[n++] = time_pairs(pair, size, stream, batch);
	}
	BENCH_MUST(cudaStreamSynchronize(stream));
	BENCH_MUST(cudaStreamDestroy(stream));
	BENCH_MUST(cudaFree(other));
	printf("ok %.4f\n", bench_median(samples, n));
}

void bench_first(char **words)
{
	void *at;
	size_t size = bench_number(words[1]);
	double begin = bench_now();
	BENCH_MUST(cudaMalloc(&at, size));
	printf("ok %.3f\n", bench_now() - begin);
}

struct crew {
	pair_fn *pair;
	pthread_barrier_t begin;
	atomic_bool count, stop;
};

struct worker {
	struct crew *crew;
	size_t size;
	double rate; /* pairs a microsecond */
};

static void *work(void *arg)
{
	struct worker *worker = arg;
	struct crew *crew = worker->crew;
	uint64_t pairs = 0;
	BENCH_MUST(cudaSetDevice(0));
	cudaStream_t stream = own_stream();
	void *other = neighbour(worker->size);
	time_pairs(crew->pair, worker->size, stream, WARM_PAIRS);
	BENCH_MUST(cudaStreamSynchronize(stream));
	pthread_barrier_wait(&crew->begin);
	while (!atomic_load_explicit(&crew->count, memory_order_relaxed))
		crew->pair(worker->size, stream);
	double begin = bench_now();
	do {
		crew->pair(worker->size, stream);
		pairs++;
	} while (!atomic_load_explicit(&crew->stop, memory_order_relaxed));
	worker->rate = (double)pairs / (bench_now() - begin);
	BENCH_MUST(cudaStreamSynchronize(stream));
	BENCH_MUST(cudaStreamDestroy(stream));
	BENCH_MUST(cudaFree(other));
	return NULL;
}

static void sleep_us(uint64_t time)
{
	struct timespec t = {(time_t)(time / 1000000), (long)(time % 1000000) * 1000};
	nanosleep(&t, NULL);
}

/* Pairs a second of all threads together. Before, all threads make pairs for twice the time: only
 * then has the pool the memory that all threads need at once. */
void bench_threads(char **words)
{
	static struct worker workers[THREADS_MAX];
	static struct crew crew;
	pthread_t threads[THREADS_MAX];
	uint64_t n = bench_number(words[2]), time = bench_number(words[5]);
	size_t size = bench_number(words[3]);
	bool mixed = strcmp(words[4], "mixed") == 0;
	double rate = 0;
	BENCH_MUST(n == 0 || n > THREADS_MAX);
	crew.pair = pair_of(words[1]);
	atomic_store(&crew.count, false);
	atomic_store(&crew.stop, false);
	BENCH_MUST(pthread_barrier_init(&crew.begin, NULL, (unsigned)n + 1));
	for (uint64_t i = 0; i < n; i++) {
		workers[i] = (struct worker){&crew, mixed ? size << i % MIXED : size, 0};
		BENCH_MUST(pthread_create(&threads[i], NULL, work, &workers[i]));
	}
	pthread_barrier_wait(&crew.begin);
	sleep_us(2 * time);
	atomic_store(&crew.count, true);
	sleep_us(time);
	atomic_store(&crew.stop, true);
	for (uint64_t i = 0; i < n; i++) {
		BENCH_MUST(pthread_join(threads[i], NULL));
		rate += workers[i].rate;
	}
	BENCH_MUST(pthread_barrier_destroy(&crew.begin));
	printf("ok %.1f\n", rate * 1e6);
}
