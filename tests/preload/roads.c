/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each road by which a process takes memory of a device, under GPUMEM_LIMIT: `roads ROAD [PIECES
 * [hold]]` takes pieces of 10 MiB until one is refused, or so many, and prints cuMemGetInfo as it
 * goes. Then it gives one back, takes another one by cuMemAlloc, and gives all back. `roads list`
 * names them.
 */
#include <pthread.h>

#include "program.h"
#include "sim/sim.h"

#define PIECE (10 * MIB)
enum { MOST = 64 };

union piece {
	CUdeviceptr address;
	CUarray array;
	CUmipmappedArray mipmap;
	CUmemGenericAllocationHandle handle;
};

static CUmemoryPool pool;
static CUgraph graph;
static const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
static const CUmemPoolProps pool_props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

/* --- roads --- */

static CUresult alloc_take(union piece *p)
{
	return cuMemAlloc(&p->address, PIECE);
}

static CUresult alloc_give(union piece *p)
{
	return cuMemFree(p->address);
}

static CUresult create_take(union piece *p)
{
	return cuMemCreate(&p->handle, PIECE, &prop, 0);
}

static CUresult create_give(union piece *p)
{
	return cuMemRelease(p->handle);
}

/* Mapped twice, retained, and released: all of these are one piece of memory. */
static CUresult mapped_take(union piece *p)
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
	p->address = at;
	return CUDA_SUCCESS;
}

static CUresult mapped_give(union piece *p)
{
	MUST(cuMemUnmap(p->address, PIECE));
	MUST(cuMemUnmap(p->address + PIECE, PIECE));
	return cuMemAddressFree(p->address, 2 * PIECE);
}

static CUresult async_take(union piece *p)
{
	return cuMemAllocAsync(&p->address, PIECE, NULL);
}

static CUresult async_give(union piece *p)
{
	MUST(cuMemFreeAsync(p->address, NULL));
	return cuStreamSynchronize(NULL);
}

static CUresult pool_take(union piece *p)
{
	if (!pool)
		MUST(cuMemPoolCreate(&pool, &pool_props));
	return cuMemAllocFromPoolAsync(&p->address, PIECE, pool, NULL);
}

static CUresult array_take(union piece *p)
{
	const CUDA_ARRAY_DESCRIPTOR d = {.Width = MIB,
					 .Height = PIECE / MIB,
					 .Format = CU_AD_FORMAT_UNSIGNED_INT8,
					 .NumChannels = 1};
	return cuArrayCreate(&p->array, &d);
}

static CUresult array_give(union piece *p)
{
	return cuArrayDestroy(p->array);
}

static CUresult mipmap_take(union piece *p)
{
	const CUDA_ARRAY3D_DESCRIPTOR d = {.Width = MIB,
					   .Height = PIECE / MIB,
					   .Format = CU_AD_FORMAT_UNSIGNED_INT8,
					   .NumChannels = 1};
	return cuMipmappedArrayCreate(&p->mipmap, &d, 1);
}

static CUresult mipmap_give(union piece *p)
{
	return cuMipmappedArrayDestroy(p->mipmap);
}

static CUresult managed_take(union piece *p)
{
	return cuMemAllocManaged(&p->address, PIECE, CU_MEM_ATTACH_GLOBAL);
}

static CUresult graph_take(union piece *p)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {.poolProps = pool_props, .bytesize = PIECE};
	CUgraphNode node;
	if (!graph)
		MUST(cuGraphCreate(&graph, 0));
	CUresult result = cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params);
	p->address = params.dptr;
	return result;
}

/* The memory of a graph's nodes goes with the graph. */
static CUresult graph_give(union piece *p)
{
	CUgraph whole = graph;
	(void)p;
	graph = NULL;
	return whole ? cuGraphDestroy(whole) : CUDA_SUCCESS;
}

static const struct road {
	const char *name;
	CUresult (*take)(union piece *p);
	CUresult (*give)(union piece *p);
} roads[] = {
	{"alloc", alloc_take, alloc_give},    {"create", create_take, create_give},
	{"mapped", mapped_take, mapped_give}, {"async", async_take, async_give},
	{"pool", pool_take, async_give},      {"array", array_take, array_give},
	{"mipmap", mipmap_take, mipmap_give}, {"managed", managed_take, alloc_give},
	{"graph", graph_take, graph_give},
};
#define ROADS (sizeof roads / sizeof *roads)

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
	static union piece piece[MOST];
	unsigned pieces = 0;
	CUdeviceptr other;
	CUresult result = CUDA_SUCCESS;
	MUST(cuInit(0));
	use_device(0);
	info_print("begin");
	while (pieces < most && (result = road->take(&piece[pieces])) == CUDA_SUCCESS) {
		pieces++;
		info_print("took");
	}
	printf("%u pieces, then %s\n", pieces, result_name(result));
	if (hold) {
		fflush(stdout);
		(void)getchar();
	}
	if (pieces)
		MUST(road->give(&piece[0]));
	info_print("gave one");
	printf("cuMemAlloc: %s\n", result_name(cuMemAlloc(&other, PIECE)));
	for (unsigned i = 1; i < pieces; i++)
		MUST(road->give(&piece[i]));
	info_print("gave all");
	return 0;
}

/* --- threads that take and give one piece again and again, each by its road --- */

struct racer {
	const struct road *road;
	unsigned refused;
	size_t used; /* the most that the device itself says */
};

enum { TURNS = 200 };

static void *racer_run(void *arg)
{
	struct racer *racer = arg;
	CUresult (*ask)(size_t * available, size_t * total) =
		gm_sim_symbol(NULL, "cuMemGetInfo_v2");
	union piece piece;
	use_device(0);
	for (unsigned i = 0; i < TURNS; i++) {
		size_t available, total;
		if (racer->road->take(&piece) != CUDA_SUCCESS) {
			racer->refused++;
			continue;
		}
		if (ask(&available, &total) == CUDA_SUCCESS && total - available > racer->used)
			racer->used = total - available;
		MUST(racer->road->give(&piece));
	}
	return NULL;
}

static int race_run(const char *const *names, unsigned n)
{
	struct racer racers[MOST] = {{0}};
	pthread_t threads[MOST];
	unsigned refused = 0;
	size_t used = 0;
	MUST(cuInit(0));
	use_device(0);
	for (unsigned i = 0; i < n && i < MOST; i++) {
		for (size_t r = 0; r < ROADS; r++)
			if (strcmp(names[i], roads[r].name) == 0)
				racers[i].road = &roads[r];
		if (!racers[i].road || pthread_create(&threads[i], NULL, racer_run, &racers[i]))
			return 2;
	}
	for (unsigned i = 0; i < n && i < MOST; i++) {
		pthread_join(threads[i], NULL);
		refused += racers[i].refused;
		used = racers[i].used > used ? racers[i].used : used;
	}
	printf("refused %u of %u, at most %zu MiB\n", refused, n * TURNS, used / MIB);
	info_print("end");
	return 0;
}

/* --- other cases --- */

/* Device 0's context is current; the stream is of device 1. */
static int elsewhere_run(void)
{
	union piece piece;
	CUstream stream;
	CUresult result;
	unsigned n = 0;
	MUST(cuInit(0));
	use_device(1);
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	use_device(0);
	while ((result = cuMemAllocAsync(&piece.address, PIECE, stream)) == CUDA_SUCCESS)
		n++;
	printf("device 1: %u pieces, then %s\n", n, result_name(result));
	info_print("device 0");
	use_device(1);
	info_print("device 1");
	return 0;
}

/* Take pieces until one is refused. Returns the calls that trimmed a pool for that one. */
static unsigned pool_exhaust(CUmemoryPool from, unsigned *pieces)
{
	CUdeviceptr p;
	unsigned before;
	*pieces = 0;
	for (;; ++*pieces) {
		before = gm_sim_calls("cuMemPoolTrimTo");
		if (cuMemAllocFromPoolAsync(&p, PIECE, from, NULL) != CUDA_SUCCESS)
			return gm_sim_calls("cuMemPoolTrimTo") - before;
	}
}

/* Each device has a pool of the program's, beside its own. */
static int pools_run(void)
{
	CUmemoryPool own, of_program[2];
	unsigned n, none;
	MUST(cuInit(0));
	for (int i = 0; i < 2; i++) {
		CUmemPoolProps props = pool_props;
		props.location.id = i;
		use_device(i);
		MUST(cuMemPoolCreate(&of_program[i], &props));
	}
	for (int i = 1; i >= 0; i--) {
		use_device(i);
		MUST(cuDeviceGetDefaultMemPool(&own, i));
		unsigned both = pool_exhaust(of_program[i], &n);
		MUST(cuMemPoolDestroy(of_program[i])); /* its memory stays */
		unsigned alone = pool_exhaust(own, &none);
		printf("device %d: %u pieces, then %u; trims: %s\n", i, n, none,
		       alone && both == 2 * alone ? "of both pools" : "others");
	}
	return 0;
}

static int after_graph_run(void)
{
	union piece piece;
	CUdeviceptr p;
	MUST(cuInit(0));
	use_device(0);
	for (unsigned i = 0; i < 4; i++)
		MUST(graph_take(&piece));
	printf("cuMemAlloc: %s\n", result_name(cuMemAlloc(&p, 40 * MIB)));
	printf("cuMemAlloc: %s\n", result_name(cuMemAlloc(&p, 24 * MIB)));
	return 0;
}

static int odd_run(void)
{
	CUresult (*ask)(size_t * available, size_t * total) =
		gm_sim_symbol(NULL, "cuMemGetInfo_v2");
	size_t available, total;
	unsigned n = 0;
	CUdeviceptr p;
	MUST(cuInit(0));
	use_device(0);
	while (cuMemAlloc(&p, 2 * MIB + 100000) == CUDA_SUCCESS)
		n++;
	MUST(ask(&available, &total));
	printf("%u blocks, %zu MiB of the device\n", n, (total - available) / MIB);
	return 0;
}

static int rows_run(void)
{
	const size_t rows[] = {100, 20};
	CUdeviceptr p;
	MUST(cuInit(0));
	use_device(0);
	for (unsigned i = 0; i < 2; i++) {
		size_t pitch = 0;
		CUresult result = cuMemAllocPitch(&p, &pitch, MIB, rows[i], 4);
		printf("cuMemAllocPitch: %s pitch %zu\n", result_name(result), pitch);
	}
	return 0;
}

static int invalid_run(void)
{
	const size_t much = 128 * MIB;
	CUmemAllocationProp nowhere = prop;
	CUmemGenericAllocationHandle handle;
	CUdeviceptr p;
	const CUDA_ARRAY_DESCRIPTOR large = {.Width = MIB,
					     .Height = much / MIB,
					     .Format = CU_AD_FORMAT_UNSIGNED_INT8,
					     .NumChannels = 1};
	CUarray array;
	CUstream stream;
	CUgraph none;
	size_t pitch;
	nowhere.location.id = -1;
	MUST(cuInit(0));
	use_device(0);
	SAY(cuMemCreate(NULL, much, &prop, 0));
	SAY(cuMemCreate(&handle, much + 1, &prop, 0));
	SAY(cuMemCreate(&handle, SIZE_MAX, &prop, 0));
	SAY(cuMemCreate(&handle, much, NULL, 0));
	SAY(cuMemCreate(&handle, much, &nowhere, 0));
	SAY(cuMemCreate(&handle, much, &prop, 1));
	SAY(cuArrayCreate(NULL, &large));
	SAY(cuArrayCreate(&array, NULL));
	SAY(cuMemAllocAsync(NULL, much, NULL));
	SAY(cuMemAllocAsync(&p, 0, NULL));
	SAY(cuMemAllocFromPoolAsync(&p, much, NULL, NULL));
	SAY(cuMemAllocPitch(&p, &pitch, MIB, much / MIB, 3));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	SAY(cuArrayCreate(&array, &large));
	SAY(cuMemAllocAsync(&p, much, stream));
	SAY(cuStreamEndCapture(stream, &none));
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} others[] = {{"elsewhere", elsewhere_run}, {"pools", pools_run}, {"after_graph", after_graph_run},
	      {"invalid", invalid_run},	    {"rows", rows_run},	  {"odd", odd_run}};

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	const unsigned most = argc > 2 ? (unsigned)atoi(argv[2]) : MOST;
	if (strcmp(name, "race") == 0)
		return race_run((const char *const *)argv + 2, (unsigned)argc - 2);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (strcmp(name, others[i].name) == 0)
			return others[i].run();
	for (size_t i = 0; i < ROADS; i++) {
		if (strcmp(name, "list") == 0)
			puts(roads[i].name);
		else if (strcmp(name, roads[i].name) == 0)
			return road_run(&roads[i], most < MOST ? most : MOST, argc > 3);
	}
	return strcmp(name, "list") == 0 ? 0 : 2;
}
