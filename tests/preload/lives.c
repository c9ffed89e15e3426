/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lifetime of memory outside the pool: `lives CASE`. The counters are read from the log
 * afterwards; the output must be the same as natively.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"
#include "steer.h"

#define PAGE (2 * MIB)

/* Declared here: cuda.h hides this call, and every driver has it. */
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);

static CUcontext primary;

static CUmemGenericAllocationHandle create(size_t size)
{
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	MUST(cuMemCreate(&handle, size, &prop, 0));
	return handle;
}

/* Left at the end: a mapping of 4 MiB without a handle, one of 6 MiB that two calls could not
 * unmap, and 8 MiB that only a second owner holds. */
static void mappings(void)
{
	CUdeviceptr at;
	CUmemGenericAllocationHandle h[4], again;
	MUST(cuMemAddressReserve(&at, 32 * PAGE, 0, 0, 0));
	for (unsigned i = 0; i < 4; i++)
		h[i] = create((i + 1) * PAGE);
	/* Two mappings of one memory, unmapped by one call. */
	SAY(cuMemMap(at, PAGE, 0, h[0], 0));
	SAY(cuMemMap(at + PAGE, PAGE, 0, h[0], 0));
	SAY(cuMemRelease(h[0]));
	SAY(cuMemRelease(h[0]));
	SAY(cuMemUnmap(at, PAGE));
	SAY(cuMemMap(at, 2 * PAGE, 0, h[1], 0));
	SAY(cuMemUnmap(at + PAGE, PAGE));
	SAY(cuMemMap(at + 2 * PAGE, 2 * PAGE, 0, h[1], 0));
	SAY(cuMemRelease(h[1]));
	SAY(cuMemMap(at + 8 * PAGE, 3 * PAGE, 0, h[2], 0));
	SAY(cuMemRelease(h[2]));
	SAY(cuMemUnmap(at + 8 * PAGE, PAGE));
	SAY(cuMemUnmap(at + 9 * PAGE, 2 * PAGE));
	SAY(cuMemMap(at + 16 * PAGE, 4 * PAGE, 0, h[3], 0));
	SAY(cuMemRetainAllocationHandle(&again, (void *)(at + 17 * PAGE)));
	SAY(cuMemUnmap(at + 16 * PAGE, 4 * PAGE));
	SAY(cuMemRelease(h[3]));
	printf("one memory, one handle: %d\n", again == h[3]);
}

static void shared(void)
{
	CUmemGenericAllocationHandle handle = create(PAGE), imported;
	int fd;
	SAY(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	SAY(cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)fd,
					   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	SAY(cuMemRelease(handle));
	SAY(cuMemRelease(imported));
	SAY(cuMemRelease(imported));
	close(fd);
}

/* A context, without a call that gpumem counts. */
static void nothing(void)
{
	SAY(cuCtxSynchronize());
}

/* Of 1, 2, 4 and 8 MiB only the stream-ordered 4 outlive the context. */
static void context(void)
{
	CUcontext other;
	CUdeviceptr p;
	void *host;
	CUarray array;
	CUDA_ARRAY_DESCRIPTOR d = {
		.Width = MIB, .Height = 8, .Format = CU_AD_FORMAT_SIGNED_INT8, .NumChannels = 1};
	MUST(cuCtxCreate_v2(&other, 0, 0));
	SAY(cuMemAllocManaged(&p, MIB, CU_MEM_ATTACH_GLOBAL));
	SAY(cuMemHostAlloc(&host, 2 * MIB, 0));
	SAY(cuArrayCreate(&array, &d));
	SAY(cuMemAllocAsync(&p, 4 * MIB, NULL));
	SAY(cuCtxSynchronize());
	SAY(cuCtxDestroy(other));
	MUST(cuCtxSetCurrent(primary));
	SAY(cuMemsetD8(p, 1, 4 * MIB));
}

static CUgraphExec capture(size_t size, bool free_it, CUgraph *graph)
{
	CUstream stream;
	CUdeviceptr p;
	CUgraphExec exec;
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	SAY(cuMemAllocAsync(&p, size, stream));
	if (free_it)
		SAY(cuMemFreeAsync(p, stream));
	MUST(cuStreamEndCapture(stream, graph));
	MUST(cuGraphInstantiate(&exec, *graph, 0));
	MUST(cuStreamDestroy(stream));
	return exec;
}

/* 1 MiB is freed in its graph, 2 MiB end with the graph, 4 MiB stay with the executable graph,
 * which outlives it. The end of a graph without memory changes nothing. */
static void graphs(void)
{
	CUgraph graph, empty;
	CUgraphExec exec = capture(MIB, true, &graph);
	SAY(cuGraphExecDestroy(exec));
	SAY(cuGraphDestroy(graph));
	exec = capture(2 * MIB, false, &graph);
	SAY(cuGraphDestroy(graph));
	SAY(cuGraphExecDestroy(exec));
	MUST(cuGraphCreate(&empty, 0));
	exec = capture(4 * MIB, false, &graph);
	SAY(cuGraphDestroy(empty));
	SAY(cuGraphDestroy(graph));
	SAY(cuGraphDestroy(graph));
}

/* A mapped buffer is a view of the import. */
static void views(void)
{
	CUexternalMemory memory;
	CUdeviceptr buffer;
	CUmipmappedArray levels;
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
					      .size = 4 * MIB};
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC b = {.offset = MIB, .size = MIB};
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC m = {.numLevels = 2};
	d.handle.fd = memfd_create("external", MFD_CLOEXEC);
	SAY(cuImportExternalMemory(&memory, &d));
	SAY(cuExternalMemoryGetMappedBuffer(&buffer, memory, &b));
	SAY(cuExternalMemoryGetMappedMipmappedArray(&levels, memory, &m));
	SAY(cuMemsetD8(buffer, 1, MIB));
	SAY(cuDestroyExternalMemory(memory));
	SAY(cuMemFree(buffer));
	SAY(cuMipmappedArrayDestroy(levels));
}

/* Levels of 16 x 8, 8 x 4, 4 x 2, 2 x 1 and 1 x 1 elements of 8 bytes. The number of layers, 3 of
 * 16 elements, does not shrink. A sparse array has no bytes. */
static void levels(void)
{
	CUmipmappedArray a;
	CUDA_ARRAY3D_DESCRIPTOR d = {
		.Width = 16, .Height = 8, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 2};
	SAY(cuMipmappedArrayCreate(&a, &d, 5));
	SAY(cuMipmappedArrayCreate(&a, &d, 50));
	d.Height = 0;
	d.Depth = 3;
	d.Flags = CUDA_ARRAY3D_LAYERED;
	SAY(cuMipmappedArrayCreate(&a, &d, 2));
	d.Flags |= CUDA_ARRAY3D_SPARSE;
	SAY(cuMipmappedArrayCreate(&a, &d, 2));
}

/* Allocated through the driver's own entry, past the hooks; two frees of such memory. */
static void unknown(void)
{
	typedef CUresult (*alloc)(CUdeviceptr * p, size_t size, CUstream stream);
	alloc unseen = (alloc)gm_sim_symbol(NULL, "cuMemAllocAsync");
	CUdeviceptr p;
	MUST(unseen(&p, MIB, NULL));
	SAY(cuMemFree(p));
	MUST(unseen(&p, MIB, NULL));
	SAY(cuMemFreeAsync(p, NULL));
	SAY(cuMemFree(0));
	SAY(cuMemFree(p));
}

/* A free past the hooks: the driver gives the address of a block that is counted as alive. */
static void missed(void)
{
	typedef CUresult (*give)(CUdeviceptr p);
	give unseen = (give)gm_sim_symbol(NULL, "cuMemFree_v2");
	CUcontext other;
	CUdeviceptr p, again;
	MUST(cuCtxCreate_v2(&other, 0, 0));
	MUST(cuMemAllocManaged(&p, MIB, CU_MEM_ATTACH_GLOBAL));
	MUST(unseen(p));
	MUST(cuMemAllocManaged(&again, MIB, CU_MEM_ATTACH_GLOBAL));
	printf("the same address: %d\n", p == again);
	SAY(cuCtxDestroy(other));
}

/* The stream's device has the memory, not the current one. */
static void elsewhere(void)
{
	CUcontext other;
	CUstream stream;
	CUdeviceptr p;
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuDevicePrimaryCtxRetain(&other, 1));
	MUST(cuCtxSetCurrent(other));
	SAY(cuMemAllocAsync(&p, MIB, stream));
}

/* A lack of memory, without memory of pools of the driver. */
static void unpooled(void)
{
	CUdeviceptr p;
	SAY(cuMemAlloc(&p, 1000));
	SAY(cuMemAlloc(&p, (size_t)1 << 40));
	printf("pools of the driver: asked %u, trimmed %u\n", gm_sim_calls("cuMemPoolGetAttribute"),
	       gm_sim_calls("cuMemPoolTrimTo"));
}

/* 64 MiB are allocated past the hooks, 16 MiB through them. */
static void overhead(void)
{
	typedef CUresult (*alloc)(CUdeviceptr * p, size_t size, CUstream stream);
	alloc unseen = (alloc)gm_sim_symbol(NULL, "cuMemAllocAsync");
	CUdeviceptr p;
	size_t have, total;
	MUST(cuMemAlloc(&p, 1000));
	MUST(unseen(&p, 64 * MIB, NULL));
	SAY(cuMemAllocAsync(&p, 16 * MIB, NULL));
	SAY(cuMemGetInfo(&have, &total));
}

static void launches(void)
{
	CUstream stream;
	CUgraph graph;
	CUgraphExec exec;
	CUdeviceptr p;
	MUST(cuMemAlloc(&p, 1000));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuGraphCreate(&graph, 0));
	MUST(cuGraphInstantiate(&exec, graph, 0));
	for (int i = 0; i < 3; i++)
		SAY(cuGraphLaunch(exec, stream));
	SAY(cuGraphLaunch(NULL, stream));
	SAY(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
}

/* A kernel's fault, which a wait reports; another context of the device still works. */
static void fault(void)
{
	CUdeviceptr p;
	CUcontext other;
	SAY(cuMemAlloc(&p, 1000));
	SAY(cuMemFree(p));
	gm_sim_break(primary, CUDA_ERROR_ILLEGAL_ADDRESS);
	SAY(cuStreamSynchronize(NULL));
	SAY(cuMemAlloc(&p, 1000));
	SAY(cuMemAlloc(&p, 100));
	gm_sim_break(primary, CUDA_SUCCESS);
	MUST(cuCtxCreate_v2(&other, 0, 0));
	gm_sim_break(primary, CUDA_ERROR_ILLEGAL_ADDRESS);
	SAY(cuMemAlloc(&p, 1000));
	SAY(cuMemFree(p));
	MUST(cuCtxSetCurrent(primary));
	SAY(cuMemAlloc(&p, 1000));
	gm_sim_break(primary, CUDA_SUCCESS);
}

/* Memory that is allocated in a green context belongs to the primary context, and outlives the
 * green one. */
static void green(void)
{
	CUdevResource resource;
	CUdevResourceDesc description;
	CUgreenCtx green;
	CUcontext derived, owner;
	CUdeviceptr p;
	SAY(cuDeviceGetDevResource(0, &resource, CU_DEV_RESOURCE_TYPE_SM));
	SAY(cuDevResourceGenerateDesc(&description, &resource, 1));
	SAY(cuGreenCtxCreate(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	SAY(cuCtxFromGreenCtx(&derived, green));
	MUST(cuCtxSetCurrent(derived));
	SAY(cuMemAlloc(&p, 1000));
	SAY(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, p));
	printf("the primary's: %d\n", owner == primary);
	SAY(cuGreenCtxDestroy(green));
	MUST(cuCtxSetCurrent(primary));
	SAY(cuMemsetD8(p, 1, 1000));
	SAY(cuMemFree(p));
	SAY(cuMemFree(p));
}

static const struct {
	const char *name;
	void (*run)(void);
} all[] = {
	{"mappings", mappings}, {"shared", shared},	  {"context", context},
	{"graphs", graphs},	{"views", views},	  {"levels", levels},
	{"unknown", unknown},	{"overhead", overhead},	  {"launches", launches},
	{"nothing", nothing},	{"fault", fault},	  {"green", green},
	{"missed", missed},	{"elsewhere", elsewhere}, {"unpooled", unpooled},
};

int main(int argc, char **argv)
{
	MUST(cuInit(0));
	primary = use_device(0);
	for (size_t i = 0; i < sizeof all / sizeof *all && argc > 1; i++) {
		if (strcmp(all[i].name, argv[1]) != 0)
			continue;
		all[i].run();
		return 0;
	}
	return 2;
}
