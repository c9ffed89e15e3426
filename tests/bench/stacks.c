/* SPDX-License-Identifier: BSD-3-Clause */
/* A warm pair of cuMemAlloc and cuMemFree below a number of calls: "stacks DEPTH" prints its time,
 * the least mean of many short runs, in ns. */
#include <cuda.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PAIRS = 1000, RUNS = 60 };

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double pairs_time(void)
{
	double least = 1e18;
	for (int run = 0; run < RUNS; run++) {
		double begin = now();
		for (int i = 0; i < PAIRS; i++) {
			CUdeviceptr block;
			if (cuMemAlloc(&block, 1 << 20) || cuMemFree(block))
				exit(1);
		}
		double mean = (now() - begin) / PAIRS;
		least = mean < least ? mean : least;
	}
	return least;
}

static __attribute__((noinline)) double below(int calls)
{
	double result = calls > 0 ? below(calls - 1) : pairs_time();
	__asm__ volatile("" ::: "memory"); /* no jump instead of the call */
	return result;
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUdevice device;
	if (cuInit(0) || cuDeviceGet(&device, 0) || cuDevicePrimaryCtxRetain(&context, device) ||
	    cuCtxSetCurrent(context))
		return 1;
	printf("%.0f\n", below(argc > 1 ? atoi(argv[1]) : 0));
	return 0;
}
