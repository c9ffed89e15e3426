/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A few exports of a driver, in variants that the simulated driver lacks:
 *   SHARED   cuMemFree (not hooked) and cuMemFree_v2 have one address, as have two hooked calls
 *   LOADER   finds the real driver beside it by dlsym, as WSL's does
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

/* A look-up of the driver's own, as in libasker.c. */
void *ask(void *handle, const char *name);
void *ask(void *handle, const char *name)
{
	void *volatile answer = dlsym(handle, name);
	return answer;
}

#ifdef LOADER
static void *proper(const char *symbol)
{
	static void *handle;
	if (!handle)
		handle = dlopen("libcuda.so.1.1", RTLD_NOW | RTLD_LOCAL);
	return dlsym(handle, symbol);
}

/* Runs before the program's first look-up. */
__attribute__((constructor)) static void find(void)
{
	proper("cuInit");
}

CUresult cuInit(unsigned flags)
{
	return ((CUresult(*)(unsigned))proper("cuInit"))(flags);
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size)
{
	return ((CUresult(*)(CUdeviceptr *, size_t))proper("cuMemAlloc_v2"))(address, size);
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
	return ((CUresult(*)(CUdeviceptr))proper("cuMemFree_v2"))(address);
}
#else
CUresult cuInit(unsigned flags)
{
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size)
{
	*address = 4096;
	return size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
	return address == 4096 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
#endif

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	*context = (CUcontext)context;
	return device ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	return context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetProcAddress_v2(const char *symbol, void **entry, int version, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *status)
{
	(void)version, (void)flags;
	*entry = strcmp(symbol, "cuMemFree") == 0    ? (void *)cuMemFree_v2
		 : strcmp(symbol, "cuMemAlloc") == 0 ? (void *)cuMemAlloc_v2
		 : strcmp(symbol, "cuBefore") == 0   ? (void *)((uintptr_t)cuMemAlloc_v2 - 1)
						     : NULL;
	if (status)
		*status =
			*entry ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return *entry ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

#ifdef SHARED
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	return to && from && size ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

__asm__(".globl cuMemFree, cuMemcpy_ptds\n"
	".set cuMemFree, cuMemFree_v2\n"
	".set cuMemcpy_ptds, cuMemcpy\n");
#endif
