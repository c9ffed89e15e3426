/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Kernels free invalid pointers, each class 100 times. Then live blocks must hold their contents,
 * and malloc must return no block twice. Built plainly, it uses malloc and free, and frees invalid
 * pointers only under the preload: natively that is undefined, and may end the process. Built with
 * EXPLICIT_HEAP it frees invalid pointers on a heap of gpumem_device.cuh, and also checks the count
 * of invalid frees.
 */
#ifdef EXPLICIT_HEAP
#include <gpumem_device.cuh>
#define TAKE(heap, size) gpumem_malloc((gm_heap *)(heap), size)
#define GIVE(heap, block) gpumem_free((gm_heap *)(heap), block)
#else
#define TAKE(heap, size) malloc(size)
#define GIVE(heap, block) free(block)
#endif

#include "gpu.h"

#include <cstring>

typedef unsigned long long Count;
enum { LIVE = 256, THREADS = 4096, BLOCK = 128, ROUNDS = 100, CHURN = 200 };
static const uint64_t GRANULE = 2 << 20;

struct Block {
	char *at;
	uint64_t size;
};

struct State {
	void *heap, *other; /* set only with EXPLICIT_HEAP */
	Block live[LIVE], gone[LIVE], churn[THREADS], others[LIVE];
	uint64_t elsewhere[6]; /* addresses in memory of the host and of the device */
	Count null, damaged, freed;
};

enum Class {
	BELOW,
	INSIDE,
	BEGIN,
	END,
	APART,
	ELSEWHERE,
	LOCAL,
	TWICE,
	FAR,
	OTHER,
	NOTHING,
	CLASSES,
};

static const char *const names[CLASSES] = {
	"below a block",
	"inside a block",
	"where 2 MiB begin",
	"where 2 MiB end",
	"whole granules apart",
	"of the host, or of cudaMalloc",
	"on the stack, or shared",
	"freed twice",
	"anywhere",
	"of another heap",
	"NULL",
};

static __device__ int variable[64];

static __global__ void find_variable(State *s)
{
	s->elsewhere[5] = (uint64_t)variable;
}

/* --- valid pointers --- */

static __device__ uint64_t size_of(unsigned i)
{
	static const uint32_t sizes[] = {1, 48, 300, 1000, 5000, 20000, 100000, 600000};
	return i % 64 == 63 ? 3 << 20 : sizes[i % 8];
}

static __global__ void take(State *s, void *heap, Block *block, unsigned n, uint64_t most)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n)
		return;
	uint64_t size = size_of(i);
	block[i].size = size < most ? size : most;
	block[i].at = (char *)TAKE(heap, block[i].size);
	if (!block[i].at)
		atomicAdd(&s->null, 1);
	(void)heap;
}

static __global__ void fill_blocks(Block *block)
{
	const Block &b = block[blockIdx.x];
	for (uint64_t at = threadIdx.x; b.at && at < b.size; at += blockDim.x)
		b.at[at] = (char)pattern(blockIdx.x, at);
}

static __global__ void check_blocks(State *s, const Block *block)
{
	const Block &b = block[blockIdx.x];
	for (uint64_t at = threadIdx.x; b.at && at < b.size; at += blockDim.x)
		if (b.at[at] != (char)pattern(blockIdx.x, at))
			atomicAdd(&s->damaged, 1);
}

static __global__ void give(void *heap, const Block *block, unsigned n)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		GIVE(heap, block[i].at);
	(void)heap;
}

/* --- invalid pointers --- */

static __device__ uint64_t pointer(const State *s, int c, unsigned i)
{
	unsigned j = i / LIVE; /* 0 to 15 */
	const Block &b = s->live[i % LIVE];
	uint64_t at = (uint64_t)b.at, far = 1ull << j * 4 / 3, border = at & ~(GRANULE - 1);
	switch (c) {
	case BELOW:
		return at - far;
	case INSIDE:
		return at + (far < b.size ? far : b.size / 2);
	case BEGIN:
		return border + (j & 1 ? far : far - 1);
	case END:
		return border + GRANULE - far;
	case APART:
		return at + (j - 8ull) * GRANULE;
	case ELSEWHERE:
		return s->elsewhere[i % 6] + 16 * (j % 4);
	case TWICE:
		return (uint64_t)s->gone[i % LIVE].at;
	case FAR:
		return i & 1 ? 1ull << j * 4 : 0 - (1ull << j * 4);
	case OTHER:
		return (uint64_t)s->others[i % LIVE].at;
	default:
		return 0;
	}
}

static __global__ void free_foreign(State *s, int c)
{
	__shared__ int shared[BLOCK];
	int local = (int)threadIdx.x;
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	uint64_t address = pointer(s, c, i);
	if (c == LOCAL)
		address = (uint64_t)(i & 1 ? &local : &shared[threadIdx.x]);
	for (unsigned k = 0; k < LIVE; k++)
		if ((uint64_t)s->live[k].at == address)
			return;
	atomicAdd(&s->freed, (Count)(address != 0));
	GIVE(s->heap, (void *)address);
}

/* --- the heap --- */

#ifdef EXPLICIT_HEAP
static gpumem_heap *heaps[2];

static void open_heaps(State *s)
{
	for (gpumem_heap *&heap : heaps)
		MUST(gpumem_heap_create(0, 1ull << 30, &heap));
	s->heap = gpumem_heap_device(heaps[0]);
	s->other = gpumem_heap_device(heaps[1]);
}

static struct gpumem_heap_stats stats()
{
	struct gpumem_heap_stats now;
	now.size = sizeof now;
	MUST(gpumem_heap_stats(heaps[0], &now));
	return now;
}

/* Compares the heap's count of invalid frees with the actual number. */
static const char *counted(const State *s, bool reset)
{
	static Count before;
	Count now = stats().foreign_frees, since = now - before;
	before = now;
	return reset ? "" : since == s->freed ? ", all are counted" : ", not all are counted";
}

static void close_heaps(State *s)
{
	check_blocks<<<LIVE, 256>>>(s, s->others);
	MUST(cudaDeviceSynchronize());
	printf("another heap: damaged %llu\n", s->damaged);
	printf("nothing is left: %s\n", stats().live == 0 ? "yes" : "no");
	for (gpumem_heap *heap : heaps)
		gpumem_heap_destroy(heap);
}

template <typename Launch> static void run(Launch launch)
{
	for (gpumem_heap *heap : heaps)
		gpumem_heap_begin(heap, 0);
	launch();
	for (gpumem_heap *heap : heaps)
		gpumem_heap_end(heap, 0);
	MUST(cudaDeviceSynchronize());
}

static const bool dares = true;
#else
static void open_heaps(State *)
{
	MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, (size_t)512 << 20));
}

/* The heap counts, but the program cannot read its count. */
static const char *counted(const State *, bool)
{
	return "";
}

static void close_heaps(State *)
{
}

template <typename Launch> static void run(Launch launch)
{
	launch();
	MUST(cudaDeviceSynchronize());
}

static const bool dares = getenv("LD_PRELOAD") != NULL;
#endif

/* --- */

static void round_of(State *s, int c)
{
	Block *churn = s->churn;
	if (dares)
		run([&] { free_foreign<<<THREADS / BLOCK, BLOCK>>>(s, c); });
	run([&] { take<<<THREADS / BLOCK, BLOCK>>>(s, s->heap, churn, THREADS, CHURN); });
	fill_blocks<<<THREADS, 64>>>(churn);
	check_blocks<<<THREADS, 64>>>(s, churn);
	check_blocks<<<LIVE, 256>>>(s, s->live);
	run([&] { give<<<THREADS / BLOCK, BLOCK>>>(s->heap, churn, THREADS); });
}

static void test_class(State *s, int c)
{
	s->null = s->damaged = s->freed = 0;
	for (int round = 0; round < ROUNDS; round++)
		round_of(s, c);
	printf("%-30s %d times: NULL %llu, damaged %llu%s\n", names[c], ROUNDS, s->null, s->damaged,
	       counted(s, false));
	fflush(stdout);
}

static void take_all(State *s, void *heap, Block *block)
{
	run([&] { take<<<LIVE / BLOCK, BLOCK>>>(s, heap, block, LIVE, ~0ull); });
	fill_blocks<<<LIVE, 256>>>(block);
	MUST(cudaDeviceSynchronize());
}

int main()
{
	static char bytes[4096];
	State *s;
	MUST(cudaFree(0));
	MUST(cudaMallocManaged(&s, sizeof *s));
	memset((void *)s, 0, sizeof *s);
	open_heaps(s);
	s->elsewhere[0] = (uint64_t)bytes;
	MUST(cudaHostAlloc((void **)&s->elsewhere[1], 4096, 0));
	MUST(cudaMalloc((void **)&s->elsewhere[2], 4 << 20));
	MUST(cudaMalloc((void **)&s->elsewhere[3], 512));
	s->elsewhere[4] = (uint64_t)s;
	find_variable<<<1, 1>>>(s);
	MUST(cudaDeviceSynchronize());
	take_all(s, s->heap, s->gone);
	run([&] { give<<<LIVE / BLOCK, BLOCK>>>(s->heap, s->gone, LIVE); });
	take_all(s, s->heap, s->live);
	if (s->other)
		take_all(s, s->other, s->others);
	printf("%d blocks: NULL %llu\n", LIVE, s->null);
	counted(s, true);
	for (int c = 0; c < CLASSES; c++)
		test_class(s, c);
	s->null = s->damaged = s->freed = 0;
	run([&] { give<<<LIVE / BLOCK, BLOCK>>>(s->heap, s->live, LIVE); });
	take_all(s, s->heap, s->live);
	check_blocks<<<LIVE, 256>>>(s, s->live);
	run([&] { give<<<LIVE / BLOCK, BLOCK>>>(s->heap, s->live, LIVE); });
	printf("live blocks go, come and go: NULL %llu, damaged %llu%s\n", s->null, s->damaged,
	       counted(s, false));
	close_heaps(s);
	return 0;
}
