/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of a context ends with the context, in every way that a context can end. */
#include "program.h"

/* Declared here: cuda.h hides this call, and every driver has it. */
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);

static size_t available(void)
{
	size_t have, total;
	MUST(cuMemGetInfo(&have, &total));
	return have;
}

/* Fill a context with blocks of many sizes and kinds; returns the last one. */
static CUdeviceptr fill(void)
{
	CUdeviceptr p = 0;
	for (size_t size = 100; size < 40 * MIB; size *= 7)
		MUST(cuMemAlloc(&p, size));
	return p;
}

static CUcontext make(CUdevice device)
{
	CUcontext context;
	MUST(cuCtxCreate_v2(&context, 0, device));
	return context;
}

static void destroyed(void)
{
	CUdevice device;
	MUST(cuDeviceGet(&device, 0));
	CUcontext first = use_device(0);
	size_t before = available();
	for (int round = 0; round < 5; round++) {
		CUcontext second = make(device);
		CUdeviceptr p = fill();
		printf("memory is taken: %d\n", available() < before);
		SAY(cuCtxDestroy(second));
		MUST(cuCtxSetCurrent(first));
		printf("and back with its context: %d\n", available() == before);
		SAY(cuMemFree(p));
		SAY(cuMemsetD8(p, 0, 100));
	}
	MUST(cuDevicePrimaryCtxRelease(device));
}

static void kept_by_another(void)
{
	CUdevice device;
	CUdeviceptr p, base;
	size_t size;
	char byte = 1;
	MUST(cuDeviceGet(&device, 0));
	CUcontext first = use_device(0);
	MUST(cuMemAlloc(&p, 1000));
	MUST(cuMemsetD8(p, 42, 1000));
	CUcontext second = make(device);
	fill();
	MUST(cuCtxDestroy(second));
	MUST(cuCtxSetCurrent(first));
	SAY(cuMemcpyDtoH(&byte, p + 999, 1));
	SAY(cuMemGetAddressRange(&base, &size, p));
	printf("another context's block is as it was: %d, %zu\n", byte, size);
	SAY(cuMemFree(p));
	MUST(cuDevicePrimaryCtxRelease(device));
}

static void reset(void)
{
	CUdevice device;
	MUST(cuDeviceGet(&device, 0));
	use_device(0);
	size_t before = available();
	for (int round = 0; round < 3; round++) {
		CUdeviceptr p = fill(), q;
		SAY(cuDevicePrimaryCtxReset(device));
		CUcontext again = use_device(0);
		printf("memory is back: %d\n", available() == before);
		SAY(cuMemFree(p));
		MUST(cuMemAlloc(&q, 1000));
		SAY(cuMemsetD8(q, 1, 1000));
		CUcontext owner = NULL;
		MUST(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, q));
		printf("a new block has the new context: %d\n", owner == again);
		SAY(cuMemFree(q));
	}
	SAY(cuDevicePrimaryCtxReset(device));
}

static void released(void)
{
	CUdevice device;
	char byte;
	MUST(cuDeviceGet(&device, 0));
	use_device(0);
	use_device(0);
	CUdeviceptr p = fill();
	SAY(cuDevicePrimaryCtxRelease(device));
	SAY(cuMemcpyDtoH(&byte, p, 1));
	SAY(cuDevicePrimaryCtxRelease(device));
	use_device(0);
	SAY(cuMemcpyDtoH(&byte, p, 1));
	SAY(cuMemFree(p));
	MUST(cuDevicePrimaryCtxRelease(device));
}

static void without_context(void)
{
	CUdeviceptr p = 5;
	MUST(cuCtxSetCurrent(NULL));
	SAY(cuMemAlloc(&p, 1000));
	printf("nothing was written: %d\n", p == 5);
}

int main(void)
{
	MUST(cuInit(0));
	destroyed();
	kept_by_another();
	reset();
	released();
	without_context();
	return 0;
}
