/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory freed by another call than the expected one, or allocated unseen by a library between
 * program and driver; odd sizes; calls without a context, or with a stale one: `break_frees
 * [PART]`.
 */
#include <dlfcn.h>

#include "program.h"

/* Declared here: cuda.h hides this call, and every driver has it. */
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);

static size_t available(void)
{
	size_t have, total;
	MUST(cuMemGetInfo(&have, &total));
	return have;
}

/* Libraries that hook dlsym find libc's own dlsym in this way. */
static void *around_us(const char *symbol)
{
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
	void *(*libc)(void *, const char *) = NULL;
	for (size_t i = 0; i < sizeof versions / sizeof *versions && !libc; i++)
		*(void **)&libc = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
	return libc ? libc(dlopen("libcuda.so.1", RTLD_NOW), symbol) : NULL;
}

/* Allocate past the hooks, as cuExternalMemoryGetMappedBuffer does: no allocating call is seen. */
static CUdeviceptr unseen(size_t size)
{
	CUresult (*allocate)(CUdeviceptr *, size_t);
	CUdeviceptr p;
	*(void **)&allocate = around_us("cuMemAlloc_v2");
	MUST(allocate(&p, size));
	return p;
}

static void not_seen(void)
{
	size_t before = available();
	CUdeviceptr p = unseen(3 * MIB), q = unseen(5000);
	SAY(cuMemsetD8(p, 1, 3 * MIB));
	SAY(cuMemFree(p));
	SAY(cuMemFree(p));
	SAY(cuMemFreeAsync(q, NULL));
	MUST(cuCtxSynchronize());
	SAY(cuMemFree(q));
	printf("all back: %d\n", available() == before);
}

static void of_a_graph(void)
{
	CUstream stream;
	CUgraph graph;
	CUdeviceptr p = 0;
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	SAY(cuMemAllocAsync(&p, 3 * MIB, stream));
	SAY(cuMemFree(p));
	MUST(cuStreamEndCapture(stream, &graph));
	SAY(cuMemFree(p));
	SAY(cuMemFreeAsync(p, stream));
	MUST(cuGraphDestroy(graph));
	MUST(cuStreamDestroy(stream));
}

static void crossed(void)
{
	CUdeviceptr block, async;
	CUstream stream;
	size_t before = available();
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuMemAlloc(&block, 3 * MIB));
	MUST(cuMemAllocAsync(&async, 3 * MIB, stream));
	SAY(cuMemFreeAsync(block + 512, stream));
	SAY(cuMemFreeAsync(block, stream));
	SAY(cuMemFree(block));
	SAY(cuMemFreeAsync(block, stream));
	SAY(cuMemFree(async + 512));
	SAY(cuMemFree(async));
	SAY(cuMemFree(async));
	SAY(cuMemFreeAsync(async, stream));
	MUST(cuCtxSynchronize());
	printf("all back: %d\n", available() == before);
	SAY(cuMemFree(0));
	SAY(cuMemFreeAsync(0, stream));
	SAY(cuMemFreeAsync(0, NULL));
	/* On a stream in capture the free is refused, and the block stays. */
	MUST(cuMemAlloc(&block, 1000));
	MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	SAY(cuMemFreeAsync(block, stream));
	CUgraph graph = NULL;
	SAY(cuStreamEndCapture(stream, &graph));
	if (graph)
		MUST(cuGraphDestroy(graph));
	SAY(cuMemsetD8(block, 1, 1000));
	SAY(cuMemFree(block));
	MUST(cuStreamDestroy(stream));
}

static void odd_sizes(void)
{
	size_t total, have;
	MUST(cuMemGetInfo(&have, &total));
	const size_t sizes[] = {0,
				SIZE_MAX,
				SIZE_MAX - 1,
				SIZE_MAX - 510,
				SIZE_MAX - 511,
				SIZE_MAX - 64 * 1024 + 1,
				SIZE_MAX - 2 * MIB + 1,
				SIZE_MAX - 2 * MIB,
				SIZE_MAX / 2,
				SIZE_MAX / 2 + 1,
				(size_t)1 << 47,
				8 * total,
				total + 1,
				total};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		CUdeviceptr p[3] = {42, 42, 42};
		size_t pitch = 43;
		CUresult result[3] = {cuMemAlloc(&p[0], sizes[i])};
		if (result[0] == CUDA_SUCCESS)
			MUST(cuMemFree(p[0]));
		else
			printf("nothing was written: %d; ", p[0] == 42);
		result[1] = cuMemAllocPitch(&p[1], &pitch, sizes[i], 2, 4);
		result[2] = cuMemAllocPitch(&p[2], &pitch, 2, sizes[i], 4);
		printf("%zx bytes: %s, wide %s, high %s, nothing was written: %d\n", sizes[i],
		       result_name(result[0]), result_name(result[1]), result_name(result[2]),
		       p[1] == 42 && p[2] == 42 && pitch == 43);
	}
}

static void no_context(void)
{
	CUcontext context;
	size_t have = 1, total = 2, size = 3;
	CUdeviceptr p, q = 4, base = 5;
	char byte;
	MUST(cuMemAlloc(&p, 1000));
	MUST(cuCtxPopCurrent(&context));
	SAY(cuMemAlloc(&q, 1000));
	SAY(cuMemGetInfo(&have, &total));
	SAY(cuMemGetInfo(NULL, NULL));
	printf("nothing was written: %d\n", q == 4 && have == 1 && total == 2);
	SAY(cuMemGetAddressRange(&base, &size, p));
	SAY(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p));
	SAY(cuMemcpyDtoH(&byte, p, 1));
	SAY(cuMemFreeAsync(0, NULL));
	SAY(cuMemFreeAsync(p, NULL));
	SAY(cuMemFree(0));
	SAY(cuMemFree(p));
	SAY(cuMemFree(p));
	MUST(cuCtxPushCurrent(context));
	SAY(cuMemsetD8(p, 1, 1000));
}

/* NCCL creates host memory before a context exists. */
static void host_memory_of_others(void)
{
#if CUDA_VERSION >= 12020
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA}};
	CUmemGenericAllocationHandle handle = 0;
	CUcontext context;
	MUST(cuCtxPopCurrent(&context));
	SAY(cuMemCreate(&handle, 4 * MIB, &prop, 0));
	SAY(cuMemRelease(handle));
	SAY(cuMemCreate(&handle, 4 * MIB + 1, &prop, 0));
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = 99;
	SAY(cuMemCreate(&handle, 4 * MIB, &prop, 0));
	SAY(cuMemCreate(NULL, 4 * MIB, &prop, 0));
	SAY(cuMemCreate(&handle, 4 * MIB, NULL, 0));
	MUST(cuCtxPushCurrent(context));
#endif
}

/* cudaDeviceReset leaves the old context current. The next context may have the same handle. */
static void stale(void)
{
	CUcontext old, own;
	CUdevice device;
	MUST(cuDeviceGet(&device, 0));
	CUdeviceptr p, q = 6;
	size_t have, total;
	MUST(cuCtxGetCurrent(&old));
	MUST(cuMemAlloc(&p, 3 * MIB));
	SAY(cuDevicePrimaryCtxReset(device));
	SAY(cuMemAlloc(&q, 1000));
	SAY(cuMemFree(p));
	SAY(cuMemGetInfo(&have, &total));
	printf("nothing was written: %d\n", q == 6);
	use_device(0);
	SAY(cuMemAlloc(&q, 1000));
	SAY(cuMemFree(p));
	SAY(cuMemFree(q));
	MUST(cuCtxCreate_v2(&own, 0, device));
	MUST(cuMemAlloc(&p, 1000));
	MUST(cuCtxDestroy(own)); /* now no context is current */
	SAY(cuMemAlloc(&q, 1000));
	SAY(cuMemFree(p));
	use_device(0);
	SAY(cuMemFree(p));
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} parts[] = {
		{"unseen", not_seen}, {"graph", of_a_graph},   {"crossed", crossed},
		{"sizes", odd_sizes}, {"nowhere", no_context}, {"others", host_memory_of_others},
		{"stale", stale},
	};
	MUST(cuInit(0));
	use_device(0);
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (argc < 2 || strcmp(argv[1], parts[i].name) == 0)
			parts[i].run();
	return 0;
}
