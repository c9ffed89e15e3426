/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each road by which a process takes memory of a device, under GPUMEM_LIMIT: `roads ROAD [PIECES
 * [hold]]` takes pieces of 10 MiB until one is refused, or so many, and prints cuMemGetInfo as it
 * goes. Then it gives one back, takes another one by cuMemAlloc, and gives all back. `roads list`
 * names them.
 */
#include "program.h"

#define PIECE (10 * MIB)
enum { MOST = 64 };

static union {
	CUdeviceptr address;
	CUarray array;
	CUmipmappedArray mipmap;
	CUmemGenericAllocationHandle handle;
} piece[MOST];
static unsigned pieces;

static CUmemoryPool pool;
static CUgraph graph;
static const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
static const CUmemPoolProps pool_props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

/* --- roads --- */

static CUresult alloc_take(void)
{
	return cuMemAlloc(&piece[pieces].address, PIECE);
}

static CUresult alloc_give(unsigned i)
{
	return cuMemFree(piece[i].address);
}

static CUresult create_take(void)
{
	return cuMemCreate(&piece[pieces].handle, PIECE, &prop, 0);
}

static CUresult create_give(unsigned i)
{
	return cuMemRelease(piece[i].handle);
}

/* Mapped twice, retained, and released: all of these are one piece of memory. */
static CUresult mapped_take(void)
{
	CUmemGenericAllocationHandle handle, again;
	CUdeviceptr at;
	CUresult result = cuMemCreate(&handle, PIECE, &prop, 0);
	if (result != CUDA_SUCCESS)
		return result;
	MUST(cuMemAddressReserve(&at, 2 * PIECE, 0, 0, 0));
	MUST(cuMemMap(at, PIECE, 0, handle, 0));
	MUST(cuMemMap(at + PIECE, PIECE, 0, handle, 0));
	MUST(cuMemRetainAllocationHandle(&again, (void *)at));
	MUST(cuMemRelease(handle));
	MUST(cuMemRelease(again));
	piece[pieces].address = at;
	return CUDA_SUCCESS;
}

static CUresult mapped_give(unsigned i)
{
	MUST(cuMemUnmap(piece[i].address, PIECE));
	MUST(cuMemUnmap(piece[i].address + PIECE, PIECE));
	return cuMemAddressFree(piece[i].address, 2 * PIECE);
}

static CUresult async_take(void)
{
	return cuMemAllocAsync(&piece[pieces].address, PIECE, NULL);
}

static CUresult async_give(unsigned i)
{
	MUST(cuMemFreeAsync(piece[i].address, NULL));
	return cuStreamSynchronize(NULL);
}

static CUresult pool_take(void)
{
	if (!pool)
		MUST(cuMemPoolCreate(&pool, &pool_props));
	return cuMemAllocFromPoolAsync(&piece[pieces].address, PIECE, pool, NULL);
}

static CUresult array_take(void)
{
	const CUDA_ARRAY_DESCRIPTOR d = {.Width = MIB,
					 .Height = PIECE / MIB,
					 .Format = CU_AD_FORMAT_UNSIGNED_INT8,
					 .NumChannels = 1};
	return cuArrayCreate(&piece[pieces].array, &d);
}

static CUresult array_give(unsigned i)
{
	return cuArrayDestroy(piece[i].array);
}

static CUresult mipmap_take(void)
{
	const CUDA_ARRAY3D_DESCRIPTOR d = {.Width = MIB,
					   .Height = PIECE / MIB,
					   .Format = CU_AD_FORMAT_UNSIGNED_INT8,
					   .NumChannels = 1};
	return cuMipmappedArrayCreate(&piece[pieces].mipmap, &d, 1);
}

static CUresult mipmap_give(unsigned i)
{
	return cuMipmappedArrayDestroy(piece[i].mipmap);
}

static CUresult managed_take(void)
{
	return cuMemAllocManaged(&piece[pieces].address, PIECE, CU_MEM_ATTACH_GLOBAL);
}

static CUresult graph_take(void)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps = pool_props, .bytesize = PIECE};
	CUgraphNode node;
	if (!graph)
		MUST(cuGraphCreate(&graph, 0));
	return cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params);
}

/* The memory of a graph's nodes goes with the graph. */
static CUresult graph_give(unsigned i)
{
	CUgraph whole = graph;
	graph = NULL;
	return i == 0 && whole ? cuGraphDestroy(whole) : CUDA_SUCCESS;
}

static const struct road {
	const char *name;
	CUresult (*take)(void);
	CUresult (*give)(unsigned i);
} roads[] = {
	{"alloc", alloc_take, alloc_give},    {"create", create_take, create_give},
	{"mapped", mapped_take, mapped_give}, {"async", async_take, async_give},
	{"pool", pool_take, async_give},      {"array", array_take, array_give},
	{"mipmap", mipmap_take, mipmap_give}, {"managed", managed_take, alloc_give},
	{"graph", graph_take, graph_give},
};

/* --- */

static void info_print(const char *when)
{
	size_t available, total;
	MUST(cuMemGetInfo(&available, &total));
	printf("%s: %zu of %zu\n", when, available / MIB, total / MIB);
}

/* `hold`: wait for a character while all pieces are there. */
static int road_run(const struct road *road, unsigned most, bool hold)
{
	CUdeviceptr other;
	CUresult result = CUDA_SUCCESS;
	MUST(cuInit(0));
	use_device(0);
	info_print("begin");
	while (pieces < most && (result = road->take()) == CUDA_SUCCESS) {
		pieces++;
		info_print("took");
	}
	printf("%u pieces, then %s\n", pieces, result_name(result));
	if (hold) {
		fflush(stdout);
		(void)getchar();
	}
	if (pieces)
		MUST(road->give(0));
	info_print("gave one");
	printf("cuMemAlloc: %s\n", result_name(cuMemAlloc(&other, PIECE)));
	for (unsigned i = 1; i < pieces; i++)
		MUST(road->give(i));
	info_print("gave all");
	return 0;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	const unsigned most = argc > 2 ? (unsigned)atoi(argv[2]) : MOST;
	for (size_t i = 0; i < sizeof roads / sizeof *roads; i++) {
		if (strcmp(name, "list") == 0)
			puts(roads[i].name);
		else if (strcmp(name, roads[i].name) == 0)
			return road_run(&roads[i], most < MOST ? most : MOST, argc > 3);
	}
	return strcmp(name, "list") == 0 ? 0 : 2;
}
