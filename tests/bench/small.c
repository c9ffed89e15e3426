/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The added cost of a small copy between host and device, compared with the driver's own function:
 * by turns in one process. small COPIES [SIZE]... Prints for each form and size the medians of
 * PAIRS pairs of runs: nanoseconds of a call through the program's function and of the driver's
 * own, and of their difference. On a GPU too; the driver of warm_driver.c copies nothing.
 */
#include <cuda.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "own.h"

#define PAIRS 15
#define ROOM ((size_t)1 << 20)

typedef CUresult (*to_t)(CUdeviceptr, const void *, size_t);
typedef CUresult (*from_t)(void *, CUdeviceptr, size_t);
typedef CUresult (*to_async_t)(CUdeviceptr, const void *, size_t, CUstream);
typedef CUresult (*from_async_t)(void *, CUdeviceptr, size_t, CUstream);

static CUdeviceptr device;
static char host[ROOM];
static to_t to[2]; /* the program's function, the driver's own */
static from_t from[2];
static to_async_t to_async[2];
static from_async_t from_async[2];

static void must(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "small: %s: error %d\n", what, (int)result);
	exit(1);
}

static double now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* --- forms --- */

static CUresult copy_to(unsigned own, size_t n)
{
	return to[own](device, host, n);
}

static CUresult copy_from(unsigned own, size_t n)
{
	return from[own](host, device, n);
}

static CUresult copy_to_async(unsigned own, size_t n)
{
	return to_async[own](device, host, n, NULL);
}

static CUresult copy_from_async(unsigned own, size_t n)
{
	return from_async[own](host, device, n, NULL);
}

static void forms_find(void)
{
	to[0] = cuMemcpyHtoD;
	from[0] = cuMemcpyDtoH;
	to_async[0] = cuMemcpyHtoDAsync;
	from_async[0] = cuMemcpyDtoHAsync;
	to[1] = (to_t)own_find("cuMemcpyHtoD_v2");
	from[1] = (from_t)own_find("cuMemcpyDtoH_v2");
	to_async[1] = (to_async_t)own_find("cuMemcpyHtoDAsync_v2");
	from_async[1] = (from_async_t)own_find("cuMemcpyDtoHAsync_v2");
	if (!to[1] || !from[1] || !to_async[1] || !from_async[1]) {
		fprintf(stderr, "small: the driver's own functions are not found\n");
		exit(1);
	}
}

/* --- pairs --- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, PAIRS, sizeof *values, by_value);
	return values[PAIRS / 2];
}

static double run(CUresult (*copy)(unsigned own, size_t n), unsigned own, size_t n,
		  unsigned long copies)
{
	double begin = now_ns();
	for (unsigned long i = 0; i < copies; i++)
		must(copy(own, n), "a copy");
	double took = now_ns() - begin;
	must(cuStreamSynchronize(NULL), "cuStreamSynchronize");
	return took / (double)copies;
}

static void compare(const char *name, CUresult (*copy)(unsigned own, size_t n), size_t n,
		    unsigned long copies)
{
	double of[2][PAIRS], more[PAIRS];
	run(copy, 0, n, copies);
	for (unsigned i = 0; i < PAIRS; i++) {
		unsigned first = i % 2;
		of[first][i] = run(copy, first, n, copies);
		of[!first][i] = run(copy, !first, n, copies);
		more[i] = of[0][i] - of[1][i];
	}
	printf("%-23s %8zu bytes: %8.1f ns, %8.1f the driver's own, %6.1f more\n", name, n,
	       median(of[0]), median(of[1]), median(more));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		CUresult (*copy)(unsigned own, size_t n);
	} forms[] = {{"to the device", copy_to},
		     {"from the device", copy_from},
		     {"to the device, async", copy_to_async},
		     {"from the device, async", copy_from_async}};
	unsigned long copies = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
	CUcontext context;
	CUdevice gpu;
	if (!copies) {
		fprintf(stderr, "usage: small COPIES SIZE...\n");
		return 2;
	}
	must(cuInit(0), "cuInit");
	must(cuDeviceGet(&gpu, 0), "cuDeviceGet");
	must(cuDevicePrimaryCtxRetain(&context, gpu), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	must(cuMemAlloc(&device, ROOM), "cuMemAlloc");
	forms_find();
	for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
		for (int i = 2; i < argc; i++) {
			size_t n = strtoul(argv[i], NULL, 10);
			compare(forms[f].name, forms[f].copy, n < ROOM ? n : ROOM, copies);
		}
	return 0;
}
