/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For the programs that load inkernel_module.cu in its many forms: a context, files, and
 * memory that kernels of one module allocate and kernels of another one free.
 */
#ifndef GM_TESTS_GPU_INKERNEL_LOAD_H
#define GM_TESTS_GPU_INKERNEL_LOAD_H

#include "gpu.h"

#include <cstring>
#include <string>

static std::string folder;
static const unsigned N = 100000;

/* Returns a file of the folder, with a NUL at the end. */
static std::vector<char> contents(const std::string &name)
{
	std::vector<char> all;
	FILE *file = fopen((folder + "/" + name).c_str(), "rb");
	if (!file) {
		printf("no %s\n", name.c_str());
		exit(1);
	}
	for (int c; (c = getc(file)) != EOF;)
		all.push_back((char)c);
	fclose(file);
	all.push_back('\0');
	return all;
}

static CUfunction kernel(CUmodule module, const char *name)
{
	CUfunction function;
	MUST(cuModuleGetFunction(&function, module, name));
	return function;
}

/* Kernels of `to` free the blocks that kernels of `from` allocate. */
[[maybe_unused]] static void exchange(const std::string &what, CUmodule from, CUmodule to)
{
	CUdeviceptr slots, wrong;
	unsigned n = N, bad = 0;
	MUST(cuMemAlloc(&slots, N * sizeof(void *)));
	MUST(cuMemAlloc(&wrong, sizeof bad));
	MUST(cuMemsetD8(wrong, 0, sizeof bad));
	void *give[] = {&slots, &n}, *take[] = {&slots, &n, &wrong};
	MUST(cuLaunchKernel(kernel(from, "give"), (N + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, give,
			    NULL));
	MUST(cuLaunchKernel(kernel(to, "take"), (N + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, take,
			    NULL));
	MUST(cuCtxSynchronize());
	MUST(cuMemcpyDtoH(&bad, wrong, sizeof bad));
	MUST(cuMemFree(slots));
	MUST(cuMemFree(wrong));
	printf("%-50s %u wrong\n", what.c_str(), bad);
}

[[maybe_unused]] static CUmodule from_data(const char *name)
{
	CUmodule module;
	MUST(cuModuleLoadData(&module, contents(name).data()));
	return module;
}

/* Create the primary context of a device, and make it current. */
[[maybe_unused]] static CUcontext start(int device = 0)
{
	CUcontext context;
	MUST(cuDevicePrimaryCtxRetain(&context, device));
	MUST(cuCtxSetCurrent(context));
	MUST(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 256 << 20));
	return context;
}

/* Create a new context, and make it current. */
[[maybe_unused]] static CUcontext another(int device)
{
	CUcontext context;
#if CUDA_VERSION >= 13000
	CUctxCreateParams parameters = {};
	MUST(cuCtxCreate(&context, &parameters, 0, device));
#else
	MUST(cuCtxCreate(&context, 0, device));
#endif
	MUST(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 256 << 20));
	return context;
}

#endif
