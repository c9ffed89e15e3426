/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels of modules that are unloaded at once leak, each call on a line of its own: see
 * sites_tree.cu. The module is this file as a cubin, beside the program.
 */
#include "gpu.h"

#include <cuda.h>

#include <string>

extern "C" __global__ void leak(void **out)
{
	out[threadIdx.x] = malloc(48 + threadIdx.x); // sites: blocks=640 mallocs=640
}

extern "C" __global__ void leak_and_free(void **out)
{
	void *whole = malloc(1000);    // sites: blocks=0 mallocs=640
	out[threadIdx.x] = malloc(80); // sites: blocks=640 mallocs=640
	free(whole);
}

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
	static const char *const names[] = {"leak", "leak_and_free"};
	const std::string name = std::string(argv[0]) + ".cubin";
	void **out;
	MUST(cudaMalloc(&out, THREADS * sizeof *out));
	for (int i = 0; i < ROUNDS; i++) {
		CUmodule module;
		CUfunction kernel;
		void *arguments[] = {&out};
		must(cuModuleLoad(&module, name.c_str()), "cuModuleLoad");
		must(cuModuleGetFunction(&kernel, module, names[i % 2]), "cuModuleGetFunction");
		must(cuLaunchKernel(kernel, 1, 1, 1, THREADS, 1, 1, 0, NULL, arguments, NULL),
		     "cuLaunchKernel");
		must(cuModuleUnload(module), "cuModuleUnload");
	}
	MUST(cudaFree(out));
	MUST(cudaDeviceReset());
	printf("%d modules\n", ROUNDS);
	return 0;
}
