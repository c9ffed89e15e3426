/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels of modules that are unloaded at once leak, each call on a line of its own: see
 * sites_tree.cu. The modules are cubins beside the program, of this file with PART 0 and 1. They
 * are loaded in turn, at the same addresses, so a place that is looked up later is one of the
 * other. Their calls are at different addresses: those at one address are one place.
 */
#include "gpu.h"

#include <cuda.h>

#include <string>

#if !PART
extern "C" __global__ void leak0(void **out)
{
#pragma unroll
	for (int i = 0; i < 40; i++)
		asm volatile("nanosleep.u32 0;");    // moves the call
	out[threadIdx.x] = malloc(48 + threadIdx.x); // sites: blocks=640 mallocs=640
}

#else
extern "C" __global__ void leak1(void **out)
{
	void *whole = malloc(1000);    // sites: blocks=0 mallocs=640
	out[threadIdx.x] = malloc(80); // sites: blocks=640 mallocs=640
	free(whole);
}
#endif

static void must(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "%s: error %d\n", what, result);
	exit(1);
}

int main(int, char **argv)
{
	enum { ROUNDS = 20, THREADS = 64 };
	void **out;
	MUST(cudaMalloc(&out, THREADS * sizeof *out));
	for (int i = 0; i < ROUNDS; i++) {
		CUmodule module;
		CUfunction kernel;
		void *arguments[] = {&out};
		const std::string part = std::to_string(i % 2), file = argv[0] + part + ".cubin";
		must(cuModuleLoad(&module, file.c_str()), "cuModuleLoad");
		must(cuModuleGetFunction(&kernel, module, ("leak" + part).c_str()),
		     "cuModuleGetFunction");
		must(cuLaunchKernel(kernel, 1, 1, 1, THREADS, 1, 1, 0, NULL, arguments, NULL),
		     "cuLaunchKernel");
		must(cuModuleUnload(module), "cuModuleUnload");
	}
	MUST(cudaFree(out));
	MUST(cudaDeviceReset());
	printf("%d modules\n", ROUNDS);
	return 0;
}
