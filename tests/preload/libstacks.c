/* SPDX-License-Identifier: BSD-3-Clause */
/* A library whose function allocates, for stacks.c. */
#include <cuda.h>

CUresult library_allocate(CUdeviceptr *out, size_t size);

static __attribute__((noinline)) CUresult library_inner(CUdeviceptr *out, size_t size)
{
	CUresult result = cuMemAlloc(out, size);
	__asm__ volatile("" ::: "memory");
	return result;
}

CUresult library_allocate(CUdeviceptr *out, size_t size)
{
	CUresult result = library_inner(out, size);
	__asm__ volatile("" ::: "memory");
	return result;
}
