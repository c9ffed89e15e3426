/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of a small copy between host and device, beside the driver's part: small COPIES. With
 * the driver of warm_driver.c, whose copies do nothing. Prints nanoseconds of a call for each form
 * and size, the median of ROUNDS runs.
 */
#include <cuda.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 15
#define ROOM ((size_t)1 << 20)

static CUdeviceptr device;
static char host[ROOM];

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

static CUresult to_device(size_t n)
{
	return cuMemcpyHtoD(device, host, n);
}

static CUresult from_device(size_t n)
{
	return cuMemcpyDtoH(host, device, n);
}

static CUresult to_device_async(size_t n)
{
	return cuMemcpyHtoDAsync(device, host, n, NULL);
}

static CUresult from_device_async(size_t n)
{
	return cuMemcpyDtoHAsync(host, device, n, NULL);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(CUresult (*copy)(size_t n), size_t n, unsigned long copies)
{
	double times[ROUNDS];
	for (unsigned round = 0; round < ROUNDS; round++) {
		double begin = now_ns();
		for (unsigned long i = 0; i < copies; i++)
			must(copy(n), "a copy");
		times[round] = (now_ns() - begin) / (double)copies;
	}
	qsort(times, ROUNDS, sizeof *times, by_value);
	return times[ROUNDS / 2];
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		CUresult (*copy)(size_t n);
	} forms[] = {{"to the device", to_device},
		     {"from the device", from_device},
		     {"to the device, async", to_device_async},
		     {"from the device, async", from_device_async}};
	static const size_t sizes[] = {1, 4096, 65536, ROOM};
	unsigned long copies = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
	CUcontext context;
	CUdevice gpu;
	if (!copies) {
		fprintf(stderr, "usage: small COPIES\n");
		return 2;
	}
	must(cuInit(0), "cuInit");
	must(cuDeviceGet(&gpu, 0), "cuDeviceGet");
	must(cuDevicePrimaryCtxRetain(&context, gpu), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	must(cuMemAlloc(&device, ROOM), "cuMemAlloc");
	for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
		for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
			printf("%-23s %8zu bytes: %6.1f ns\n", forms[f].name, sizes[s],
			       median(forms[f].copy, sizes[s], copies));
	return 0;
}
