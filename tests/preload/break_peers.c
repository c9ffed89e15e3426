/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Access of other devices to the memory of device 0, while contexts enable and disable peer access.
 * Natively cuCtxEnablePeerAccess covers all present and future memory of a device. For mapped
 * memory the program opens each block to named devices. Needs three devices.
 */
#include "program.h"
#include "steer.h"

#define BLOCKS 6

/* Declared here: cuda.h hides this call, and every driver has it. */
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);

static CUcontext context[3];
static CUdeviceptr block[BLOCKS];
static size_t size[BLOCKS];
static int blocks;

static void allocate_one(size_t bytes)
{
	size[blocks] = bytes;
	MUST(cuMemAlloc(&block[blocks++], bytes));
}

/* A small block, and a block with chunks of its own. */
static void allocate(void)
{
	MUST(cuCtxSetCurrent(context[0]));
	allocate_one(1000);
	allocate_one(50 * MIB);
}

static bool reaches(int device, CUdeviceptr p)
{
	CUmemLocation where = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
	unsigned long long flags = 0;
	/* Ask the driver directly: for the program a block is no mapping, and the call fails. */
	CUresult (*ask)(unsigned long long *, const CUmemLocation *, CUdeviceptr) =
		gm_sim_symbol(NULL, "cuMemGetAccess");
	MUST(ask(&flags, &where, p));
	return flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

static void show(const char *when)
{
	printf("%s:", when);
	for (int device = 0; device < 3; device++) {
		printf(" ");
		for (int i = 0; i < blocks; i++)
			printf("%d", reaches(device, block[i]) &&
					     reaches(device, block[i] + size[i] - 1));
	}
	printf("\n");
}

int main(void)
{
	CUcontext second;
	CUdeviceptr other;
	CUdevice device;
	MUST(cuInit(0));
	for (int i = 0; i < 3; i++)
		context[i] = use_device(i);
	MUST(cuDeviceGet(&device, 1));
	MUST(cuCtxSetCurrent(context[0]));
	SAY(cuCtxEnablePeerAccess(context[2], 0));
	MUST(cuCtxSetCurrent(context[2]));
	MUST(cuMemAlloc(&other, 1000));
	printf("enabled before the first allocation: %d %d %d\n", reaches(0, other),
	       reaches(1, other), reaches(2, other));
	allocate();
	show("at first");
	MUST(cuCtxSetCurrent(context[1]));
	SAY(cuCtxEnablePeerAccess(context[0], 0));
	show("enabled after the allocation");
	allocate();
	show("and what came later");
	MUST(cuCtxSetCurrent(context[1]));
	MUST(cuMemAlloc(&other, 1000));
	printf("not the other way: %d\n", reaches(0, other));
	MUST(cuCtxSetCurrent(context[0]));
	SAY(cuCtxEnablePeerAccess(context[1], 0));
	printf("now: %d\n", reaches(0, other));
	MUST(cuCtxSetCurrent(context[1]));
	SAY(cuCtxEnablePeerAccess(context[0], 0));
	MUST(cuCtxCreate_v2(&second, 0, device));
	SAY(cuCtxEnablePeerAccess(context[0], 0));
	MUST(cuCtxSetCurrent(context[1]));
	SAY(cuCtxDisablePeerAccess(context[0]));
	show("another context of the device has access still");
	SAY(cuCtxDisablePeerAccess(context[0]));
	MUST(cuCtxSetCurrent(second));
	SAY(cuCtxDisablePeerAccess(context[0]));
	show("none has");
	allocate();
	show("nor to what came later");
	MUST(cuCtxSetCurrent(context[2]));
	gm_sim_fail("cuMemSetAccess", 2, CUDA_ERROR_OUT_OF_MEMORY);
	SAY(cuCtxEnablePeerAccess(context[0], 0));
	gm_sim_fail("cuMemSetAccess", 0, CUDA_SUCCESS);
	show("the driver could not open all blocks");
	SAY(cuCtxEnablePeerAccess(context[0], 0));
	show("the third device");
	MUST(cuCtxDestroy(second));
	return 0;
}
