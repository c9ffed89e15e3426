/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Random tensors of a cache like PyTorch's (lend/cache.h), in threads and streams whose steps run
 * later: `lend_soak SEED THREADS OPERATIONS [OPTION]...`. Memory is short. Each tensor has a
 * pattern of its own, at each 64 KiB and at its end; a step of a stream writes it, another one
 * compares it, also after the free. Prints the number of operations and of wrong contents.
 *
 *     show        also counts that the memory decides: tensors, refused ones
 *     runtime     segments come from cudaMalloc
 *     graphs      captures and replays, too
 *     budget=N    at most N% of the memory in tensors; default 95
 *     kept        the cache never frees a segment
 *     calm        the program and the cache record no events
 *     sum, free, twice   a wrong report in the midst
 *
 * Wrong on purpose: each ends in SIGSEGV or wrong contents, `forgets` also natively, the others if
 * unused memory is lent:
 *
 *     forgets     the cache forgets recordStream
 *     unfenced    events of whole contexts pass at once
 *     unfenced1   events of whole contexts leave out one stream
 *     unseen      captures past the preload
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "lend/open.h"
#include "program.h"
#include "sim/sim.h"
#include "steer.h"

#define THREADS 4
#define STREAMS 5      /* of all threads; the first one is the legacy stream */
#define EVERY 65536    /* bytes between two words of a pattern */
#define BACKLOG 300    /* steps of a stream that have not run */
#define TENSORS 64     /* of a thread */
#define STEPS 8	       /* of a graph, tensors */
#define GRAPHS 2       /* of a thread; they may share a pool */
#define GRAPH_LIFE 200 /* operations */

static const struct lend_cache *cache;
static CUcontext primary;
static CUstream streams[STREAMS + THREADS]; /* then each thread's, for captures */
static atomic_uint submitted[STREAMS + THREADS], ran[STREAMS + THREADS];
static CUfunction writes, compares;
static atomic_size_t live;
static size_t budget;
static unsigned threads;
static atomic_uint bad, running, captures, replays, lost;
static atomic_ullong patterns = 1, live_sum; /* live_sum: over all operations, KiB */
static bool with_graphs, unseen, unfenced, unfenced_one, calm;
static uint64_t operations;

static uint64_t random_next(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15u;
	uint64_t x = *state;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* --- kernels --- */

static uint64_t word_at(uint64_t pattern, size_t offset)
{
	return pattern * 0x9e3779b97f4a7c15u + offset;
}

static size_t last_word(size_t size)
{
	return (size - 8) & ~(size_t)7;
}

static void kernel_write(void **args)
{
	char *at = *(char **)args[0];
	const size_t size = *(size_t *)args[1];
	const uint64_t pattern = *(uint64_t *)args[2];
	for (size_t i = 0; i < last_word(size); i += EVERY)
		*(volatile uint64_t *)(at + i) = word_at(pattern, i);
	*(volatile uint64_t *)(at + last_word(size)) = word_at(pattern, last_word(size));
	atomic_fetch_add(&ran[*(unsigned *)args[3]], 1);
}

static void word_compare(const char *at, size_t offset, uint64_t pattern, size_t size)
{
	const uint64_t is = *(const volatile uint64_t *)(at + offset);
	if (is != word_at(pattern, offset) && atomic_fetch_add(&bad, 1) < 5)
		fprintf(stderr, "lend_soak: byte %zu of %zu at %p: %llx\n", offset, size,
			(const void *)at, (unsigned long long)is);
}

static void kernel_compare(void **args)
{
	const char *at = *(char **)args[0];
	const size_t size = *(size_t *)args[1];
	const uint64_t pattern = *(uint64_t *)args[2];
	for (size_t i = 0; i < last_word(size); i += EVERY)
		word_compare(at, i, pattern, size);
	word_compare(at, last_word(size), pattern, size);
	atomic_fetch_add(&ran[*(unsigned *)args[3]], 1);
}

static void kernels_load(void)
{
#define ARGS                                                                            \
	{                                                                               \
		sizeof(CUdeviceptr), sizeof(size_t), sizeof(uint64_t), sizeof(unsigned) \
	}
	static const struct gm_sim_kernel kernels[] = {{"write", kernel_write, ARGS, 0},
						       {"compare", kernel_compare, ARGS, 0}};
	static const struct gm_sim_image image = {GM_SIM_IMAGE, 2, kernels, 0, 0, NULL};
	CUmodule module;
	MUST(cuModuleLoadData(&module, &image));
	MUST(cuModuleGetFunction(&writes, module, "write"));
	MUST(cuModuleGetFunction(&compares, module, "compare"));
}

/* A memory's pattern. */
struct memory {
	CUdeviceptr at;
	size_t size;
	uint64_t pattern;
};

static void launch(CUfunction function, const struct memory *memory, unsigned stream)
{
	CUdeviceptr at = memory->at;
	size_t size = memory->size;
	uint64_t pattern = memory->pattern;
	void *params[] = {&at, &size, &pattern, &stream};
	MUST(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, streams[stream], params, NULL));
}

/* Submit a step to run later; wait while the stream has too many. */
static void submit(CUfunction function, const struct memory *memory, unsigned stream)
{
	while (atomic_load(&submitted[stream]) - atomic_load(&ran[stream]) > BACKLOG)
		usleep(20);
	atomic_fetch_add(&submitted[stream], 1);
	launch(function, memory, stream);
}

static void memory_fill(struct memory *memory, unsigned stream)
{
	memory->pattern = atomic_fetch_add(&patterns, 1);
	submit(writes, memory, stream);
}

/* `other` works after all that `stream` has got. */
static void stream_follow(unsigned stream, unsigned other)
{
	CUevent event;
	MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	MUST(cuEventRecord(event, streams[stream]));
	MUST(cuStreamWaitEvent(streams[other], event, 0));
	MUST(cuEventDestroy(event));
}

/* --- tensors --- */

struct tensor {
	struct lend_block *block;
	struct memory memory;
	unsigned stream;
};

struct graph {
	CUgraphExec exec;
	struct lend_pool *pool;
	struct tensor input, outputs[STEPS];
	unsigned n_steps, n_outputs;
	uint64_t until;
};

struct soaker {
	pthread_t thread;
	uint64_t state, operations;
	size_t live; /* bytes of `tensors` */
	unsigned index, n;
	struct tensor tensors[TENSORS];
	struct graph graphs[GRAPHS];
	struct memory own; /* by the program's own cuMemAlloc */
	unsigned own_stream;
};

static bool tensor_make(struct tensor *tensor, size_t size, unsigned stream)
{
	tensor->block = cache->take(size, streams[stream]);
	if (!tensor->block)
		return false;
	tensor->memory.at = cache->address(tensor->block);
	tensor->memory.size = size;
	tensor->stream = stream;
	atomic_fetch_add(&live, size);
	return true;
}

static void tensor_drop(struct tensor *tensor)
{
	atomic_fetch_sub(&live, tensor->memory.size);
	cache->give(tensor->block);
	tensor->block = NULL;
}

/* In one of eight cases another stream still uses the tensor. */
static void tensor_end(struct soaker *me, unsigned i)
{
	struct tensor *tensor = &me->tensors[i];
	unsigned other = random_next(&me->state) % STREAMS;
	if (!calm && random_next(&me->state) % 8 == 0 && other != tensor->stream) {
		stream_follow(tensor->stream, other);
		cache->record(tensor->block, streams[other]);
		submit(compares, &tensor->memory, other);
		memory_fill(&tensor->memory, other);
		submit(compares, &tensor->memory, other);
	} else {
		submit(compares, &tensor->memory, tensor->stream);
	}
	me->live -= tensor->memory.size;
	tensor_drop(tensor);
	*tensor = me->tensors[--me->n];
}

static size_t size_pick(uint64_t *state)
{
	const unsigned kind = random_next(state) % 100;
	const uint64_t r = random_next(state);
	size_t size = kind < 45	  ? 512 + r % MIB
		      : kind < 88 ? MIB + r % (5 * MIB)
		      : kind < 99 ? 6 * MIB + r % (18 * MIB)
				  : 24 * MIB + r % (66 * MIB);
	return random_next(state) % 16 ? size : (size + 2 * MIB - 1) & ~(2 * MIB - 1);
}

/* Each thread has its share of the budget; a larger tensor needs what the others leave. */
static void tensor_begin(struct soaker *me)
{
	const size_t size = size_pick(&me->state);
	const unsigned stream = random_next(&me->state) % STREAMS;
	while (me->n && (me->live + size > budget / threads || me->n == TENSORS))
		tensor_end(me, random_next(&me->state) % me->n);
	if (size > budget / threads && atomic_load(&live) + size > budget)
		return;
	if (tensor_make(&me->tensors[me->n], size, stream)) {
		me->live += size;
		memory_fill(&me->tensors[me->n++].memory, stream);
		return;
	}
	for (unsigned i = me->n / 2; i > 0; i--)
		tensor_end(me, random_next(&me->state) % me->n);
}

/* --- graphs --- */

static CUresult capture_begin(CUstream stream, CUstreamCaptureMode mode)
{
	CUresult (*past)(CUstream, CUstreamCaptureMode);
	*(void **)&past = gm_sim_symbol(NULL, "cuStreamBeginCapture_v2");
	return unseen ? past(stream, mode) : cuStreamBeginCapture(stream, mode);
}

static CUresult capture_end(CUstream stream, CUgraph *graph)
{
	CUresult (*past)(CUstream, CUgraph *);
	*(void **)&past = gm_sim_symbol(NULL, "cuStreamEndCapture");
	return unseen ? past(stream, graph) : cuStreamEndCapture(stream, graph);
}

/* Tensors come and go; the last ones stay, as the graph's results. */
static void graph_steps(struct soaker *me, struct graph *graph, unsigned stream)
{
	launch(compares, &graph->input.memory, stream);
	graph->n_steps = 1;
	for (unsigned i = 0; i < STEPS; i++) {
		struct tensor tensor;
		const size_t size = 512 + random_next(&me->state) % (3 * MIB);
		if (!tensor_make(&tensor, size, stream))
			return;
		tensor.memory.pattern = atomic_fetch_add(&patterns, 1);
		launch(writes, &tensor.memory, stream);
		launch(compares, &tensor.memory, stream);
		graph->n_steps += 2;
		if (i < STEPS - 2)
			tensor_drop(&tensor);
		else
			graph->outputs[graph->n_outputs++] = tensor;
	}
}

static void graph_end(struct graph *graph)
{
	for (unsigned i = 0; i < graph->n_outputs; i++)
		tensor_drop(&graph->outputs[i]);
	if (graph->exec)
		MUST(cuGraphExecDestroy(graph->exec));
	if (graph->input.block)
		tensor_drop(&graph->input);
	if (graph->pool)
		cache->pool_release(graph->pool);
	*graph = (struct graph){0};
}

/* In the global mode no other thread may call what a capture forbids. */
static void graph_begin(struct soaker *me, struct graph *graph, bool alone)
{
	CUgraph captured = NULL;
	struct lend_pool *shared = random_next(&me->state) % 4 ? me->graphs[0].pool : NULL;
	const unsigned stream = STREAMS + me->index;
	const CUstreamCaptureMode mode =
		alone ? random_next(&me->state) % 3 : 1 + random_next(&me->state) % 2;
	if (!tensor_make(&graph->input, 512 + random_next(&me->state) % MIB, stream))
		return;
	memory_fill(&graph->input.memory, stream);
	graph->until = me->operations > GRAPH_LIFE ? me->operations - GRAPH_LIFE : 0;
	graph->pool = cache->capture_begin(shared);
	MUST(capture_begin(streams[stream], mode));
	graph_steps(me, graph, stream);
	CUresult result = capture_end(streams[stream], &captured);
	cache->capture_end();
	if (result == CUDA_SUCCESS) {
		MUST(cuGraphInstantiate(&graph->exec, captured, 0));
		MUST(cuGraphDestroy(captured));
		atomic_fetch_add(&captures, 1);
	} else {
		atomic_fetch_add(&lost, 1);
		graph_end(graph);
	}
}

static void graph_turn(struct soaker *me, bool alone)
{
	const unsigned stream = STREAMS + me->index;
	struct graph *graph = &me->graphs[random_next(&me->state) % GRAPHS];
	if (!graph->exec) {
		if (random_next(&me->state) % 16 == 0)
			graph_begin(me, graph, alone);
	} else if (me->operations <= graph->until) {
		graph_end(graph);
	} else {
		atomic_fetch_add(&submitted[stream], graph->n_steps);
		MUST(cuGraphLaunch(graph->exec, streams[stream]));
		for (unsigned i = 0; i < graph->n_outputs; i++)
			submit(compares, &graph->outputs[i].memory, stream);
		atomic_fetch_add(&replays, 1);
	}
}

/* --- the program's own memory --- */

static void own_turn(struct soaker *me)
{
	if (me->own.at) {
		submit(compares, &me->own, me->own_stream);
		MUST(cuStreamSynchronize(streams[me->own_stream]));
		CUresult result = cuMemFree(me->own.at);
		if (result == CUDA_ERROR_OUT_OF_MEMORY) /* a call of the driver failed */
			result = cuMemFree(me->own.at);
		MUST(result);
		me->own.at = 0;
		return;
	}
	me->own.size = MIB + random_next(&me->state) % (3 * MIB);
	me->own_stream = random_next(&me->state) % STREAMS;
	CUresult result = cuMemAlloc(&me->own.at, me->own.size);
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		me->own.at = 0;
		return;
	}
	MUST(result);
	memory_fill(&me->own, me->own_stream);
}

/* --- threads --- */

static void turn(struct soaker *me, bool alone)
{
	const unsigned way = random_next(&me->state) % 100;
	if (way < 48 || !me->n) {
		tensor_begin(me);
	} else if (way < 94) {
		tensor_end(me, random_next(&me->state) % me->n);
	} else if (way < 98) {
		struct tensor *tensor = &me->tensors[random_next(&me->state) % me->n];
		submit(compares, &tensor->memory, tensor->stream);
		memory_fill(&tensor->memory, tensor->stream);
	} else if (random_next(&me->state) % 16 == 0) {
		cache->empty();
	} else if (random_next(&me->state) % 8 == 0) {
		own_turn(me);
	}
	if (with_graphs && way % 4 == 0)
		graph_turn(me, alone);
}

static enum lend_wrong wrong;

static void *soak_run(void *arg)
{
	struct soaker *me = arg;
	MUST(cuCtxSetCurrent(primary));
	const uint64_t half = me->operations / 2;
	for (; me->operations; me->operations--) {
		if (me->operations <= half && me->index == 0 && wrong && me->n) {
			cache->wrong(wrong, me->tensors[0].block);
			wrong = LEND_RIGHT;
		}
		turn(me, threads == 1);
		atomic_fetch_add(&live_sum, atomic_load(&live) / 1024);
	}
	while (me->n)
		tensor_end(me, me->n - 1);
	for (unsigned i = 0; i < GRAPHS; i++)
		graph_end(&me->graphs[i]);
	if (me->own.at)
		own_turn(me);
	atomic_fetch_sub(&running, 1);
	return NULL;
}

/* Plays the GPU: runs steps in an order and at a pace that the seed determines. */
static void *gpu_run(void *arg)
{
	uint64_t state = *(uint64_t *)arg, pace = 1;
	MUST(cuCtxSetCurrent(primary));
	for (unsigned turns = 0; atomic_load(&running); turns++) {
		const uint64_t r = random_next(&state);
		const unsigned i = r % (STREAMS + threads);
		const unsigned behind = atomic_load(&submitted[i]) - atomic_load(&ran[i]);
		if (turns % 256 == 0)
			pace = (uint64_t)1 << random_next(&state) % 4;
		if (behind <= BACKLOG / 2 && !gm_sim_waiters() && r / 64 % pace) {
			usleep(10);
			continue;
		}
		gm_sim_release(streams[i], behind > BACKLOG / 2 ? 64 : r / 4096 % 32);
	}
	for (unsigned i = 0; i < STREAMS + THREADS; i++)
		gm_sim_release(streams[i], -1u);
	return NULL;
}

static void streams_make(void)
{
	for (unsigned i = 1; i < STREAMS + THREADS; i++)
		MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
	for (unsigned i = 0; i < STREAMS + THREADS; i++)
		gm_sim_hold(streams[i]);
	if (unfenced)
		gm_sim_unfence(NULL);
	if (unfenced_one)
		gm_sim_unfence(streams[2]);
}

static void soak(uint64_t seed)
{
	static struct soaker soakers[THREADS];
	pthread_t gpu;
	streams_make();
	atomic_store(&running, threads);
	pthread_create(&gpu, NULL, gpu_run, &seed);
	for (unsigned i = 0; i < threads; i++) {
		soakers[i].state = seed * THREADS + i;
		soakers[i].operations = operations / threads;
		soakers[i].index = i;
		pthread_create(&soakers[i].thread, NULL, soak_run, &soakers[i]);
	}
	for (unsigned i = 0; i < threads; i++)
		pthread_join(soakers[i].thread, NULL);
	pthread_join(gpu, NULL);
	MUST(cuCtxSynchronize());
}

static bool shows;
static unsigned percent = 95;

static void show(void)
{
	struct lend_counts counts;
	cache->counts(&counts);
	printf("%llu tensors, %llu segments, %llu retries, %llu refused, %llu thrown, %llu "
	       "waiting\n",
	       (unsigned long long)counts.tensors, (unsigned long long)counts.segments,
	       (unsigned long long)counts.retries, (unsigned long long)counts.refused,
	       (unsigned long long)counts.thrown, (unsigned long long)counts.waiting);
	printf("%u captures, %u replays, %llu MiB of tensors\n", atomic_load(&captures),
	       atomic_load(&replays), atomic_load(&live_sum) / 1024 / operations);
}

static void option(const char *name)
{
	static const struct {
		const char *name;
		enum lend_wrong wrong;
	} wrongs[] = {
		{"sum", LEND_WRONG_SUM}, {"free", LEND_WRONG_FREE}, {"twice", LEND_WRONG_TWICE}};
	for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++)
		if (strcmp(name, wrongs[i].name) == 0)
			wrong = wrongs[i].wrong;
	sscanf(name, "budget=%u", &percent);
	shows |= strcmp(name, "show") == 0;
	with_graphs |= strcmp(name, "graphs") == 0;
	calm |= strcmp(name, "calm") == 0;
	unseen |= strcmp(name, "unseen") == 0;
	if (strcmp(name, "kept") == 0)
		cache->keep();
	if (strcmp(name, "forgets") == 0)
		cache->forget();
	unfenced |= strcmp(name, "unfenced") == 0;
	unfenced_one |= strcmp(name, "unfenced1") == 0;
	if (strcmp(name, "runtime") == 0 && !cache->runtime("libcudart.so.13")) {
		fprintf(stderr, "lend_soak: %s\n", dlerror());
		exit(2);
	}
}

int main(int argc, char **argv)
{
	size_t unused, total;
	alarm(3600);
	threads = argc > 3 ? (unsigned)atoi(argv[2]) : 0;
	if (!threads || threads > THREADS) {
		puts("usage: lend_soak SEED THREADS OPERATIONS [OPTION]...");
		return 2;
	}
	operations = strtoull(argv[3], NULL, 0);
	MUST(cuInit(0));
	primary = use_device(0);
	cache = lend_open(argv[0]);
	kernels_load();
	for (int i = 4; i < argc; i++)
		option(argv[i]);
	MUST(cuMemGetInfo(&unused, &total));
	budget = total / 100 * percent;
	soak(strtoull(argv[1], NULL, 0));
	if (shows)
		show();
	printf("%llu operations\n", (unsigned long long)(operations / threads * threads));
	printf("%u words were wrong, %u captures were lost\n", atomic_load(&bad),
	       atomic_load(&lost));
	return atomic_load(&bad) || atomic_load(&lost);
}
