/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is lent of a cache like PyTorch's (lend/cache.h) and what is not: `lend_cases CASE`, on a
 * device of 256 MiB. Prints what could be allocated, and whether contents are intact.
 */
#include <pthread.h>
#include <unistd.h>

#include "lend/open.h"
#include "program.h"
#include "steer.h"

#define SEGMENT (160 * MIB)
#define PAGE 4096

static const struct lend_cache *cache;
static CUstream stream;

/* --- memory, used as the device would: a chunk without memory faults --- */

static void fill(CUdeviceptr at, size_t size, unsigned char value)
{
	for (size_t i = 0; i < size; i += PAGE)
		*(volatile unsigned char *)(uintptr_t)(at + i) = value;
}

static void check(const char *what, CUdeviceptr at, size_t size, unsigned char value)
{
	size_t wrong = 0;
	for (size_t i = 0; i < size; i += PAGE)
		wrong += *(volatile unsigned char *)(uintptr_t)(at + i) != value;
	printf("%s: %zu pages are wrong\n", what, wrong);
}

static struct lend_block *tensor(const char *what, size_t size, unsigned char value)
{
	struct lend_block *block = cache->take(size, stream);
	printf("%s, %zu MiB: %s\n", what, size / MIB, block ? "made" : "refused");
	if (block)
		fill(cache->address(block), size, value);
	return block;
}

static CUdeviceptr block(const char *what, size_t size, unsigned char value)
{
	CUdeviceptr at = 0;
	CUresult result = cuMemAlloc(&at, size);
	printf("%s, %zu MiB: %s\n", what, size / MIB, result_name(result));
	if (result != CUDA_SUCCESS)
		return 0;
	fill(at, size, value);
	return at;
}

/* A segment of which nothing is in use. */
static void segment_unused(void)
{
	struct lend_block *first = tensor("tensor", SEGMENT, 1);
	if (!first)
		exit(1);
	cache->give(first);
}

/* --- cases --- */

/* An unused segment serves a block, and gets memory again after the block. */
static void lent(void)
{
	segment_unused();
	CUdeviceptr at = block("block", SEGMENT, 2);
	struct lend_block *small = tensor("tensor beside it", 64 * MIB, 3);
	if (at)
		check("block", at, SEGMENT, 2);
	if (small)
		check("tensor", cache->address(small), 64 * MIB, 3);
	if (at)
		MUST(cuMemFree(at));
	struct lend_block *rest = tensor("the rest of the segment", SEGMENT - 64 * MIB, 4);
	if (small)
		check("tensor", cache->address(small), 64 * MIB, 3);
	if (small)
		cache->give(small);
	if (rest)
		cache->give(rest);
	printf("segments freed: %d\n", cache->empty());
}

/* Another tensor of the cache gets the memory. */
static void cached(void)
{
	segment_unused();
	struct lend_block *large = tensor("larger tensor", SEGMENT + 20 * MIB, 2);
	struct lend_block *small = tensor("tensor", 40 * MIB, 3);
	if (large)
		check("larger tensor", cache->address(large), SEGMENT + 20 * MIB, 2);
	if (small)
		check("tensor", cache->address(small), 40 * MIB, 3);
}

/* The program's own block is not lent, whatever is in use of it. */
static void own(void)
{
	CUdeviceptr at = block("own block", SEGMENT, 1);
	struct lend_block *some = tensor("tensor", 4 * MIB, 2);
	cache->give(some);
	block("another one", SEGMENT, 3);
	check("own block", at, SEGMENT, 1);
}

/* Another process may use a segment that was named to it. */
static void named(void)
{
	CUipcMemHandle handle;
	struct lend_block *first = tensor("tensor", SEGMENT, 1);
	const CUdeviceptr at = cache->address(first);
	MUST(cuIpcGetMemHandle(&handle, at));
	cache->give(first);
	block("block", SEGMENT, 2);
	check("named segment", at, SEGMENT, 1);
}

/* What a capture touched stays until the segment is freed. */
static void captured(void)
{
	CUgraph graph;
	struct lend_pool *pool = cache->capture_begin(NULL);
	MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	struct lend_block *first = cache->take(SEGMENT, stream);
	const CUdeviceptr at = cache->address(first);
	MUST(cuMemsetD8Async(at, 1, SEGMENT, stream));
	cache->give(first);
	MUST(cuStreamEndCapture(stream, &graph));
	cache->capture_end();
	fill(at, SEGMENT, 5);
	block("block", SEGMENT, 2);
	check("memory of the graph", at, SEGMENT, 5);
	MUST(cuGraphDestroy(graph));
	cache->pool_release(pool);
	printf("segments freed: %d\n", cache->empty());
	block("block", SEGMENT, 2);
}

/* Work that was submitted before the free, and has not run. */
static void late_write(void *arg)
{
	fill((CUdeviceptr)(uintptr_t)arg, SEGMENT, 7);
}

static void *gpu_run(void *arg)
{
	usleep(30000);
	gm_sim_release(stream, -1u);
	return arg;
}

static void late(void)
{
	pthread_t gpu;
	struct lend_block *first = tensor("tensor", SEGMENT, 1);
	gm_sim_hold(stream);
	MUST(gm_sim_launch(stream, late_write, (void *)(uintptr_t)cache->address(first)));
	cache->give(first);
	pthread_create(&gpu, NULL, gpu_run, NULL);
	CUdeviceptr at = block("block", SEGMENT, 2);
	pthread_join(gpu, NULL);
	if (at)
		check("block", at, SEGMENT, 2);
}

/* The device has no memory for a tensor: the host has for some, then PyTorch says so. */
static struct lend_block *lack(CUdeviceptr *taken, struct lend_block **host)
{
	struct lend_counts counts;
	segment_unused();
	*taken = block("block", 256 * MIB, 2);
	*host = tensor("tensor", 6 * MIB, 3);
	struct lend_block *none = tensor("larger tensor", 32 * MIB, 4);
	cache->counts(&counts);
	printf("%llu were thrown\n", (unsigned long long)counts.thrown);
	return none;
}

static void host(void)
{
	CUdeviceptr taken;
	struct lend_block *small, *other;
	lack(&taken, &small);
	check("block", taken, 256 * MIB, 2);
	if (small)
		check("tensor", cache->address(small), 6 * MIB, 3);
	MUST(cuMemFree(taken));
	other = tensor("larger tensor", 32 * MIB, 5);
	if (small)
		check("tensor", cache->address(small), 6 * MIB, 3);
	if (other)
		check("larger tensor", cache->address(other), 32 * MIB, 5);
}

/* The host's memory below a graph stays when another graph gets it. */
static CUgraphExec graph_make(struct lend_pool **pool, size_t size, CUdeviceptr *at)
{
	CUgraph graph;
	CUgraphExec exec;
	*pool = cache->capture_begin(*pool);
	MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	struct lend_block *some = cache->take(size, stream);
	*at = some ? cache->address(some) : 0;
	if (some) {
		MUST(cuMemsetD8Async(*at, 9, size, stream));
		cache->give(some);
	}
	MUST(cuStreamEndCapture(stream, &graph));
	cache->capture_end();
	MUST(cuGraphInstantiate(&exec, graph, 0));
	MUST(cuGraphDestroy(graph));
	printf("graph with %zu MiB: %s\n", size / MIB, some ? "made" : "refused");
	return exec;
}

static void graphs(void)
{
	struct lend_pool *pool = NULL;
	CUdeviceptr first, second, third;
	struct lend_block *other = tensor("tensor", 20 * MIB, 2);
	graph_make(&pool, 9 * MIB, &first); /* of a segment of 20 MiB: the rest can be lent */
	block("block", 226 * MIB, 3);
	CUgraphExec exec = graph_make(&pool, 17 * MIB, &second);
	cache->give(other);
	block("small block", 20 * MIB, 4); /* waits for all work so far */
	MUST(cuGraphLaunch(exec, stream));
	check("memory of the graph", second, 17 * MIB, 9);
	graph_make(&pool, 17 * MIB, &third);
	printf("the same memory: %d\n", second == third);
	check("memory of the graph", second, 17 * MIB, 9);
}

/* GPUMEM_FREE=ordered: a new segment has memory that work from before its free still uses. */
static void hot_write(void *arg)
{
	fill((CUdeviceptr)(uintptr_t)arg, 20 * MIB, 7);
}

static void hot(void)
{
	pthread_t gpu;
	const CUdeviceptr old = block("own block", 20 * MIB, 1);
	gm_sim_hold(stream);
	MUST(gm_sim_launch(stream, hot_write, (void *)(uintptr_t)old));
	MUST(cuMemFree(old));
	struct lend_block *some = cache->take(2 * MIB, stream);
	printf("the same memory: %d\n", some && cache->address(some) - old < 20 * MIB);
	pthread_create(&gpu, NULL, gpu_run, NULL);
	CUdeviceptr at = block("block", 248 * MIB, 2);
	pthread_join(gpu, NULL);
	if (at)
		check("block", at, 248 * MIB, 2);
}

/* A lack of memory of the host, or of another device, takes nothing. */
static void elsewhere(void)
{
	const CUmemAllocationProp other = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}};
	CUmemGenericAllocationHandle handle;
	void *at = NULL;
	segment_unused();
	gm_sim_fail("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
	printf("host: %s\n", result_name(cuMemHostAlloc(&at, MIB, 0)));
	printf("device 1: %s\n", result_name(cuMemCreate(&handle, 300 * MIB, &other, 0)));
}

/* What is in memory of the host cannot be shared. */
static void shared(void)
{
	CUipcMemHandle handle;
	CUdeviceptr taken;
	struct lend_block *small;
	lack(&taken, &small);
	MUST(cuMemFree(taken));
	printf("handle: %s\n", result_name(cuIpcGetMemHandle(&handle, cache->address(small))));
	check("tensor", cache->address(small), 6 * MIB, 3);
}

/* A segment is named to another process while its memory is being taken: from the call number
 * LEND_UNMAPS of cuMemUnmap on. */
static CUcontext context;
static CUdeviceptr segment_at;
static pthread_t namer;
static unsigned unmaps;
static bool names, named_at_last;

static void *name_it(void *arg)
{
	CUipcMemHandle handle;
	MUST(cuCtxSetCurrent(context));
	/* Out of memory: a part of it serves the block already, and the device has no other. */
	CUresult result = cuIpcGetMemHandle(&handle, segment_at);
	named_at_last = result == CUDA_SUCCESS;
	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		MUST(result);
	return arg;
}

static void before_unmap(void)
{
	const char *first = getenv("LEND_UNMAPS");
	if (unmaps++ < (first ? (unsigned)atoi(first) : 0)) {
		gm_sim_before("cuMemUnmap", before_unmap);
		return;
	}
	names = pthread_create(&namer, NULL, name_it, NULL) == 0;
	usleep(20000);
}

static void naming(void)
{
	struct lend_block *first = tensor("tensor", SEGMENT, 1);
	struct lend_block *kept;
	segment_at = cache->address(first);
	cache->give(first);
	kept = tensor("kept tensor", 8 * MIB, 3);
	MUST(cuCtxGetCurrent(&context));
	MUST(cuCtxSynchronize());
	gm_sim_before("cuMemUnmap", before_unmap);
	const CUdeviceptr at = block("block", 200 * MIB, 2);
	if (names)
		pthread_join(namer, NULL);
	else
		name_it(NULL);
	check("kept tensor", cache->address(kept), 8 * MIB, 3);
	if (named_at_last) {
		fill(segment_at + 8 * MIB, SEGMENT - 8 * MIB, 5);
		check("named segment", segment_at + 8 * MIB, SEGMENT - 8 * MIB, 5);
	}
	if (at)
		check("block", at, 200 * MIB, 2);
}

/* Memory of the host under a tensor stays when lending ends, also below further tensors. */
static void ends(enum lend_wrong wrong)
{
	CUdeviceptr taken;
	struct lend_block *small, *other, *third;
	segment_unused();
	taken = block("block", 256 * MIB, 2);
	small = tensor("tensor", 5 * MIB, 3);
	MUST(cuCtxSynchronize());
	cache->wrong(wrong, small);
	other = tensor("small tensor", 2 * MIB, 4);
	check("block", taken, 256 * MIB, 2);
	check("tensor", cache->address(small), 5 * MIB, 3);
	if (other)
		check("small tensor", cache->address(other), 2 * MIB, 4);
	MUST(cuMemFree(taken));
	third = tensor("third tensor", 32 * MIB, 5);
	check("tensor", cache->address(small), 5 * MIB, 3);
	if (other)
		check("small tensor", cache->address(other), 2 * MIB, 4);
	if (third)
		check("third tensor", cache->address(third), 32 * MIB, 5);
}

static void ends_sum(void)
{
	ends(LEND_WRONG_SUM);
}

static void ends_free(void)
{
	ends(LEND_WRONG_FREE);
}

static void ends_twice(void)
{
	ends(LEND_WRONG_TWICE);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {{"lent", lent},	       {"cached", cached},	   {"own", own},
		     {"named", named},	       {"captured", captured},	   {"late", late},
		     {"host", host},	       {"graphs", graphs},	   {"ends_sum", ends_sum},
		     {"ends_free", ends_free}, {"ends_twice", ends_twice}, {"hot", hot},
		     {"elsewhere", elsewhere}, {"shared", shared},	   {"naming", naming}};
	alarm(120);
	MUST(cuInit(0));
	use_device(0);
	cache = lend_open(argv[0]);
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	if (argc > 2 && !cache->runtime(argv[2]))
		return 2;
	for (size_t i = 0; i < sizeof cases / sizeof *cases && argc > 1; i++)
		if (strcmp(cases[i].name, argv[1]) == 0)
			return cases[i].run(), 0;
	puts("usage: lend_cases CASE [RUNTIME]");
	return 2;
}
