/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of a pair of cuMemAlloc and cuMemFree when the pool already has the memory.
 *
 *     warm PAIRS SIZE THREADS...
 *
 * For each number of threads: all threads at once make PAIRS pairs each, thread k with (SIZE << k %
 * 4) bytes. The threads are pinned to the process's processors in turn. Prints a line for each
 * number: threads, processors, nanoseconds of a pair in its thread, and the pairs a second as a
 * multiple of the first line's. Values are the median of ROUNDS runs, after one warm-up run.
 */
#include <cuda.h>

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 9
#define THREADS_MAX 256

static CUcontext context;
static size_t size;
static unsigned long pairs;
static pthread_barrier_t together;
static int processors[CPU_SETSIZE], n_processors;

static void must(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "warm: %s: error %d\n", what, (int)result);
	exit(1);
}

static double now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void find_processors(void)
{
	cpu_set_t set;
	if (sched_getaffinity(0, sizeof set, &set)) {
		perror("warm: sched_getaffinity");
		exit(1);
	}
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &set))
			processors[n_processors++] = i;
}

static void pin(unsigned k)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(processors[k % (unsigned)n_processors], &set);
	sched_setaffinity(0, sizeof set, &set);
}

static void make_pairs(size_t bytes, unsigned long n)
{
	CUdeviceptr p;
	for (unsigned long i = 0; i < n; i++) {
		must(cuMemAlloc(&p, bytes), "cuMemAlloc");
		must(cuMemFree(p), "cuMemFree");
	}
}

struct job {
	unsigned k;
	pthread_t thread;
	double begin, end;
};

static void *work(void *arg)
{
	struct job *job = arg;
	size_t bytes = size << job->k % 4;
	pin(job->k);
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	make_pairs(bytes, 10);
	pthread_barrier_wait(&together);
	job->begin = now_ns();
	make_pairs(bytes, pairs);
	job->end = now_ns();
	return NULL;
}

/* Nanoseconds from the first thread's begin to the last thread's end. */
static double run(unsigned n)
{
	static struct job jobs[THREADS_MAX];
	pthread_barrier_init(&together, NULL, n);
	for (unsigned k = 0; k < n; k++) {
		jobs[k].k = k;
		if (pthread_create(&jobs[k].thread, NULL, work, &jobs[k])) {
			fprintf(stderr, "warm: no thread\n");
			exit(1);
		}
	}
	double begin = 0, end = 0;
	for (unsigned k = 0; k < n; k++) {
		pthread_join(jobs[k].thread, NULL);
		begin = !k || jobs[k].begin < begin ? jobs[k].begin : begin;
		end = jobs[k].end > end ? jobs[k].end : end;
	}
	pthread_barrier_destroy(&together);
	return end - begin;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(unsigned threads)
{
	double times[ROUNDS];
	run(threads);
	for (unsigned i = 0; i < ROUNDS; i++)
		times[i] = run(threads);
	qsort(times, ROUNDS, sizeof *times, by_value);
	return times[ROUNDS / 2] / (double)pairs;
}

int main(int argc, char **argv)
{
	CUdevice device;
	double first = 0;
	pairs = argc > 3 ? strtoul(argv[1], NULL, 10) : 0;
	size = argc > 3 ? strtoul(argv[2], NULL, 10) : 0;
	if (!pairs || !size) {
		fprintf(stderr, "usage: warm PAIRS SIZE THREADS...\n");
		return 2;
	}
	find_processors();
	must(cuInit(0), "cuInit");
	must(cuDeviceGet(&device, 0), "cuDeviceGet");
	must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
	for (int i = 3; i < argc; i++) {
		unsigned threads = (unsigned)strtoul(argv[i], NULL, 10);
		if (!threads || threads > THREADS_MAX) {
			fprintf(stderr, "warm: %s: not a number of threads\n", argv[i]);
			return 2;
		}
		double ns = median(threads), rate = threads / ns;
		first = i == 3 ? rate : first;
		printf("%3u threads on %3d processors: %8.1f ns a pair, %5.2f times the pairs\n",
		       threads, n_processors, ns, rate / first);
		fflush(stdout);
	}
	return 0;
}
