/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulated driver's memory: alignment, accounting, bounds, VMM strictness, pointer queries. */
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim_setup.h"

#define MIB ((size_t)1 << 20)
#define PAGE (2 * MIB)

static const CUmemAllocationProp on_0 = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
static const CUmemAccessDesc rw_0 = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
				     .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

/* Does an access to the byte kill a child with SIGSEGV? */
static bool faults(CUdeviceptr address)
{
	int status;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		struct rlimit none = {0, 0};
		setrlimit(RLIMIT_CORE, &none);
		signal(SIGSEGV, SIG_DFL);
		*(volatile char *)address = 1;
		_exit(0);
	}
	return waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
	       WTERMSIG(status) == SIGSEGV;
}

static size_t free_memory(void)
{
	size_t bytes = 0;
	drv(cuMemGetInfo_v2)(&bytes, NULL);
	return bytes;
}

static void test_alloc(void)
{
	CUdeviceptr a, b, big, p;
	size_t before;
	sim_start("64M", NULL, NULL);
	before = free_memory();
	TAP_IS(before, 64 * MIB, "SIM_MEMORY is the free memory");
	TAP_IS(drv(cuMemAlloc_v2)(&p, 0), CUDA_ERROR_INVALID_VALUE, "an empty block is refused");
	TAP_IS(drv(cuMemAlloc_v2)(&a, 1000), CUDA_SUCCESS, "1000 bytes are allocated");
	TAP_IS(drv(cuMemAlloc_v2)(&b, 1), CUDA_SUCCESS, "one byte is allocated");
	TAP_IS(b - a, 1024, "small blocks are packed at 512 bytes");
	TAP_IS(before - free_memory(), PAGE, "two small blocks are in one piece of 2 MiB");
	TAP_IS(drv(cuMemAlloc_v2)(&big, 3 * MIB), CUDA_SUCCESS, "3 MiB are allocated");
	TAP_IS(big % PAGE, 0, "large blocks are 2 MiB-aligned");
	TAP_IS(before - free_memory(), 3 * PAGE, "3 MiB take 4 MiB");
	TAP_IS(drv(cuMemAlloc_v2)(&p, 60 * MIB), CUDA_ERROR_OUT_OF_MEMORY,
	       "more than the device has is refused");
	TAP_IS(drv(cuMemFree_v2)(a + 512), CUDA_ERROR_INVALID_VALUE,
	       "an interior pointer is not freed");
	TAP_IS(drv(cuMemFree_v2)(a), CUDA_SUCCESS, "a block is freed");
	TAP_IS(drv(cuMemFree_v2)(a), CUDA_ERROR_INVALID_VALUE, "a second free fails");
	TAP_IS(drv(cuMemFree_v2)(0), CUDA_SUCCESS, "a free of NULL succeeds");
	TAP_IS(drv(cuMemFree_v2)(b), CUDA_SUCCESS, "the second block is freed");
	TAP_IS(drv(cuMemFree_v2)(big), CUDA_SUCCESS, "the large block is freed");
	TAP_OK(faults(big), "a large freed block faults");
	TAP_IS(free_memory(), before, "all memory is free again");
	TAP_IS(gm_sim_leaks(false), 0, "no memory is leaked");
}

static void test_pitch(void)
{
	static const struct {
		size_t width, height;
		unsigned element;
		CUresult result;
	} cases[] = {
		{100, 3, 4, CUDA_SUCCESS},
		{100, 3, 16, CUDA_SUCCESS},
		{100, 3, 1, CUDA_ERROR_INVALID_VALUE},
		{100, 3, 2, CUDA_ERROR_INVALID_VALUE},
		{100, 3, 3, CUDA_ERROR_INVALID_VALUE},
		{100, 3, 32, CUDA_ERROR_INVALID_VALUE},
		{0, 3, 4, CUDA_ERROR_INVALID_VALUE},
		{100, 0, 4, CUDA_ERROR_INVALID_VALUE},
		{SIZE_MAX, 1, 4, CUDA_ERROR_INVALID_VALUE},
		{1024, SIZE_MAX / 2, 4, CUDA_ERROR_OUT_OF_MEMORY},    /* the product wraps around */
		{1024, (size_t)1 << 54, 4, CUDA_ERROR_INVALID_VALUE}, /* the same, to 0 */
	};
	CUdeviceptr p;
	size_t pitch, size;
	sim_start(NULL, NULL, NULL);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		TAP_IS(drv(cuMemAllocPitch_v2)(&p, &pitch, cases[i].width, cases[i].height,
					       cases[i].element),
		       cases[i].result, "pitch %zu: %zu x %zu of %u", i, cases[i].width,
		       cases[i].height, cases[i].element);
	drv(cuMemAllocPitch_v2)(&p, &pitch, 1300, 3, 8);
	TAP_IS(pitch, 1536, "rows have a multiple of 512 bytes");
	TAP_IS(drv(cuMemGetAddressRange_v2)(NULL, &size, p + 5), CUDA_SUCCESS,
	       "a pitched block has a range");
	TAP_IS(size, 3 * 1536, "the range is pitch times height");
	TAP_IS(drv(cuMemAllocPitch_v2)(NULL, &pitch, 4, 4, 4), CUDA_ERROR_INVALID_VALUE,
	       "a NULL output is refused");
}

static void test_bounds(void)
{
	char host[2048] = {0};
	CUdeviceptr p, q;
	sim_start(NULL, NULL, NULL);
	drv(cuMemAlloc_v2)(&p, 1000);
	drv(cuMemAlloc_v2)(&q, 64 * MIB);
	TAP_IS(drv(cuMemcpyHtoD_v2)(p, host, 1000), CUDA_SUCCESS,
	       "a copy of all bytes of a block succeeds");
	TAP_IS(drv(cuMemcpyHtoD_v2)(p, host, 1001), CUDA_ERROR_INVALID_VALUE,
	       "a copy of a byte more is refused");
	TAP_IS(drv(cuMemcpyDtoH_v2)(host, q + 64 * MIB - 10, 11), CUDA_ERROR_INVALID_VALUE,
	       "a copy past a large block is refused");
	TAP_IS(drv(cuMemsetD8_v2)(p + 999, 1, 2), CUDA_ERROR_INVALID_VALUE,
	       "a fill past the end is refused");
	TAP_IS(drv(cuMemsetD32_v2)(p + 2, 1, 1), CUDA_ERROR_INVALID_VALUE,
	       "a fill that is not aligned is refused");
	TAP_IS(drv(cuMemsetD2D8_v2)(p, 300, 7, 100, 4), CUDA_SUCCESS,
	       "a fill of 3 * 300 + 100 bytes fits");
	TAP_IS(drv(cuMemsetD2D8_v2)(p, 300, 7, 101, 4), CUDA_ERROR_INVALID_VALUE,
	       "a fill with rows of 101 bytes does not fit");
	TAP_IS(drv(cuMemsetD2D8_v2)(p, 50, 7, 100, 2), CUDA_ERROR_INVALID_VALUE,
	       "a pitch below the width is refused");
	TAP_IS(drv(cuMemsetD2D8_v2)(p, 0, 7, 100, 1), CUDA_SUCCESS, "one row needs no pitch");
	TAP_IS(drv(cuMemcpyDtoH_v2)(host, p, 1000), CUDA_SUCCESS, "the block is read back");
	TAP_IS(host[999], 7, "the last byte of the last row is filled");
	TAP_IS(host[899], 0, "the bytes between rows are not filled");
	drv(cuMemFree_v2)(p);
	drv(cuMemFree_v2)(q);
	TAP_IS(drv(cuMemcpyHtoD_v2)(p, host, 1), CUDA_ERROR_INVALID_VALUE,
	       "a copy into a freed block is refused");
	TAP_IS(drv(cuMemcpy)(q, (CUdeviceptr)host, 1), CUDA_ERROR_INVALID_VALUE,
	       "cuMemcpy refuses a freed address");
	TAP_IS(drv(cuMemcpyHtoD_v2)(p, host, 0), CUDA_SUCCESS, "0 bytes: any address will do");
	TAP_IS(drv(cuMemsetD8_v2)(p, 0, 0), CUDA_SUCCESS, "0 bytes of fill: any address will do");
}

static void test_shapes(void)
{
	unsigned char in[4][5][8], out[4][5][8] = {{{0}}};
	CUdeviceptr p;
	size_t pitch;
	CUarray array;
	CUDA_ARRAY3D_DESCRIPTOR shape = {8, 5, 4, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0};
	sim_start(NULL, NULL, NULL);
	for (size_t i = 0; i < sizeof in; i++)
		((unsigned char *)in)[i] = (unsigned char)(i * 7 + 1);
	drv(cuMemAllocPitch_v2)(&p, &pitch, 8, 20, 4);
	TAP_IS(drv(cuArray3DCreate_v2)(&array, &shape), CUDA_SUCCESS, "an array of 8 x 5 x 4");
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			      .srcHost = in,
			      .srcPitch = 8,
			      .srcHeight = 5,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstDevice = p,
			      .dstPitch = pitch,
			      .dstHeight = 5,
			      .WidthInBytes = 8,
			      .Height = 5,
			      .Depth = 4};
	TAP_IS(drv(cuMemcpy3D_v2)(&copy), CUDA_SUCCESS, "host to pitched memory");
	copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	copy.srcDevice = p;
	copy.srcPitch = pitch;
	copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	copy.dstArray = array;
	TAP_IS(drv(cuMemcpy3D_v2)(&copy), CUDA_SUCCESS, "pitched memory to the array");
	copy.Depth = 5;
	TAP_IS(drv(cuMemcpy3D_v2)(&copy), CUDA_ERROR_INVALID_VALUE, "a plane too many is refused");
	CUDA_MEMCPY2D row = {.srcXInBytes = 2,
			     .srcY = 6,
			     .srcMemoryType = CU_MEMORYTYPE_ARRAY,
			     .srcArray = array,
			     .dstMemoryType = CU_MEMORYTYPE_HOST,
			     .dstHost = out,
			     .dstPitch = 8,
			     .WidthInBytes = 3,
			     .Height = 2};
	TAP_IS(drv(cuMemcpy2D_v2)(&row), CUDA_SUCCESS, "a window of the array to the host");
	TAP_OK(memcmp(out[0][0], &in[1][1][2], 3) == 0 && memcmp(out[0][1], &in[1][2][2], 3) == 0 &&
		       out[0][0][3] == 0,
	       "the window has the right bytes");
	TAP_IS(drv(cuArrayDestroy)(array), CUDA_SUCCESS, "an array is destroyed");
	TAP_IS(drv(cuArrayDestroy)(array), CUDA_ERROR_INVALID_HANDLE, "an array is destroyed once");
}

static void test_vmm_arguments(void)
{
	CUmemGenericAllocationHandle h, h2;
	CUmemAllocationProp prop = on_0;
	CUmemAccessDesc desc = rw_0;
	CUdeviceptr at, other;
	size_t n;
	sim_start("64M", NULL, NULL);
	TAP_IS(drv(cuMemGetAllocationGranularity)(&n, &on_0, CU_MEM_ALLOC_GRANULARITY_MINIMUM), 0,
	       "the granularity is asked for");
	TAP_IS(n, PAGE, "the granularity is 2 MiB");
	TAP_IS(drv(cuMemAddressReserve)(&at, PAGE + 1, 0, 0, 0), CUDA_ERROR_INVALID_VALUE,
	       "a reservation of an odd size is refused");
	TAP_IS(drv(cuMemAddressReserve)(&at, 1ull << 34, 0, 0, 0), CUDA_SUCCESS,
	       "16 GiB of addresses are reserved");
	TAP_IS(drv(cuMemAddressFree)(at, PAGE), CUDA_ERROR_INVALID_VALUE,
	       "a reservation is freed only as a whole");
	TAP_IS(drv(cuMemAddressFree)(at, 1ull << 34), CUDA_SUCCESS, "a reservation is freed");
	TAP_IS(drv(cuMemAddressReserve)(&at, 8 * PAGE, 64 * MIB, 0, 0), CUDA_SUCCESS,
	       "an aligned reservation is made");
	TAP_IS(at % (64 * MIB), 0, "the reservation is aligned to 64 MiB");
	TAP_IS(drv(cuMemAddressReserve)(&other, PAGE, 3, 0, 0), CUDA_ERROR_INVALID_VALUE,
	       "an alignment of 3 is refused");
	TAP_IS(drv(cuMemCreate)(&h, MIB, &on_0, 0), CUDA_ERROR_INVALID_VALUE, "1 MiB is no page");
	prop.location.id = 1;
	TAP_IS(drv(cuMemCreate)(&h, PAGE, &prop, 0), CUDA_ERROR_INVALID_DEVICE,
	       "a handle of an unknown device is refused");
	TAP_IS(drv(cuMemCreate)(&h, 66 * MIB, &on_0, 0), CUDA_ERROR_OUT_OF_MEMORY,
	       "a handle larger than the device is refused");
	TAP_IS(drv(cuMemCreate)(&h, 2 * PAGE, &on_0, 0), CUDA_SUCCESS, "a handle of 4 MiB is made");
	TAP_IS(drv(cuMemCreate)(&h2, PAGE, &on_0, 0), CUDA_SUCCESS, "a handle of 2 MiB is made");
	TAP_IS(free_memory(), 58 * MIB, "two handles are charged");
	TAP_IS(drv(cuMemMap)(at, PAGE, PAGE, h, 0), CUDA_ERROR_NOT_SUPPORTED,
	       "an offset in a handle is not supported");
	TAP_IS(drv(cuMemMap)(at, PAGE, 0, h, 0), CUDA_ERROR_INVALID_VALUE,
	       "a part of a handle is not mapped");
	TAP_IS(drv(cuMemMap)(at + MIB, 2 * PAGE, 0, h, 0), CUDA_ERROR_INVALID_VALUE,
	       "an address that is not aligned is not mapped");
	TAP_IS(drv(cuMemMap)(at + 7 * PAGE, 2 * PAGE, 0, h, 0), CUDA_ERROR_INVALID_VALUE,
	       "a mapping beyond the reservation is refused");
	TAP_IS(drv(cuMemMap)(at, 2 * PAGE, 0, h, 0), CUDA_SUCCESS, "a handle is mapped");
	TAP_IS(drv(cuMemMap)(at + PAGE, PAGE, 0, h2, 0), CUDA_ERROR_INVALID_VALUE,
	       "mapped addresses are not mapped again");
	TAP_IS(drv(cuMemMap)(at + 2 * PAGE, PAGE, 0, h2, 0), CUDA_SUCCESS,
	       "a handle is mapped beside another");
	TAP_OK(faults(at), "a mapping without access faults");
	TAP_IS(drv(cuMemSetAccess)(at, 4 * PAGE, &rw_0, 1), CUDA_ERROR_INVALID_VALUE,
	       "access beyond the mapping is refused");
	TAP_IS(drv(cuMemSetAccess)(at, PAGE, &rw_0, 1), CUDA_ERROR_INVALID_VALUE,
	       "access to half of a mapping is refused");
	desc.flags = (CUmemAccess_flags)2;
	TAP_IS(drv(cuMemSetAccess)(at, 3 * PAGE, &desc, 1), CUDA_ERROR_INVALID_VALUE,
	       "access with unknown flags is refused");
	TAP_IS(drv(cuMemSetAccess)(at, 3 * PAGE, &rw_0, 1), CUDA_SUCCESS,
	       "access to two mappings is set");
	TAP_IS(drv(cuMemsetD8_v2)(at, 5, 3 * PAGE), CUDA_SUCCESS,
	       "a fill across the border succeeds");
	TAP_IS(drv(cuMemsetD8_v2)(at, 5, 3 * PAGE + 1), CUDA_ERROR_INVALID_VALUE,
	       "a fill of a byte more is refused");
	TAP_IS(drv(cuMemAddressFree)(at, 8 * PAGE), CUDA_ERROR_INVALID_VALUE,
	       "a reservation that is mapped is not freed");
	TAP_IS(drv(cuMemRelease)(h), CUDA_SUCCESS, "a mapped handle is released");
	TAP_IS(drv(cuMemRelease)(h), CUDA_ERROR_INVALID_VALUE, "a handle is released once");
	TAP_IS(free_memory(), 58 * MIB, "the mapping keeps the memory");
	TAP_IS(*(volatile char *)(at + 2 * PAGE - 1), 5, "the mapping keeps the data");
	TAP_IS(drv(cuMemUnmap)(at, PAGE), CUDA_ERROR_INVALID_VALUE,
	       "half of a mapping is not unmapped");
	TAP_IS(drv(cuMemUnmap)(at, 2 * PAGE), CUDA_SUCCESS, "the first mapping is unmapped");
	TAP_IS(free_memory(), 62 * MIB, "the memory is free after the unmap");
	TAP_OK(faults(at), "a use after the unmap faults");
	TAP_IS(drv(cuMemsetD8_v2)(at, 5, 1), CUDA_ERROR_INVALID_VALUE,
	       "a call on unmapped memory fails in the driver");
	TAP_IS(gm_sim_leaks(false), 3, "a handle, a mapping and a reservation remain");
}

static void test_remap(void)
{
	CUmemGenericAllocationHandle h;
	CUdeviceptr at;
	sim_start("64M", NULL, NULL);
	drv(cuMemAddressReserve)(&at, 4 * PAGE, 0, 0, 0);
	drv(cuMemCreate)(&h, PAGE, &on_0, 0);
	drv(cuMemMap)(at, PAGE, 0, h, 0);
	drv(cuMemSetAccess)(at, PAGE, &rw_0, 1);
	*(volatile char *)(at + 77) = 42;
	TAP_IS(drv(cuMemMap)(at + 2 * PAGE, PAGE, 0, h, 0), CUDA_SUCCESS,
	       "a handle is mapped a second time");
	drv(cuMemSetAccess)(at + 2 * PAGE, PAGE, &rw_0, 1);
	TAP_IS(*(volatile char *)(at + 2 * PAGE + 77), 42,
	       "a second mapping shows the same memory");
	*(volatile char *)(at + 2 * PAGE + 78) = 43;
	TAP_IS(*(volatile char *)(at + 78), 43, "writes to one mapping are seen in the other");
	drv(cuMemUnmap)(at, PAGE);
	drv(cuMemMap)(at + 3 * PAGE, PAGE, 0, h, 0);
	drv(cuMemSetAccess)(at + 3 * PAGE, PAGE, &rw_0, 1);
	TAP_IS(*(volatile char *)(at + 3 * PAGE + 77), 42, "data is remapped, not copied");
	drv(cuMemUnmap)(at + 2 * PAGE, 2 * PAGE);
	drv(cuMemRelease)(h);
	drv(cuMemCreate)(&h, PAGE, &on_0, 0);
	drv(cuMemMap)(at, PAGE, 0, h, 0);
	drv(cuMemSetAccess)(at, PAGE, &rw_0, 1);
	TAP_IS(*(volatile char *)(at + 77), 0, "a new handle is zero");
}

static void test_share(void)
{
	CUmemGenericAllocationHandle h, again, retained;
	CUdeviceptr at, p;
	int fd = -1;
	sim_start("64M", NULL, NULL);
	drv(cuMemAddressReserve)(&at, PAGE, 0, 0, 0);
	drv(cuMemCreate)(&h, PAGE, &on_0, 0);
	drv(cuMemMap)(at, PAGE, 0, h, 0);
	TAP_IS(drv(cuMemExportToShareableHandle)(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
						 0),
	       CUDA_SUCCESS, "a handle is exported as a descriptor");
	TAP_IS(drv(cuMemImportFromShareableHandle)(&again, (void *)(intptr_t)fd,
						   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
	       CUDA_SUCCESS, "a descriptor is imported");
	close(fd);
	TAP_IS(drv(cuMemRetainAllocationHandle)(&retained, (void *)(at + 9)), CUDA_SUCCESS,
	       "the handle of an address is retained");
	TAP_IS(retained, h, "the retained handle is the mapped one");
	for (int i = 0; i < 3; i++)
		TAP_IS(drv(cuMemRelease)(h), CUDA_SUCCESS, "owner %d lets go", i);
	TAP_IS(drv(cuMemRelease)(h), CUDA_ERROR_INVALID_VALUE,
	       "a fourth owner has nothing to release");
	drv(cuMemAlloc_v2)(&p, 512);
	TAP_IS(drv(cuMemRetainAllocationHandle)(&retained, (void *)p), CUDA_ERROR_INVALID_VALUE,
	       "memory of cuMemAlloc has no handle");
}

#define ATTR(type, name, address, want_result, want)                                              \
	do {                                                                                      \
		type value_ = (type)77;                                                           \
		TAP_IS(drv(cuPointerGetAttribute)(&value_, CU_POINTER_ATTRIBUTE_##name, address), \
		       want_result, "attribute " #name " is asked");                              \
		if ((want_result) == CUDA_SUCCESS)                                                \
			TAP_IS(value_, want, "attribute " #name " has its value");                \
	} while (0)

static void test_attributes(void)
{
	CUdeviceptr p, at, base;
	CUmemGenericAllocationHandle h;
	CUipcMemHandle ipc;
	size_t size;
	int on_stack;
	unsigned on = 1;
	CUcontext ctx = sim_start("64M", NULL, NULL);
	drv(cuMemAlloc_v2)(&p, 1000);
	ATTR(uint64_t, CONTEXT, p + 5, CUDA_SUCCESS, (intmax_t)(uintptr_t)ctx);
	ATTR(unsigned, MEMORY_TYPE, p, CUDA_SUCCESS, CU_MEMORYTYPE_DEVICE);
	ATTR(uint64_t, DEVICE_POINTER, p + 5, CUDA_SUCCESS, (intmax_t)(p + 5));
	ATTR(uint64_t, HOST_POINTER, p, CUDA_ERROR_INVALID_VALUE, 0);
	ATTR(unsigned, SYNC_MEMOPS, p, CUDA_SUCCESS, 0);
	ATTR(unsigned char, IS_MANAGED, p, CUDA_SUCCESS, 0);
	ATTR(unsigned, DEVICE_ORDINAL, p, CUDA_SUCCESS, 0);
	ATTR(unsigned char, IS_LEGACY_CUDA_IPC_CAPABLE, p, CUDA_SUCCESS, 1);
	ATTR(uint64_t, RANGE_START_ADDR, p + 5, CUDA_SUCCESS, (intmax_t)p);
	ATTR(uint64_t, RANGE_SIZE, p, CUDA_SUCCESS, 1000);
	ATTR(unsigned char, MAPPED, p, CUDA_SUCCESS, 1);
	ATTR(uint64_t, ALLOWED_HANDLE_TYPES, p, CUDA_SUCCESS, 0);
	ATTR(unsigned char, IS_GPU_DIRECT_RDMA_CAPABLE, p, CUDA_SUCCESS, 1);
	ATTR(unsigned, ACCESS_FLAGS, p, CUDA_SUCCESS, 3);
	ATTR(uint64_t, MEMPOOL_HANDLE, p, CUDA_SUCCESS, 0);
	ATTR(uint64_t, MAPPING_SIZE, p, CUDA_SUCCESS, PAGE);
	ATTR(uint64_t, MAPPING_BASE_ADDR, p, CUDA_SUCCESS, (intmax_t)(p & ~(PAGE - 1)));
	ATTR(unsigned, MEMORY_TYPE, (CUdeviceptr)&on_stack, CUDA_ERROR_INVALID_VALUE, 0);
	TAP_IS(drv(cuIpcGetMemHandle)(&ipc, p), CUDA_SUCCESS,
	       "memory of cuMemAlloc can be shared by IPC");
	TAP_IS(drv(cuMemGetAddressRange_v2)(&base, &size, p + 999), CUDA_SUCCESS,
	       "a block has a range");
	TAP_OK(base == p && size == 1000, "the range is the requested one");
	TAP_IS(drv(cuMemGetAddressRange_v2)(NULL, NULL, p), CUDA_SUCCESS,
	       "the outputs of a range may be NULL");
	TAP_IS(drv(cuMemGetAddressRange_v2)(&base, &size, p + 1000), CUDA_ERROR_NOT_FOUND,
	       "an address past a block has no range");
	drv(cuMemFree_v2)(p);
	TAP_IS(drv(cuMemGetAddressRange_v2)(&base, &size, p), CUDA_ERROR_NOT_FOUND,
	       "a freed block has no range");
	ATTR(unsigned, MEMORY_TYPE, p, CUDA_ERROR_INVALID_VALUE, 0);
	unsigned type = 9;
	void *out[] = {&type};
	CUpointer_attribute ask[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
	TAP_IS(drv(cuPointerGetAttributes)(1, ask, out, p), CUDA_SUCCESS,
	       "several attributes at once are read");
	TAP_IS(type, 0, "several attributes at once do not fail, and are 0 if unknown");

	drv(cuMemAddressReserve)(&at, 4 * PAGE, 0, 0, 0);
	drv(cuMemCreate)(&h, PAGE, &on_0, 0);
	drv(cuMemMap)(at + PAGE, PAGE, 0, h, 0);
	drv(cuMemSetAccess)(at + PAGE, PAGE, &rw_0, 1);
	ATTR(uint64_t, CONTEXT, at + PAGE, CUDA_SUCCESS, 0);
	ATTR(unsigned char, IS_LEGACY_CUDA_IPC_CAPABLE, at + PAGE, CUDA_SUCCESS, 0);
	TAP_IS(drv(cuMemGetAddressRange_v2)(&base, &size, at + PAGE + 5), CUDA_SUCCESS,
	       "mapped memory has a range");
	TAP_OK(base == at + PAGE && size == PAGE, "mapped memory has the range of its handle");
	TAP_IS(drv(cuMemFree_v2)(at + PAGE), CUDA_ERROR_INVALID_VALUE,
	       "cuMemFree of mapped memory is refused");
	TAP_IS(drv(cuMemFreeAsync)(at + PAGE, NULL), CUDA_ERROR_INVALID_VALUE,
	       "cuMemFreeAsync of mapped memory is refused");
	TAP_IS(drv(cuIpcGetMemHandle)(&ipc, at + PAGE), CUDA_ERROR_INVALID_VALUE,
	       "IPC of mapped memory is refused");
	TAP_IS(drv(cuPointerSetAttribute)(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at + PAGE),
	       CUDA_ERROR_NOT_SUPPORTED, "SYNC_MEMOPS of mapped memory is refused");
}

static void test_two_devices(void)
{
	CUmemGenericAllocationHandle h[2];
	CUmemAllocationProp prop = on_0;
	CUmemAccessDesc desc[2] = {rw_0, rw_0};
	CUdeviceptr at, a, b;
	CUcontext ctx[2];
	ctx[0] = sim_start("64M", "2", NULL);
	drv(cuDevicePrimaryCtxRetain)(&ctx[1], 1);
	drv(cuMemAlloc_v2)(&a, 4096);
	drv(cuCtxSetCurrent)(ctx[1]);
	drv(cuMemAlloc_v2)(&b, 4096);
	TAP_IS(drv(cuMemcpyDtoD_v2)(b, a, 4096), CUDA_SUCCESS,
	       "native memory of two devices is copied across");
	drv(cuMemAddressReserve)(&at, 2 * PAGE, 0, 0, 0);
	for (int d = 0; d < 2; d++) {
		prop.location.id = desc[d].location.id = d;
		TAP_IS(drv(cuMemCreate)(&h[d], PAGE, &prop, 0), CUDA_SUCCESS,
		       "a handle of device %d is made", d);
		drv(cuMemMap)(at + (size_t)d * PAGE, PAGE, 0, h[d], 0);
		drv(cuMemSetAccess)(at + (size_t)d * PAGE, PAGE, &desc[d], 1);
	}
	TAP_IS(drv(cuMemcpyDtoD_v2)(at + PAGE, at, 64), CUDA_ERROR_INVALID_VALUE,
	       "memory mapped for its own device alone is not copied across");
	TAP_IS(drv(cuMemcpy)(at + PAGE, at, 64), CUDA_ERROR_INVALID_VALUE,
	       "cuMemcpy across devices is refused");
	TAP_IS(drv(cuMemcpyPeer)(at + PAGE, ctx[1], at, ctx[0], 64), CUDA_SUCCESS,
	       "cuMemcpyPeer across devices works");
	drv(cuMemSetAccess)(at, 2 * PAGE, desc, 2);
	TAP_IS(drv(cuMemcpyDtoD_v2)(at + PAGE, at, 64), CUDA_SUCCESS,
	       "memory mapped for two devices is copied across");
	TAP_IS(drv(cuCtxEnablePeerAccess)(ctx[0], 0), CUDA_SUCCESS, "peer access is enabled");
	TAP_IS(drv(cuCtxEnablePeerAccess)(ctx[0], 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
	       "peer access is enabled once");
}

static void test_async(void)
{
	CUdeviceptr p, q;
	CUmemoryPool pool;
	CUstream s;
	size_t before;
	sim_start("64M", NULL, NULL);
	drv(cuStreamCreate)(&s, CU_STREAM_NON_BLOCKING);
	before = free_memory();
	TAP_IS(drv(cuMemAllocAsync)(&p, 4 * MIB, s), CUDA_SUCCESS,
	       "stream-ordered memory is allocated");
	gm_sim_hold(s);
	TAP_IS(drv(cuMemFreeAsync)(p, s), CUDA_SUCCESS, "stream-ordered memory is freed");
	TAP_IS(drv(cuMemFreeAsync)(p, s), CUDA_ERROR_INVALID_VALUE,
	       "stream-ordered memory is freed once");
	TAP_IS(before - free_memory(), 4 * MIB, "the memory is in use until the stream frees it");
	TAP_IS(gm_sim_release(s, -1u), 1, "the held stream frees the memory");
	TAP_IS(free_memory(), before, "the memory is free when the stream has freed it");
	drv(cuMemAlloc_v2)(&q, 512);
	TAP_IS(drv(cuMemFreeAsync)(q, s), CUDA_SUCCESS,
	       "memory of cuMemAlloc is freed in a stream");
	TAP_IS(free_memory(), before, "memory of cuMemAlloc is free when the stream has freed it");
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	TAP_IS(drv(cuMemPoolCreate)(&pool, &props), CUDA_SUCCESS, "a memory pool is made");
	TAP_IS(drv(cuMemAllocFromPoolAsync)(&p, 512, pool, s), CUDA_SUCCESS,
	       "a memory pool serves a block");
	uint64_t used = 0, owner = 0;
	drv(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
	TAP_IS(used, 512, "a memory pool counts its block");
	drv(cuPointerGetAttribute)(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p);
	TAP_IS(owner, (uint64_t)pool, "a pool is found by its memory");
	TAP_IS(drv(cuMemPoolDestroy)(pool), CUDA_SUCCESS, "a pool is destroyed");
	TAP_IS(drv(cuMemFree_v2)(p), CUDA_SUCCESS, "a block outlives its memory pool");
}

/* As an H100 answers with driver 580.159.04. */
static void test_host(void)
{
	static char pages[4 * 4096] __attribute__((aligned(4096)));
	void *at = pages;
	unsigned flags;
	sim_start("256M", NULL, NULL);
	for (unsigned i = 0; i < 16; i++) {
		const bool taken = i < 8, registered = !(i & CU_MEMHOSTREGISTER_IOMEMORY);
		CUresult result = drv(cuMemHostAlloc)(&at, 4096, i);
		TAP_IS(result, taken ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE,
		       "host memory with flags %u is allocated or refused", i);
		TAP_IS(at != NULL, taken, "host memory that is refused is NULL");
		if (taken && drv(cuMemHostGetFlags)(&flags, at) == CUDA_SUCCESS)
			TAP_IS(flags, i | CU_MEMHOSTALLOC_DEVICEMAP,
			       "allocated host memory is always mapped");
		if (taken)
			drv(cuMemFreeHost)(at);
		result = drv(cuMemHostRegister_v2)(pages, sizeof pages, i);
		TAP_IS(result, registered ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE,
		       "host memory is registered with flags %u, or refused", i);
		if (registered && drv(cuMemHostGetFlags)(&flags, pages) == CUDA_SUCCESS)
			TAP_IS(flags, (i & 1) | CU_MEMHOSTREGISTER_DEVICEMAP,
			       "registered host memory is always mapped");
		if (registered)
			drv(cuMemHostUnregister)(pages);
	}
	at = pages;
	TAP_IS(drv(cuMemHostAlloc)(&at, 0, 0), CUDA_SUCCESS, "0 bytes of host memory are no error");
	TAP_OK(!at, "0 bytes of host memory are NULL");
	TAP_IS(drv(cuMemFreeHost)(NULL), CUDA_SUCCESS, "a free of NULL as host memory succeeds");
	TAP_IS(drv(cuMemHostAlloc)(&at, SIZE_MAX, 0), CUDA_ERROR_OUT_OF_MEMORY,
	       "any size of host memory is valid, if there is enough");
	TAP_IS(drv(cuMemHostAlloc)(NULL, 0, 0), CUDA_ERROR_INVALID_VALUE,
	       "NULL is refused as the output");
}

int main(void)
{
	test_alloc();
	test_host();
	test_pitch();
	test_bounds();
	test_shapes();
	test_vmm_arguments();
	test_remap();
	test_share();
	test_attributes();
	test_two_devices();
	test_async();
	return tap_done();
}
