/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that are not retried, and lack memory: `lacks` makes each call of CASES once, while the
 * simulated driver refuses it for lack of memory. `lacks list` prints their symbols.
 */
#include <cuda.h>

#include "program.h"
#include "steer.h"

#define SIZE ((size_t)4096)

static struct {
	CUdeviceptr block, managed, async;
	CUmemGenericAllocationHandle physical;
	CUdeviceptr mapped;
	CUmemoryPool pool;
	CUstream stream;
	CUevent event;
	CUgraph graph;
	CUcontext context, other;
	char host[SIZE];
} on;

static union {
	CUdeviceptr address;
	void *handle;
	CUgraphNode node;
} out;

static const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
static const CUmemAccessDesc reach = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
				      .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
static const CUmemPoolProps pool_props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

static void nothing(void *unused)
{
	(void)unused;
}

static CUDA_MEMSET_NODE_PARAMS fill = {.elementSize = 1, .width = SIZE, .height = 1};
static CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			     .dstMemoryType = CU_MEMORYTYPE_HOST,
			     .dstHost = on.host,
			     .WidthInBytes = SIZE,
			     .Height = 1,
			     .Depth = 1};

/* X(symbol of the driver, call) */
#define CASES                                                                                  \
	X(cuCtxEnablePeerAccess, cuCtxEnablePeerAccess(on.other, 0))                           \
	X(cuCtxSynchronize, cuCtxSynchronize())                                                \
	X(cuEventRecord, cuEventRecord(on.event, on.stream))                                   \
	X(cuEventSynchronize, cuEventSynchronize(on.event))                                    \
	X(cuGraphAddMemcpyNode,                                                                \
	  cuGraphAddMemcpyNode(&out.node, on.graph, NULL, 0, &copy, on.context))               \
	X(cuGraphAddMemsetNode,                                                                \
	  cuGraphAddMemsetNode(&out.node, on.graph, NULL, 0, &fill, on.context))               \
	X(cuGraphCreate, cuGraphCreate((void *)&out, 0))                                       \
	X(cuLaunchHostFunc, cuLaunchHostFunc(on.stream, nothing, NULL))                        \
	X(cuMemAddressReserve, cuMemAddressReserve(&out.address, 64 * MIB, 0, 0, 0))           \
	X(cuMemExportToShareableHandle,                                                        \
	  cuMemExportToShareableHandle(&out, on.physical,                                      \
				       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))           \
	X(cuMemFreeAsync, cuMemFreeAsync(on.async, on.stream))                                 \
	X(cuMemPoolSetAccess, cuMemPoolSetAccess(on.pool, &reach, 1))                          \
	X(cuMemRetainAllocationHandle,                                                         \
	  cuMemRetainAllocationHandle((void *)&out, (void *)on.mapped))                        \
	X(cuMemUnmap, cuMemUnmap(on.mapped, 2 * MIB))                                          \
	X(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync(on.block, on.block + SIZE, SIZE, on.stream)) \
	X(cuMemcpyDtoH_v2, cuMemcpyDtoH(on.host, on.block, SIZE))                              \
	X(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync(on.block, on.host, SIZE, on.stream))         \
	X(cuMemsetD8Async, cuMemsetD8Async(on.block, 1, SIZE, on.stream))                      \
	X(cuMemsetD8_v2, cuMemsetD8(on.block, 1, SIZE))                                        \
	X(cuStreamBeginCapture_v2,                                                             \
	  cuStreamBeginCapture(on.stream, CU_STREAM_CAPTURE_MODE_RELAXED))                     \
	X(cuStreamSynchronize, cuStreamSynchronize(on.stream))                                 \
	X(cuStreamWaitEvent, cuStreamWaitEvent(on.stream, on.event, 0))                        \
	X(cuStreamWriteValue32_v2, cuStreamWriteValue32(on.stream, on.block, 1, 0))

static void prepare(void)
{
	CUdevice device;
	MUST(cuInit(0));
	MUST(cuDeviceGet(&device, 1));
	MUST(cuDevicePrimaryCtxRetain(&on.other, device));
	on.context = use_device(0);
	MUST(cuMemAlloc(&on.block, 2 * SIZE));
	fill.dst = copy.srcDevice = on.block;
	MUST(cuMemCreate(&on.physical, 2 * MIB, &prop, 0));
	MUST(cuMemAddressReserve(&on.mapped, 2 * MIB, 0, 0, 0));
	MUST(cuMemMap(on.mapped, 2 * MIB, 0, on.physical, 0));
	MUST(cuMemPoolCreate(&on.pool, &pool_props));
	MUST(cuStreamCreate(&on.stream, CU_STREAM_NON_BLOCKING));
	MUST(cuMemAllocAsync(&on.async, SIZE, on.stream));
	MUST(cuEventCreate(&on.event, 0));
	MUST(cuGraphCreate(&on.graph, 0));
	MUST(cuCtxSynchronize());
}

#define X(symbol, call)                                            \
	static void lack_##symbol(void)                            \
	{                                                          \
		gm_sim_fail(#symbol, 1, CUDA_ERROR_OUT_OF_MEMORY); \
		say(#symbol, call);                                \
		gm_sim_fail(#symbol, 0, CUDA_SUCCESS);             \
	}
CASES
#undef X

static const struct {
	const char *symbol;
	void (*lack)(void);
} cases[] = {
#define X(symbol, call) {#symbol, lack_##symbol},
	CASES
#undef X
};

int main(int argc, char **argv)
{
	const bool list = argc > 1 && strcmp(argv[1], "list") == 0;
	if (!list)
		prepare();
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		if (list)
			puts(cases[i].symbol);
		else
			cases[i].lack();
	}
	return 0;
}
