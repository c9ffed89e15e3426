/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queries about pointers that other libraries between programs and the driver answered wrongly:
 * with data of memory around the block, or with output that the driver leaves unwritten.
 */
#include <unistd.h>

#include "program.h"

#define UNTOUCHED 0x5a
#define LAST_ATTRIBUTE 22 /* of driver 13.4 */

static bool untouched(const unsigned char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (bytes[i] != UNTOUCHED)
			return false;
	return true;
}

/* Every attribute, and some invalid numbers: the result, and the outputs of failed calls. */
static void one_by_one(const char *what, CUdeviceptr p)
{
	unsigned char out[64];
	for (int a = 0; a <= LAST_ATTRIBUTE + 1; a++) {
		memset(out, UNTOUCHED, sizeof out);
		CUresult result = cuPointerGetAttribute(out, (CUpointer_attribute)a, p);
		printf("%s, attribute %d: %s", what, a, result_name(result));
		if (result != CUDA_SUCCESS)
			printf(", untouched %d", untouched(out, sizeof out));
		printf("\n");
	}
	SAY(cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p));
}

/* The driver writes the values that it has, and zero for the others. */
static void all_at_once(const char *what, CUdeviceptr p)
{
	CUpointer_attribute which[] = {
		CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
		CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
		(CUpointer_attribute)9999};
	uint64_t out[5];
	void *data[] = {&out[0], &out[1], &out[2], &out[3], &out[4]};
	memset(out, 0, sizeof out);
	CUresult result = cuPointerGetAttributes(4, which, data, p);
	printf("%s, four at once: %s, managed %ju, size %ju, memops %ju, of a pool %d\n", what,
	       result_name(result), (uintmax_t)out[0], (uintmax_t)out[1], (uintmax_t)out[2],
	       out[3] != 0);
	memset(out, UNTOUCHED, sizeof out);
	which[0] = which[4];
	result = cuPointerGetAttributes(4, which, data, p);
	printf("%s, one of them unknown: %s, untouched %d\n", what, result_name(result),
	       untouched((unsigned char *)out, sizeof out));
	SAY(cuPointerGetAttributes(0, which, data, p));
	SAY(cuPointerGetAttributes(1, NULL, data, p));
	SAY(cuPointerGetAttributes(1, which, NULL, p));
}

static void range_of(const char *what, CUdeviceptr p, CUdeviceptr base)
{
	CUdeviceptr start = 1, asked = 1;
	size_t size = 2, asked_size = 2;
	CUresult result = cuMemGetAddressRange(&start, &size, p);
	printf("%s: %s, from its base %d, %zu bytes", what, result_name(result), start == base,
	       size);
	result = cuPointerGetAttribute(&asked, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p);
	if (result == CUDA_SUCCESS)
		result = cuPointerGetAttribute(&asked_size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p);
	printf("; by attribute: %s, %d, %zu\n", result_name(result), asked == base, asked_size);
}

/* Blocks that share physical memory have a range each. */
static void neighbours(size_t size)
{
	CUdeviceptr p[3];
	char what[64];
	for (int i = 0; i < 3; i++)
		MUST(cuMemAlloc(&p[i], size + (size_t)i));
	for (int i = 0; i < 3; i++) {
		snprintf(what, sizeof what, "block %d of %zu", i, size + (size_t)i);
		range_of(what, p[i], p[i]);
		range_of("  its last byte", p[i] + size + (size_t)i - 1, p[i]);
	}
	SAY(cuMemGetAddressRange(NULL, NULL, p[1]));
	MUST(cuMemFree(p[1]));
	range_of("the freed one between", p[1], p[1]);
	range_of("the one before", p[0] + size - 1, p[0]);
	range_of("the one behind", p[2], p[2]);
	MUST(cuMemFree(p[0]));
	MUST(cuMemFree(p[2]));
}

static unsigned long long id_of(CUdeviceptr p)
{
	unsigned long long id = 0;
	MUST(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
	return id;
}

/* Caches of registered memory use the id as a key. */
static void ids(size_t size)
{
	CUdeviceptr p;
	MUST(cuMemAlloc(&p, size));
	unsigned long long before = id_of(p), again = id_of(p + size - 1);
	MUST(cuMemFree(p));
	MUST(cuMemAlloc(&p, size));
	printf("%zu bytes: one id %d, another after free and allocation %d\n", size,
	       before == again, id_of(p) != before);
	MUST(cuMemFree(p));
}

/* The program's own virtual memory management works beside ours as natively. */
static void own_mapping(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.location = prop.location,
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle, again = 0;
	CUdeviceptr at;
	MUST(cuMemAddressReserve(&at, 4 * MIB, 0, 0, 0));
	MUST(cuMemCreate(&handle, 4 * MIB, &prop, 0));
	MUST(cuMemMap(at, 4 * MIB, 0, handle, 0));
	MUST(cuMemSetAccess(at, 4 * MIB, &access, 1));
	SAY(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(at + 1)));
	printf("the same handle: %d\n", again == handle);
	range_of("a mapping of its own", at + MIB, at);
	one_by_one("a mapping of its own", at + MIB);
	SAY(cuMemFree(at));
	SAY(cuMemFreeAsync(at, NULL));
	SAY(cuMemsetD8(at, 1, 4 * MIB));
	MUST(cuMemRelease(handle));
	MUST(cuMemRelease(again));
	SAY(cuMemUnmap(at, 4 * MIB));
	SAY(cuMemAddressFree(at, 4 * MIB));
}

static void map_calls(CUdeviceptr p, size_t size)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.location = prop.location,
				  .flags = CU_MEM_ACCESS_FLAGS_PROT_NONE};
	CUmemGenericAllocationHandle handle;
	unsigned long long flags = UNTOUCHED;
	MUST(cuMemCreate(&handle, size, &prop, 0));
	SAY(cuMemSetAccess(p, size, &access, 1));
	SAY(cuMemGetAccess(&flags, &prop.location, p));
	SAY(cuMemGetAccess(&flags, &prop.location, p + size - 1));
	SAY(cuMemMap(p, size, 0, handle, 0));
	SAY(cuMemUnmap(p, size));
	SAY(cuMemAddressFree(p, size));
	printf("nothing was written: %d\n", flags == UNTOUCHED);
	MUST(cuMemRelease(handle));
}

/* A block is mapped memory, but natively no mapping: calls on mappings leave it unchanged. */
static void no_mapping(size_t size)
{
	CUdeviceptr p, next;
	unsigned char byte = 0;
	printf("a block of %zu bytes\n", size);
	MUST(cuMemAlloc(&p, size));
	MUST(cuMemsetD8(p, 0x17, size));
	map_calls(p, size);
	SAY(cuMemcpyDtoH(&byte, p + size - 1, 1));
	printf("its last byte: %d\n", byte == 0x17);
	MUST(cuMemFree(p));
	printf("freed\n");
	map_calls(p, size);
	MUST(cuMemAlloc(&next, size));
	SAY(cuMemsetD8(next, 0x18, size));
	SAY(cuMemcpyDtoH(&byte, next + size - 1, 1));
	printf("its last byte: %d\n", byte == 0x18);
	MUST(cuMemFree(next));
}

static void retained(CUdeviceptr p)
{
	CUmemGenericAllocationHandle handle = 42;
	SAY(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)p));
	SAY(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)(p + 999)));
	SAY(cuMemRetainAllocationHandle(NULL, (void *)(uintptr_t)p));
	printf("nothing was written: %d\n", handle == 42);
}

/* Network libraries ask for a dma-buf of the pages around a block. */
static void export_range(const char *what, CUdeviceptr from, size_t size)
{
	int fd = -1;
	CUresult result = cuMemGetHandleForAddressRange(&fd, from, size,
							CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	printf("  %s: %s, %s\n", what, result_name(result), fd < 0 ? "no file" : "a file");
	if (fd >= 0)
		close(fd);
}

static void exports(size_t size)
{
	const CUdeviceptr page = 4096;
	CUdeviceptr p;
	MUST(cuMemAlloc(&p, size));
	CUdeviceptr from = p & ~(page - 1), end = (p + size + page - 1) & ~(page - 1);
	CUdeviceptr step = p & ~(CUdeviceptr)(2 * MIB - 1);
	printf("a dma-buf of a block of %zu bytes\n", size);
	export_range("the pages around it", from, end - from);
	if (size < MIB)
		export_range("its mapping", step, 2 * MIB);
	else
		export_range("its mapping", p, (size + 2 * MIB - 1) & ~(2 * MIB - 1));
	export_range("too much", from, (size_t)1 << 40);
	export_range("nothing", from, 0);
	export_range("half a page on", from + 512, page);
	SAY(cuMemGetHandleForAddressRange(NULL, from, page, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
					  0));
	MUST(cuMemFree(p));
	if (size >= MIB)
		export_range("freed", p, page);
}

/* Device memory cannot be registered as host memory. */
static void registers(void)
{
	CUdeviceptr p;
	MUST(cuMemAlloc(&p, 4 * MIB));
	SAY(cuMemHostRegister((void *)(uintptr_t)p, 4096, 0));
	MUST(cuMemFree(p));
	SAY(cuMemHostRegister((void *)(uintptr_t)p, 4096, 0));
	SAY(cuMemHostUnregister((void *)(uintptr_t)p));
}

int main(int argc, char **argv)
{
	CUdeviceptr p, async, managed;
	MUST(cuInit(0));
	use_device(0);
	if (argc > 1 && strcmp(argv[1], "exports") == 0) {
		const size_t sizes[] = {512, 200000, 2 * MIB, 64 * MIB, 66 * MIB};
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
			exports(sizes[i]);
		return 0;
	}
	MUST(cuMemAlloc(&p, 1000));
	MUST(cuMemAllocAsync(&async, 1000, NULL));
	MUST(cuMemAllocManaged(&managed, 1000, CU_MEM_ATTACH_GLOBAL));
	one_by_one("a block", p + 999);
	all_at_once("a block", p + 999);
	all_at_once("of a memory pool", async);
	all_at_once("managed", managed);
	retained(p);
	MUST(cuMemFree(p));
	one_by_one("freed", p);
	all_at_once("freed", p);
	retained(p);
	neighbours(512);
	neighbours(1000);
	neighbours(200000);
	neighbours(3 * MIB);
	ids(512);
	ids(200000);
	ids(3 * MIB);
	ids(64 * MIB);
	no_mapping(2 * MIB);
	no_mapping(32 * MIB);
	no_mapping(64 * MIB);
	own_mapping();
	registers();
	MUST(cuMemFreeAsync(async, NULL));
	MUST(cuMemFree(managed));
	return 0;
}
