// SPDX-License-Identifier: BSD-3-Clause
// Each road by which a program takes memory of a device: `roads ROAD [PIECES]` takes pieces of 64
// MiB until one is refused, or so many, and prints what cudaMemGetInfo says is free, in MiB, as it
// goes; then it gives all back, and calls cudaMalloc. roads.py runs it under GPUMEM_LIMIT, and
// compares the log. `roads list` names the roads.
#include <cstring>

#include "gpu.h"

static const size_t MIB = 1 << 20, PIECE = 64 * MIB;

static std::vector<void *> pieces;
static std::vector<cudaGraphExec_t> graphs;
static cudaMemPool_t pool;

static cudaError_t driver_error(CUresult result)
{
	return result == CUDA_ERROR_OUT_OF_MEMORY ? cudaErrorMemoryAllocation : (cudaError_t)result;
}

static cudaError_t keep(cudaError_t result, void *piece)
{
	if (result == cudaSuccess)
		pieces.push_back(piece);
	cudaGetLastError();
	return result;
}

static cudaError_t alloc_take()
{
	void *p = nullptr;
	cudaError_t result = cudaMalloc(&p, PIECE);
	return keep(result, p);
}

static void alloc_give(void *p)
{
	MUST(cudaFree(p));
}

static cudaError_t create_take()
{
	CUmemAllocationProp prop = {};
	CUmemGenericAllocationHandle handle = 0;
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	CUresult result = cuMemCreate(&handle, PIECE, &prop, 0);
	return keep(driver_error(result), (void *)handle);
}

static void create_give(void *p)
{
	cuMemRelease((CUmemGenericAllocationHandle)p);
}

// As expandable segments do it: the handle is released while it is mapped.
static cudaError_t mapped_take()
{
	CUmemAllocationProp prop = {};
	CUmemGenericAllocationHandle handle = 0;
	CUdeviceptr at = 0;
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	CUresult result = cuMemCreate(&handle, PIECE, &prop, 0);
	if (result != CUDA_SUCCESS)
		return driver_error(result);
	MUST(driver_error(cuMemAddressReserve(&at, PIECE, 0, 0, 0)));
	MUST(driver_error(cuMemMap(at, PIECE, 0, handle, 0)));
	MUST(driver_error(cuMemRelease(handle)));
	return keep(cudaSuccess, (void *)at);
}

static void mapped_give(void *p)
{
	MUST(driver_error(cuMemUnmap((CUdeviceptr)p, PIECE)));
	MUST(driver_error(cuMemAddressFree((CUdeviceptr)p, PIECE)));
}

static cudaError_t async_take()
{
	void *p = nullptr;
	cudaError_t result = cudaMallocAsync(&p, PIECE, 0);
	return keep(result, p);
}

static void async_give(void *p)
{
	MUST(cudaFreeAsync(p, 0));
	MUST(cudaStreamSynchronize(0));
}

// A pool that keeps what is freed.
static cudaError_t pool_take()
{
	void *p = nullptr;
	unsigned long long all = ~0ull;
	if (!pool) {
		cudaMemPoolProps props = {};
		props.allocType = cudaMemAllocationTypePinned;
		props.location.type = cudaMemLocationTypeDevice;
		MUST(cudaMemPoolCreate(&pool, &props));
		MUST(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
	}
	cudaError_t result = cudaMallocFromPoolAsync(&p, PIECE, pool, 0);
	return keep(result, p);
}

static cudaError_t array_take()
{
	cudaArray_t array = nullptr;
	cudaChannelFormatDesc format = cudaCreateChannelDesc<float4>();
	cudaError_t result = cudaMallocArray(&array, &format, 4096, 1024);
	return keep(result, array);
}

static void array_give(void *p)
{
	MUST(cudaFreeArray((cudaArray_t)p));
}

static cudaError_t managed_take()
{
	void *p = nullptr;
	cudaError_t result = cudaMallocManaged(&p, PIECE);
	return keep(result, p);
}

// A graph with one allocation, launched: its memory stays until the graph is launched again or
// trimmed.
static cudaError_t graph_take()
{
	cudaGraph_t graph;
	cudaGraphNode_t node;
	cudaGraphExec_t exec;
	cudaMemAllocNodeParams params = {};
	params.poolProps.allocType = cudaMemAllocationTypePinned;
	params.poolProps.location.type = cudaMemLocationTypeDevice;
	params.bytesize = PIECE;
	MUST(cudaGraphCreate(&graph, 0));
	MUST(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &params));
	MUST(cudaGraphInstantiateWithFlags(&exec, graph, 0));
	MUST(cudaGraphDestroy(graph));
	cudaError_t result = cudaGraphLaunch(exec, 0);
	MUST(cudaStreamSynchronize(0));
	graphs.push_back(exec);
	return keep(result, params.dptr);
}

static void graph_give(void *p)
{
	MUST(cudaFree(p));
}

// --- malloc in a kernel ---

static __global__ void heap_kernel(size_t bytes, int n, int *got)
{
	for (int i = 0; i < n; i++) {
		char *p = (char *)malloc(bytes);
		if (!p)
			return;
		*p = 1;
		*got = i + 1;
	}
}

static cudaError_t heap_take()
{
	static int *got;
	static bool taken;
	int n = 0;
	if (taken)
		return cudaErrorMemoryAllocation;
	taken = true;
	MUST(cudaMallocHost(&got, sizeof *got));
	*got = 0;
	heap_kernel<<<1, 1>>>(PIECE, 40, got);
	MUST(cudaDeviceSynchronize());
	n = *got;
	printf("heap: %d\n", n);
	return cudaErrorMemoryAllocation;
}

static void heap_give(void *)
{
}

static const struct road {
	const char *name;
	cudaError_t (*take)();
	void (*give)(void *p);
} roads[] = {
	{"alloc", alloc_take, alloc_give},     {"create", create_take, create_give},
	{"mapped", mapped_take, mapped_give},  {"async", async_take, async_give},
	{"pool", pool_take, async_give},       {"array", array_take, array_give},
	{"managed", managed_take, alloc_give}, {"graph", graph_take, graph_give},
	{"heap", heap_take, heap_give},
};

static void info_print(const char *when)
{
	size_t available, total;
	MUST(cudaMemGetInfo(&available, &total));
	printf("%s: %zu of %zu\n", when, available / MIB, total / MIB);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "list";
	const size_t most = argc > 2 ? (size_t)atoi(argv[2]) : 40;
	for (const road &road : roads) {
		cudaError_t result = cudaSuccess;
		if (strcmp(name, "list") == 0)
			puts(road.name);
		if (strcmp(name, road.name) != 0)
			continue;
		MUST(cudaFree(0));
		info_print("begin");
		while (pieces.size() < most && (result = road.take()) == cudaSuccess)
			info_print("took");
		printf("%zu pieces, then %s\n", pieces.size(), cudaGetErrorName(result));
		for (void *p : pieces)
			road.give(p);
		info_print("gave all");
		void *other = nullptr;
		printf("cudaMalloc: %s\n", cudaGetErrorName(cudaMalloc(&other, 8 * PIECE)));
	}
	return 0;
}
