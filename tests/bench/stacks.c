/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A warm pair of cuMemAlloc and cuMemFree below a number of calls: "stacks DEPTH [PATHS [SIZE]]"
 * prints its time, the minimum of the means of many short runs, in ns. Each pair uses the next of
 * PATHS paths through calls of two functions with frames of equal length, like the operators of a
 * framework.
 */
#include <cuda.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PAIRS = 1000, RUNS = 60 };

static size_t size = 1 << 20;

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void pair(void)
{
	CUdeviceptr block;
	if (cuMemAlloc(&block, size) || cuMemFree(block))
		exit(1);
}

static void below(int calls, unsigned way);

#define BELOW(name)                                                                  \
	static __attribute__((noinline)) void name(int calls, unsigned way)          \
	{                                                                            \
		if (calls)                                                           \
			below(calls, way);                                           \
		else                                                                 \
			pair();                                                      \
		__asm__ volatile("" ::: "memory"); /* no jump instead of the call */ \
	}
BELOW(below_even)
BELOW(below_odd)

/* Paths differ at the outermost calls first. */
static inline __attribute__((always_inline)) void below(int calls, unsigned way)
{
	if (way & 1)
		below_odd(calls - 1, way >> 1);
	else
		below_even(calls - 1, way >> 1);
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUdevice device;
	const int depth = argc > 1 ? atoi(argv[1]) : 0;
	const unsigned paths = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	double least = 1e18;
	size = argc > 3 ? (size_t)atoi(argv[3]) : size;
	if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
	    cuCtxSetCurrent(context))
		return 1;
	for (int run = 0; run < RUNS; run++) {
		double begin = now();
		for (unsigned i = 0; i < PAIRS; i++)
			below_even(depth, i % paths);
		double mean = (now() - begin) / PAIRS;
		least = mean < least ? mean : least;
	}
	printf("%.0f\n", least);
	return 0;
}
