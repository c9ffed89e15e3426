/* SPDX-License-Identifier: BSD-3-Clause */
/* Attributes of pointers: of a live block, inside it, and after it was freed. */
#include "program.h"

/* Numbers are printed as they are. An address is printed as the name of its object. */
static void one(CUpointer_attribute attribute, const char *name, CUdeviceptr p, CUdeviceptr base,
		CUcontext context)
{
	uint64_t value = 0x1111111111111111;
	CUresult result = cuPointerGetAttribute(&value, attribute, p);
	printf("%s: %s", name, result_name(result));
	if (value == base)
		printf(", its base\n");
	else if (value == p)
		printf(", the same address\n");
	else if (value == (uintptr_t)context)
		printf(", its context\n");
	else
		printf(", %#jx\n", (uintmax_t)value);
}

static void several(CUdeviceptr p, CUdeviceptr base, CUcontext owner)
{
	CUpointer_attribute which[] = {
		CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
	CUcontext context = (CUcontext)(uintptr_t)1;
	CUdeviceptr start = 2;
	size_t size = 3;
	unsigned type = 4;
	void *out[] = {&context, &start, &size, &type};
	CUresult result = cuPointerGetAttributes(4, which, out, p);
	printf("four at once: %s, context %s, start %s, size %zu, type %u\n", result_name(result),
	       context == owner ? "its own"
	       : context	? "another"
				: "none",
	       start == base ? "its base"
	       : start	     ? "another"
			     : "none",
	       size, type);
}

#define ONE(name) one(CU_POINTER_ATTRIBUTE_##name, #name, p, base, context)

static void all(const char *what, CUdeviceptr p, CUdeviceptr base, CUcontext context)
{
	printf("%s\n", what);
	ONE(CONTEXT);
	ONE(MEMORY_TYPE);
	ONE(DEVICE_POINTER);
	ONE(HOST_POINTER);
	ONE(IS_MANAGED);
	ONE(DEVICE_ORDINAL);
	ONE(RANGE_START_ADDR);
	ONE(RANGE_SIZE);
	ONE(MAPPED);
	ONE(ALLOWED_HANDLE_TYPES);
	ONE(IS_GPU_DIRECT_RDMA_CAPABLE);
	ONE(ACCESS_FLAGS);
	ONE(MEMPOOL_HANDLE);
	one((CUpointer_attribute)21, "IS_HW_DECOMPRESS_CAPABLE", p, base, context);
	several(p, base, context);
}

static unsigned long long buffer_id(CUdeviceptr p)
{
	unsigned long long id = 0;
	MUST(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
	return id;
}

static void buffer_ids(void)
{
	CUdeviceptr p, q;
	MUST(cuMemAlloc(&p, 1000));
	MUST(cuMemAlloc(&q, 1000));
	unsigned long long id = buffer_id(p);
	printf("the same within a block: %d\n", buffer_id(p + 999) == id);
	printf("another for another block: %d\n", buffer_id(q) != id);
	MUST(cuMemFree(p));
	MUST(cuMemAlloc(&p, 1000));
	printf("another after free and allocation: %d\n", buffer_id(p) != id);
	MUST(cuMemFree(p));
	MUST(cuMemFree(q));
}

static unsigned sync_memops(CUdeviceptr p)
{
	unsigned on = 0;
	SAY(cuPointerGetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
	return on;
}

static void memops(void)
{
	CUdeviceptr p;
	unsigned on = 1, off = 0;
	MUST(cuMemAlloc(&p, 1000));
	printf("at first: %u\n", sync_memops(p));
	SAY(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
	printf("set: %u\n", sync_memops(p));
	SAY(cuMemsetD8(p, 1, 1000));
	SAY(cuPointerSetAttribute(&off, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
	printf("cleared: %u\n", sync_memops(p));
	SAY(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
	SAY(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
	MUST(cuMemFree(p));
	SAY(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
	MUST(cuMemAlloc(&p, 1000));
	printf("a new block does not inherit it: %u\n", sync_memops(p));
	MUST(cuMemFree(p));
}

/* Native mappings: 2 MiB for small blocks, the size rounded up to 2 MiB for others. */
static void mapping(size_t size)
{
	CUdeviceptr p, from = 0;
	size_t length = 0;
	MUST(cuMemAlloc(&p, size));
	SAY(cuPointerGetAttribute(&from, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, p + size - 1));
	SAY(cuPointerGetAttribute(&length, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, p));
	printf("%zu bytes in a mapping of %zu, around them %d, in steps of 2 MiB %d\n", size,
	       length, from <= p && p + size <= from + length, from % (2 * MIB) == 0);
	MUST(cuMemFree(p));
}

/* Access of another device: only the access that the program enabled, not that of a copy. */
static void access(void)
{
	CUcontext owner = use_device(0);
	CUdeviceptr p, q;
	MUST(cuMemAlloc(&p, MIB));
	CUcontext reader = use_device(1);
	MUST(cuMemAlloc(&q, MIB));
	one(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, "from another device", p, 0, NULL);
	MUST(cuMemcpy(q, p, MIB));
	one(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, "after a copy", p, 0, NULL);
	SAY(cuCtxEnablePeerAccess(owner, 0));
	one(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, "enabled", p, 0, NULL);
	MUST(cuCtxSetCurrent(owner));
	one(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, "not the other way round", q, 0, NULL);
	MUST(cuCtxSetCurrent(reader));
	SAY(cuCtxDisablePeerAccess(owner));
	one(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, "disabled", p, 0, NULL);
	one(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, "its own", q, 0, NULL);
}

int main(int argc, char **argv)
{
	CUdeviceptr p;
	CUmemGenericAllocationHandle handle = 0;
	int on_host = 0;
	MUST(cuInit(0));
	if (argc > 1 && strcmp(argv[1], "access") == 0)
		return access(), 0;
	CUcontext context = use_device(0);
	MUST(cuMemAlloc(&p, 1000));
	all("a block", p, p, context);
	all("its last byte", p + 999, p, context);
	SAY(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)p));
	MUST(cuMemFree(p));
	all("freed", p, p, context);
	all("host memory", (CUdeviceptr)&on_host, 0, context);
	buffer_ids();
	memops();
	mapping(512);
	mapping(MIB - 1);
	mapping(2 * MIB);
	mapping(64 * MIB);
	mapping(65 * MIB);
	return 0;
}
