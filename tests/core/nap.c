/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program linked with libgpumem-core that puts itself to sleep, and wakes itself, on the
 * simulated driver. Prints results. Usage: nap CASE
 */
#include "../preload/cases.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/gpumem.h"
#include "holds.h"

#define BIG (64 * MIB)

static void *at(CUdeviceptr address)
{
	return (void *)address;
}

static CUdeviceptr take(size_t size)
{
	return (CUdeviceptr)gpumem_cupy_malloc(NULL, size, 0);
}

static void yes(const char *what, bool is)
{
	printf("%s: %s\n", what, is ? "yes" : "no");
}

/* Device memory is host memory here, and is unmapped while the process sleeps. */
static bool is_there(CUdeviceptr block)
{
	int ends[2];
	if (pipe(ends) != 0)
		exit(1);
	bool readable = write(ends[1], at(block), 1) == 1;
	close(ends[0]);
	close(ends[1]);
	return readable;
}

static void nap(void)
{
	CUdeviceptr a = take(BIG);
	MUST(cuMemsetD8(a, 0x33, BIG));
	printf("sleep: %d\n", gpumem_sleep());
	printf("sleep: %d\n", gpumem_sleep());
	yes("it sleeps", !is_there(a));
	printf("wake: %d\n", gpumem_wake());
	printf("wake: %d\n", gpumem_wake());
	yes("it is awake", is_there(a));
	printf("sleep: %d\n", gpumem_sleep());
	yes("it sleeps", !is_there(a));
	yes("all bytes are there", holds(a, 0x33));
	gpumem_cupy_free(NULL, at(a), 0);
}

static void alone(void)
{
	printf("sleep: %d, wake: %d\n", gpumem_sleep(), gpumem_wake());
}

static void in_capture(void)
{
	CUstream s;
	CUgraph graph;
	CUdeviceptr a = take(BIG);
	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
	printf("sleep: %d\n", gpumem_sleep());
	yes("it sleeps", !is_there(a));
	MUST(cuStreamEndCapture(s, &graph));
	MUST(cuGraphDestroy(graph));
	printf("sleep: %d\n", gpumem_sleep());
	yes("it sleeps", !is_there(a));
	gpumem_cupy_free(NULL, at(a), 0);
}

static void in_child(void)
{
	int status = -1;
	gpumem_trim(); /* the first call finds the preload */
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		alone();
		fflush(stdout);
		_exit(0); /* a check for leaks may wait for locks of the parent's threads */
	}
	waitpid(child, &status, 0);
	printf("child: status %d\n", status);
}

static void *napper(void *unused)
{
	size_t refused = 0;
	(void)unused;
	for (int i = 0; i < 200; i++)
		refused += (i % 3 ? gpumem_sleep() : gpumem_wake()) != 0;
	return (void *)refused;
}

/* Threads put the process to sleep and wake it, while others submit work. */
static void threads(void)
{
	pthread_t all[4];
	CUdeviceptr a = take(MIB);
	size_t refused = 0, wrong = 0;
	for (int i = 0; i < 4; i++)
		pthread_create(&all[i], NULL, napper, NULL);
	for (unsigned i = 0; i < 300; i++) {
		MUST(cuMemsetD8(a, (unsigned char)i, MIB));
		wrong += !holds(a, (unsigned char)i);
	}
	for (int i = 0; i < 4; i++) {
		void *n;
		pthread_join(all[i], &n);
		refused += (size_t)n;
	}
	printf("%zu refused, %zu wrong\n", refused, wrong);
	gpumem_cupy_free(NULL, at(a), 0);
}

int main(int argc, char **argv)
{
	static const struct program_case cases[] = {
		{"nap", nap},		{"alone", alone},     {"in_capture", in_capture},
		{"in_child", in_child}, {"threads", threads},
	};
	return case_run(cases, sizeof cases / sizeof *cases, argc, argv);
}
