/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of CUDA 13.1 to 13.4 that can get memory of the pool: `newer copies` with attributes,
 * `newer peers` the same between two devices, `newer bind` and `newer capture`.
 */
#include "../../shim/entry/hooks.h"

#include <dlfcn.h>

#include "program.h"

#define SIZE ((size_t)1000)

static struct {
#define GM_HOOK(symbol, type, flags, help) type symbol;
#include "driver/hooks.def"
#undef GM_HOOK
} entry;

static CUcontext context[2];
static CUdeviceptr dst, src;
static CUstream stream;
static CUmemcpyAttributes in_order = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};

static void arrived(const char *what, CUresult result)
{
	static unsigned char bytes[SIZE];
	size_t n = 0;
	MUST(cuStreamSynchronize(stream));
	MUST(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	MUST(cuMemcpyDtoH_v2(bytes, dst, SIZE));
	for (size_t i = 0; i < SIZE; i++)
		n += bytes[i] == 9;
	printf("%s: %s, %zu bytes arrived\n", what, result_name(result), n);
	MUST(cuMemsetD8_v2(dst, 0, SIZE));
	MUST(cuCtxSynchronize());
}

static CUDA_MEMCPY3D_BATCH_OP box(size_t width, size_t height)
{
	CUDA_MEMCPY3D_BATCH_OP op = {.extent = {width, height, 1},
				     .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
	op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
	op.src.op.ptr.ptr = src;
	op.dst.op.ptr.ptr = dst;
	op.src.op.ptr.rowLength = op.dst.op.ptr.rowLength = 100;
	return op;
}

static void copies(void)
{
	CUDA_MEMCPY3D_BATCH_OP fits = box(100, 10), high = box(100, 11), wide = box(101, 1);
	CUdeviceptr gone;
	MUST(cuMemsetD8_v2(src, 9, SIZE));
	MUST(cuMemsetD8_v2(dst, 0, SIZE));
	MUST(cuCtxSynchronize());
	arrived("a line", entry.cuMemcpyWithAttributesAsync(dst, src, SIZE, &in_order, stream));
	arrived("a line, own stream",
		entry.cuMemcpyWithAttributesAsync_ptsz(dst, src, SIZE, &in_order, NULL));
	arrived("a byte too long",
		entry.cuMemcpyWithAttributesAsync(dst, src, SIZE + 1, &in_order, stream));
	arrived("a byte too long, own stream",
		entry.cuMemcpyWithAttributesAsync_ptsz(dst, src, SIZE + 1, &in_order, NULL));
	arrived("without attributes",
		entry.cuMemcpyWithAttributesAsync(dst, src, SIZE, NULL, stream));
	arrived("a box", entry.cuMemcpy3DWithAttributesAsync(&fits, 0, stream));
	arrived("a box, own stream", entry.cuMemcpy3DWithAttributesAsync_ptsz(&fits, 0, NULL));
	arrived("a box too high", entry.cuMemcpy3DWithAttributesAsync(&high, 0, stream));
	arrived("a box too high, own stream",
		entry.cuMemcpy3DWithAttributesAsync_ptsz(&high, 0, NULL));
	arrived("a box too wide", entry.cuMemcpy3DWithAttributesAsync(&wide, 0, stream));
	arrived("no box", entry.cuMemcpy3DWithAttributesAsync(NULL, 0, stream));
	MUST(cuMemAlloc_v2(&gone, 3 * MIB));
	MUST(cuMemFree_v2(gone));
	arrived("from a freed block",
		entry.cuMemcpyWithAttributesAsync(dst, gone, 1, &in_order, stream));
}

/* Calls that need mapped or managed memory refuse memory of cuMemAlloc. */
static void bind_each(CUdeviceptr at, size_t size)
{
	CUmemLocation where = {0};
	SAY(entry.cuMemGetLocationInfo(at, size, size, 0, &where));
	SAY(entry.cuMulticastBindAddr(1, 0, at, size, 0));
	SAY(entry.cuMulticastBindAddr_v2(1, 0, 0, at, size, 0));
	SAY(entry.cuLogicalEndpointBindAddr(1, 0, 0, (void *)at, size, 0));
}

static void binds(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr block, mapped, managed;
	MUST(cuMemAlloc_v2(&block, 2 * MIB));
	puts("a block");
	bind_each(block, 2 * MIB);
	MUST(cuMemFree_v2(block));
	puts("a freed block");
	bind_each(block, 2 * MIB);
	MUST(cuMemAddressReserve(&mapped, 2 * MIB, 0, 0, 0));
	MUST(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	MUST(cuMemMap(mapped, 2 * MIB, 0, handle, 0));
	puts("mapped memory of the program");
	bind_each(mapped, 2 * MIB);
	MUST(cuMemUnmap(mapped, 2 * MIB));
	MUST(cuMemRelease(handle));
	MUST(cuMemAddressFree(mapped, 2 * MIB));
	MUST(cuMemAllocManaged(&managed, 2 * MIB, CU_MEM_ATTACH_GLOBAL));
	puts("managed memory");
	bind_each(managed, 2 * MIB);
	MUST(cuMemFree_v2(managed));
}

/* A free during the second capture into a graph: a fence would invalidate the capture. */
static void recapture(bool own)
{
	CUdeviceptr block;
	CUgraphExec exec;
	CUgraph graph, again;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUstream on = own ? CU_STREAM_PER_THREAD : stream;
	MUST(cuMemsetD8_v2(src, 9, SIZE));
	MUST(cuMemsetD8_v2(dst, 0, SIZE));
	MUST(cuMemAlloc_v2(&block, 3 * MIB));
	MUST(cuCtxSynchronize());
	MUST(cuStreamBeginCapture_v2(on, mode));
	MUST(cuMemcpyDtoDAsync_v2(dst, src, 10, on));
	MUST(cuStreamEndCapture(on, &graph));
	CUresult begun =
		own ? entry.cuStreamBeginRecaptureToGraph_ptsz(NULL, mode, graph, NULL, NULL)
		    : entry.cuStreamBeginRecaptureToGraph(on, mode, graph, NULL, NULL);
	say("recapture", begun);
	SAY(cuMemFree_v2(block));
	SAY(cuMemcpyDtoDAsync_v2(dst, src, 20, on));
	SAY(cuStreamEndCapture(on, &again));
	printf("the same graph: %d\n", graph == again);
	MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
	MUST(cuGraphLaunch(exec, on));
	arrived("captured anew", CUDA_SUCCESS);
	MUST(cuGraphExecDestroy(exec));
	MUST(cuGraphDestroy(graph));
	SAY(entry.cuStreamBeginRecaptureToGraph(stream, mode, NULL, NULL, NULL));
}

/* For graphics, which are absent here: the call fails, and leaves no capture open. */
static void graphics(void)
{
	CUdeviceptr block;
	SAY(entry.cuStreamBeginCaptureToCig(stream, NULL));
	SAY(entry.cuStreamBeginCaptureToCig_ptsz(NULL, NULL));
	MUST(cuMemAlloc_v2(&block, 3 * MIB));
	SAY(cuMemFree_v2(block));
	SAY(entry.cuStreamEndCaptureToCig(stream));
	SAY(entry.cuStreamEndCaptureToCig_ptsz(NULL));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	bool peers = strcmp(what, "peers") == 0;
#define GM_HOOK(symbol, type, flags, help) entry.symbol = (type)dlsym(RTLD_DEFAULT, #symbol);
#include "driver/hooks.def"
#undef GM_HOOK
	MUST(cuInit(0));
	if (peers) {
		context[1] = use_device(1);
		MUST(cuMemAlloc_v2(&src, SIZE));
	}
	context[0] = use_device(0);
	if (!peers)
		MUST(cuMemAlloc_v2(&src, SIZE));
	MUST(cuMemAlloc_v2(&dst, SIZE));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	if (peers || strcmp(what, "copies") == 0)
		copies();
	else if (strcmp(what, "bind") == 0)
		binds();
	else
		recapture(false), recapture(true), graphics();
	return 0;
}
