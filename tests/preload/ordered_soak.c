/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random streams, threads, captures and frees: `ordered_soak SEED THREADS [OPERATIONS [large]]`.
 * `large`: blocks of up to 9 MiB; the memory may not suffice for all of them. Blocks are
 * filled and checked in the order of streams: two of each thread, the legacy and the thread's own
 * default stream. A thread of the test releases the first two. Some blocks are freed before their
 * last write. For a while each thread uses one stream alone. Prints the number of operations and of
 * blocks with wrong contents.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "programmatic.h"
#include "sim/sim.h"
#include "steer.h"

#define LATE 255

static CUcontext primary;

static CUstream stream_new(void)
{
	CUstream stream;
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

#define THREADS 3
#define HELD 2 /* streams of a thread that the test releases */
#define STREAMS 4
#define BLOCKS 12
#define OPERATIONS 1200
#define PHASE 128 /* operations with one way of choosing streams */

static atomic_uint bad, running;
static bool large;
static CUstream streams[THREADS][STREAMS];
static CUfunction fill;

/* A kernel that may start before earlier work of its stream has ended. */
static void kernel_fill(void **args)
{
	memset(*(void **)args[0], *(int *)args[1], *(size_t *)args[2]);
}

static CUfunction function_load(void)
{
	static const struct gm_sim_kernel kernel = {
		"fill", kernel_fill, {sizeof(CUdeviceptr), sizeof(int), sizeof(size_t)}, 0};
	static const struct gm_sim_image image = {GM_SIM_IMAGE, 1, &kernel, 0, 0, NULL};
	CUmodule module;
	CUfunction function;
	MUST(cuModuleLoadData(&module, &image));
	MUST(cuModuleGetFunction(&function, module, "fill"));
	return function;
}

struct slot {
	CUdeviceptr at;
	size_t size;
	unsigned stream;     /* stream of the last use */
	unsigned char value; /* value of its bytes; 0: unknown */
};

static uint64_t random_next(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15u;
	uint64_t x = *state;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* Read the block in the stream of its last use. */
static void slot_check(const struct slot *b, CUstream *mine)
{
	unsigned char *copy = b->value ? malloc(b->size) : NULL;
	if (!copy)
		return;
	MUST(cuMemcpyDtoHAsync(copy, b->at, b->size, mine[b->stream]));
	MUST(cuStreamSynchronize(mine[b->stream]));
	if (copy[0] != b->value || memcmp(copy, copy + 1, b->size - 1) != 0)
		atomic_fetch_add(&bad, 1);
	free(copy);
}

/* Use the block in `stream` from now on, after its last use. */
static void slot_move(struct slot *b, CUstream *mine, unsigned stream)
{
	CUevent event;
	if (b->stream == stream)
		return;
	MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	MUST(cuEventRecord(event, mine[b->stream]));
	MUST(cuStreamWaitEvent(mine[stream], event, 0));
	MUST(cuEventDestroy(event));
	b->stream = stream;
}

/* By a memset, a kernel, or a copy, which goes through slots if it is large. */
static void slot_fill(struct slot *b, CUstream *mine, unsigned char value, unsigned way)
{
	CUstream stream = mine[b->stream];
	unsigned char *host = way == 0 ? malloc(b->size) : NULL;
	if (host) {
		memset(host, value, b->size);
		MUST(cuMemcpyHtoDAsync(b->at, host, b->size, stream));
		MUST(cuStreamSynchronize(stream));
	} else if (way == 1) {
		int byte = value;
		void *params[] = {&b->at, &byte, &b->size};
		launch_ahead(fill, stream, params);
	} else {
		MUST(cuMemsetD8Async(b->at, value, b->size, stream));
	}
	free(host);
	b->value = value;
}

static void graph_use(const struct slot *b, CUstream stream)
{
	CUgraph graph;
	CUgraphExec exec;
	MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	MUST(cuMemsetD8Async(b->at, LATE, b->size, stream));
	MUST(cuStreamEndCapture(stream, &graph));
	MUST(cuGraphInstantiate(&exec, graph, 0));
	MUST(cuGraphLaunch(exec, stream));
	MUST(cuGraphExecDestroy(exec));
	MUST(cuGraphDestroy(graph));
}

/* False: the memory is short. */
static bool slot_alloc(struct slot *b, uint64_t *state)
{
	static const size_t small_sizes[] = {700, 5000, 100000, 300000},
			    large_sizes[] = {700, 200000, 1 * MIB, 7 * MIB};
	const size_t *sizes = large ? large_sizes : small_sizes;
	b->size = sizes[random_next(state) % 4] << (random_next(state) % 8 == 0);
	b->value = 0;
	CUresult result = cuMemAlloc(&b->at, b->size);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && large)
		b->at = 0;
	else
		MUST(result);
	return b->at;
}

/* Also in its stream; or in another one, which has ordered no use of the memory, after the wait for
 * the block's own. */
static void slot_free(struct slot *b, CUstream *mine, unsigned way)
{
	if (way == 3 && b->stream < HELD) {
		MUST(cuMemFreeAsync(b->at, mine[b->stream]));
	} else if (way == 4 && b->stream < HELD) {
		MUST(cuStreamSynchronize(mine[b->stream]));
		MUST(cuMemFreeAsync(b->at, mine[1 - b->stream]));
	} else {
		MUST(cuMemFree(b->at));
	}
	b->at = 0;
}

/* `alone`: the one stream of this phase, or STREAMS: any. */
static void slot_turn(struct slot *b, CUstream *mine, uint64_t *state, unsigned alone)
{
	unsigned act = random_next(state) % 16, other = random_next(state) % 32 == 0;
	unsigned way = random_next(state) % 16;
	unsigned stream = (b->stream + other) % STREAMS;
	if (alone < STREAMS)
		stream = alone;
	if (!b->at) {
		b->stream = stream;
		if (slot_alloc(b, state))
			slot_fill(b, mine, (unsigned char)(act + 1), way);
	} else if (act < 9) { /* the last write is pending at the free */
		if (act < 2)
			slot_check(b, mine);
		if (act == 0 && (other || large) && b->stream < HELD)
			graph_use(b, mine[b->stream]);
		else /* not ahead of the stream: an earlier write may be pending */
			slot_fill(b, mine, LATE, way == 1 ? 2 : way);
		slot_free(b, mine, way);
	} else {
		slot_check(b, mine);
		slot_move(b, mine, stream);
		slot_fill(b, mine, (unsigned char)(act + 1), way);
	}
}

struct soaker {
	uint64_t state, operations;
	unsigned index;
};

static void *soak_run(void *arg)
{
	struct soaker *me = arg;
	struct slot blocks[BLOCKS] = {{0}};
	MUST(cuCtxSetCurrent(primary));
	unsigned alone = STREAMS;
	for (uint64_t i = 0; i < me->operations; i++) {
		if (i % PHASE == 0)
			alone = random_next(&me->state) % (2 * STREAMS);
		slot_turn(&blocks[random_next(&me->state) % BLOCKS], streams[me->index], &me->state,
			  alone);
	}
	atomic_fetch_sub(&running, 1);
	return NULL;
}

/* Plays the GPU: runs steps in an order that the seed determines. */
static void *gpu_run(void *arg)
{
	uint64_t *state = arg;
	while (atomic_load(&running)) {
		uint64_t r = random_next(state);
		if (!gm_sim_waiters() && r % 16) { /* lets the queues grow */
			usleep(10);
			continue;
		}
		gm_sim_release(streams[r % THREADS][r / THREADS % HELD], r / 64 % 4);
	}
	for (unsigned i = 0; i < THREADS * HELD; i++)
		gm_sim_release(streams[i / HELD][i % HELD], -1u);
	return NULL;
}

static void soak(uint64_t seed, unsigned threads, uint64_t operations)
{
	pthread_t gpu, thread[THREADS];
	struct soaker soakers[THREADS];
	uint64_t state = seed;
	printf("seed %llu\n", (unsigned long long)seed);
	for (unsigned i = 0; i < THREADS * HELD; i++) {
		streams[i / HELD][i % HELD] = stream_new();
		gm_sim_hold(streams[i / HELD][i % HELD]);
		streams[i / HELD][HELD] = CU_STREAM_LEGACY;
		streams[i / HELD][HELD + 1] = CU_STREAM_PER_THREAD;
	}
	fill = function_load();
	atomic_store(&running, threads);
	pthread_create(&gpu, NULL, gpu_run, &state);
	for (unsigned i = 0; i < threads; i++) {
		soakers[i] = (struct soaker){seed * THREADS + i, operations / threads, i};
		pthread_create(&thread[i], NULL, soak_run, &soakers[i]);
	}
	for (unsigned i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	pthread_join(gpu, NULL);
	printf("%llu operations\n", (unsigned long long)(operations / threads * threads));
	printf("%u blocks were not intact\n", atomic_load(&bad));
}

int main(int argc, char **argv)
{
	unsigned threads = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	alarm(3600);
	if (!threads || threads > THREADS) {
		puts("usage: ordered_soak SEED THREADS [OPERATIONS [large]]");
		return 2;
	}
	large = argc > 4 && strcmp(argv[4], "large") == 0;
	MUST(cuInit(0));
	primary = use_device(0);
	soak(strtoull(argv[1], NULL, 0), threads,
	     argc > 3 ? strtoull(argv[3], NULL, 0) : OPERATIONS);
	return 0;
}
