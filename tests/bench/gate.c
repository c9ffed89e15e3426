/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The added cost of a launch through the program's cuLaunchKernel, compared with the driver's own
 * function: by turns in one process, on one stream, with one kernel, because two processes differ
 * by more than this cost.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>

#include "client.h"
#include "own.h"

#define BATCH 64 /* launches in one measurement */
#define TURNS_MAX 65536
#define DRIVER "libcuda.so.1"

typedef CUresult (*launch_t)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
			     unsigned, CUstream, void **, void **);
typedef CUresult (*proc_t)(const char *, void **, int, cuuint64_t,
			   CUdriverProcAddressQueryResult *);

static launch_t launch_of(proc_t get)
{
	void *launch = NULL;
	CUdriverProcAddressQueryResult status;
	BENCH_MUST(!get);
	BENCH_MUST(get("cuLaunchKernel", &launch, 12000, CU_GET_PROC_ADDRESS_DEFAULT, &status));
	BENCH_MUST(!launch);
	return (launch_t)launch;
}

static double launches_time(launch_t launch, CUfunction kernel, CUstream stream)
{
	double begin = bench_now();
	for (int i = 0; i < BATCH; i++)
		BENCH_MUST(launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	return (bench_now() - begin) * 1e3 / BATCH;
}

static CUfunction kernel_load(void)
{
	CUmodule module;
	CUfunction kernel;
	BENCH_MUST(cuModuleLoadData(&module, bench_kernel_image()));
	BENCH_MUST(cuModuleGetFunction(&kernel, module, "nothing"));
	return kernel;
}

/* Nanoseconds of a launch: the medians through the program's function and the driver's own. */
void bench_launch_gate(char **words)
{
	static double given[TURNS_MAX], own[TURNS_MAX];
	double end = bench_now() + (double)bench_number(words[1]);
	void *driver = dlopen(DRIVER, RTLD_NOW | RTLD_NOLOAD), *get = NULL;
	size_t n = 0;
	CUstream stream;
	BENCH_MUST(!driver);
	get = own_find("cuGetProcAddress_v2");
	launch_t through = launch_of((proc_t)dlsym(driver, "cuGetProcAddress_v2"));
	launch_t direct = launch_of((proc_t)get);
	CUfunction kernel = kernel_load();
	BENCH_MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	launches_time(through, kernel, stream); /* loads the kernel */
	while (n < 2 || (n < TURNS_MAX && bench_now() < end)) {
		for (int second = 0; second < 2; second++) {
			bool is_own = (n & 1) != (unsigned)second;
			BENCH_MUST(cuStreamSynchronize(stream));
			(is_own ? own : given)[n] =
				launches_time(is_own ? direct : through, kernel, stream);
		}
		n++;
	}
	BENCH_MUST(cuStreamSynchronize(stream));
	BENCH_MUST(cuStreamDestroy(stream));
	printf("ok %.2f %.2f %d\n", bench_median(given, n), bench_median(own, n),
	       through != direct);
}
