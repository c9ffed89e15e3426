/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work that overwrites a block late, after the free: `defer CASE [show]`. Each case frees blocks
 * that a held stream is yet to write to, and allocates and fills other blocks. The stream is
 * released when a thread waits for it, or after all fills. The contents of the other blocks are the
 * same whether frees wait or not. With `show`, also prints whether a thread waited before.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "cases.h"
#include "steer.h"

/* Declared here: cuda.h hides this call, and every driver has it. */
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);

#define SIZE (3 * MIB)
#define MANY 200

/* --- a thread that releases streams --- */

static CUstream held[2];
static atomic_uint n_held;
static atomic_bool done, waited;

static void *let_go(void *arg)
{
	while (!atomic_load(&done)) {
		if (gm_sim_waiters()) {
			atomic_store(&waited, true);
			break;
		}
		usleep(100); /* gives the other threads the processor */
	}
	for (unsigned i = 0; i < n_held; i++)
		gm_sim_release(held[i], -1u);
	return arg;
}

static pthread_t begin(unsigned n)
{
	pthread_t thread;
	n_held = n;
	atomic_store(&done, false);
	atomic_store(&waited, false);
	pthread_create(&thread, NULL, let_go, NULL);
	return thread;
}

static void end(pthread_t thread)
{
	if (show)
		printf("  waited: %d\n", atomic_load(&waited));
	atomic_store(&done, true);
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < n_held; i++)
		MUST(cuStreamSynchronize(held[i]));
}

/* --- blocks --- */

struct block {
	CUdeviceptr at;
	size_t size;
	unsigned char value;
};

static struct block take(size_t size)
{
	static _Atomic unsigned char last;
	struct block b = {.size = size};
	last = b.value = (unsigned char)(last % 200 + 1);
	MUST(cuMemAlloc(&b.at, size));
	return b;
}

/* In a stream of its own: work of other streams is not waited for. */
static void fill(const struct block *b)
{
	CUstream stream;
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuMemsetD8Async(b->at, b->value, b->size, stream));
	MUST(cuStreamSynchronize(stream));
	MUST(cuStreamDestroy(stream));
}

static struct block take_filled(size_t size)
{
	struct block b = take(size);
	fill(&b);
	return b;
}

static bool intact(const struct block *b)
{
	unsigned char *copy = malloc(b->size);
	MUST(cuMemcpyDtoH(copy, b->at, b->size));
	bool good = copy[0] == b->value && memcmp(copy, copy + 1, b->size - 1) == 0;
	free(copy);
	return good;
}

static void overwrite(void *arg)
{
	const struct block *b = arg;
	memset((void *)(uintptr_t)b->at, 255, b->size);
}

/* The late kernel. `b` lives until the kernel has run. */
static void late(CUstream stream, struct block *b)
{
	MUST(gm_sim_launch(stream, overwrite, b));
}

static CUstream hold(unsigned flags, unsigned i)
{
	MUST(cuStreamCreate(&held[i], flags));
	gm_sim_hold(held[i]);
	return held[i];
}

static void verdict(const struct block *blocks, unsigned n)
{
	unsigned good = 0;
	for (unsigned i = 0; i < n; i++) {
		good += intact(&blocks[i]);
		MUST(cuMemFree(blocks[i].at));
	}
	printf("%u of %u blocks are intact\n", good, n);
}

/* --- the cases --- */

static void one_stream(unsigned flags, size_t size)
{
	struct block old = take_filled(size), fresh[4];
	late(hold(flags, 0), &old);
	pthread_t thread = begin(1);
	SAY(cuMemFree(old.at));
	SAY(cuMemFree(old.at));
	for (unsigned i = 0; i < 4; i++)
		fresh[i] = take_filled(size);
	end(thread);
	verdict(fresh, 4);
	MUST(cuStreamDestroy(held[0]));
}

static void plain(void)
{
	for (size_t size = 700; size < 100 * MIB; size *= 23) {
		one_stream(CU_STREAM_NON_BLOCKING, size);
		one_stream(CU_STREAM_DEFAULT, size);
	}
}

/* More blocks than one fence covers, with a late write each. All but the last half of the writes
 * have run before the new allocations. */
static void many(void)
{
	static struct block old[MANY], fresh[MANY];
	CUstream stream = hold(CU_STREAM_NON_BLOCKING, 0);
	pthread_t thread = begin(1);
	for (unsigned i = 0; i < MANY; i++) {
		old[i] = take_filled(70000);
		late(stream, &old[i]);
	}
	for (unsigned i = 0; i < MANY; i++)
		MUST(cuMemFree(old[i].at));
	gm_sim_release(stream, MANY / 2);
	for (unsigned i = 0; i < MANY; i++)
		fresh[i] = take_filled(70000);
	end(thread);
	verdict(fresh, MANY);
	MUST(cuStreamDestroy(stream));
}

/* A fence that was recorded before a free does not cover it. */
static void order(void)
{
	struct block first = take_filled(SIZE), second = take_filled(SIZE), fresh[40];
	struct block large = take(40 * MIB);
	late(hold(CU_STREAM_NON_BLOCKING, 0), &first);
	hold(CU_STREAM_NON_BLOCKING, 1);
	pthread_t thread = begin(2);
	SAY(cuMemFree(first.at));
	SAY(cuMemFree(large.at)); /* large enough to record a fence */
	fresh[0] = take_filled(40 * MIB);
	late(held[1], &second);
	SAY(cuMemFree(second.at));
	gm_sim_release(held[0], -1u);
	for (unsigned i = 1; i < 40; i++)
		fresh[i] = take_filled(SIZE);
	end(thread);
	verdict(fresh, 40);
	MUST(cuStreamDestroy(held[0]));
	MUST(cuStreamDestroy(held[1]));
}

/* A fence of one context does not cover work of the other. */
static void contexts(void)
{
	CUcontext other;
	struct block first = take_filled(SIZE), second, fresh[30];
	MUST(cuCtxCreate_v2(&other, 0, 0));
	second = take_filled(SIZE);
	late(hold(CU_STREAM_NON_BLOCKING, 0), &second);
	MUST(cuCtxSetCurrent(primary));
	pthread_t thread = begin(1);
	SAY(cuMemFree(first.at));
	SAY(cuMemFree(second.at));
	for (unsigned i = 0; i < 30; i++)
		fresh[i] = take_filled(SIZE);
	end(thread);
	verdict(fresh, 30);
	SAY(cuCtxDestroy(other));
	MUST(cuCtxSetCurrent(primary));
}

/* While a capture is open no fence is recorded, and the capture stays valid. */
static void capture(void)
{
	CUstream stream;
	CUgraph graph;
	struct block old = take_filled(SIZE), idle = take_filled(SIZE), fresh[40];
	late(hold(CU_STREAM_NON_BLOCKING, 0), &old);
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	pthread_t thread = begin(1);
	SAY(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	SAY(cuMemFree(old.at));
	for (unsigned i = 0; i < 20; i++)
		fresh[i] = take_filled(SIZE);
	SAY(cuStreamEndCapture(stream, &graph));
	SAY(cuMemFree(idle.at));
	for (unsigned i = 20; i < 40; i++)
		fresh[i] = take_filled(SIZE);
	end(thread);
	verdict(fresh, 40);
	MUST(cuGraphDestroy(graph));
	MUST(cuStreamDestroy(stream));
	MUST(cuStreamDestroy(held[0]));
}

/* Retired memory of a context becomes idle after the driver has ended the context. */
static void gone(void)
{
	for (unsigned round = 0; round < 3; round++) {
		CUcontext other;
		struct block old, fresh[30];
		MUST(cuCtxCreate_v2(&other, 0, 0));
		old = take_filled(SIZE);
		hold(CU_STREAM_NON_BLOCKING, 0);
		late(held[0], &old);
		pthread_t thread = begin(1);
		SAY(cuMemFree(old.at));
		gm_sim_release(held[0], -1u);
		MUST(cuStreamSynchronize(held[0]));
		SAY(cuCtxDestroy(other));
		MUST(cuCtxSetCurrent(primary));
		for (unsigned i = 0; i < 30; i++)
			fresh[i] = take_filled(SIZE);
		n_held = 0;
		end(thread);
		verdict(fresh, 30);
	}
}

/* The primary context of a device is reset, and its handle is used again. */
static void reset(void)
{
	for (unsigned round = 0; round < 3; round++) {
		struct block old = take_filled(SIZE), fresh[30];
		SAY(cuMemFree(old.at));
		SAY(cuDevicePrimaryCtxReset(0));
		primary = use_device(0);
		for (unsigned i = 0; i < 30; i++)
			fresh[i] = take_filled(SIZE);
		verdict(fresh, 30);
	}
}

/* Frees in the order of a stream, also a stream of another context. */
static void async(void)
{
	CUcontext other;
	struct block old = take_filled(SIZE), next = take_filled(SIZE), fresh[30];
	MUST(cuCtxCreate_v2(&other, 0, 0));
	late(hold(CU_STREAM_NON_BLOCKING, 0), &old);
	MUST(cuCtxSetCurrent(primary));
	pthread_t thread = begin(1);
	SAY(cuMemFree(next.at));
	SAY(cuMemFreeAsync(old.at, held[0]));
	for (unsigned i = 0; i < 30; i++)
		fresh[i] = take_filled(SIZE);
	end(thread);
	verdict(fresh, 30);
	SAY(cuCtxDestroy(other));
	MUST(cuCtxSetCurrent(primary));
}

/* The device holds only one of the blocks: an allocation has to wait. */
static void full(void)
{
	size_t have, total;
	MUST(cuMemGetInfo(&have, &total));
	size_t size = have / 8 * 5;
	struct block old = take_filled(size);
	late(hold(CU_STREAM_NON_BLOCKING, 0), &old);
	pthread_t thread = begin(1);
	SAY(cuMemFree(old.at));
	MUST(cuMemGetInfo(&have, &total));
	printf("it counts as free: %d\n", have >= size);
	struct block fresh = take_filled(size);
	end(thread);
	verdict(&fresh, 1);
	MUST(cuStreamDestroy(held[0]));
}

/* Blocks of different sizes, beside a live GiB, on an idle GPU. */
static void beside(void)
{
	struct block live = take(1024 * MIB);
	for (unsigned i = 0; i < 600; i++) {
		struct block b = take((3 + i * 7 % 38) * MIB);
		MUST(cuMemFree(b.at));
	}
	MUST(cuMemFree(live.at));
	puts("600 pairs");
}

/* The same while a kernel runs that ends after all allocations. */
static void still(void)
{
	struct block live = take(64 * MIB), old = take_filled(SIZE), fresh[30];
	late(hold(CU_STREAM_NON_BLOCKING, 0), &old);
	pthread_t thread = begin(1);
	SAY(cuMemFree(old.at));
	for (unsigned i = 0; i < 30; i++) {
		struct block b = take((20 + i) * MIB);
		MUST(cuMemFree(b.at));
		fresh[i] = take_filled(SIZE);
	}
	end(thread);
	verdict(fresh, 30);
	MUST(cuMemFree(live.at));
	MUST(cuStreamDestroy(held[0]));
}

/* A block of 1 MiB. */
static void small(void)
{
	struct block b = take(MIB);
	MUST(cuMemFree(b.at));
	puts("a MiB");
}

/* Frees on an idle GPU. */
static void cycle(void)
{
	for (unsigned i = 0; i < 6400; i++) {
		struct block b = take(70000);
		MUST(cuMemFree(b.at));
	}
	puts("6400 pairs");
}

/* The same, after a context has ended with an open capture. */
static void cycle_later(void)
{
	CUcontext other;
	CUstream stream;
	MUST(cuCtxCreate_v2(&other, 0, 0));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	SAY(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	SAY(cuCtxDestroy(other));
	MUST(cuCtxSetCurrent(primary));
	cycle();
}

/* Two threads poll and wait while a third creates and destroys contexts. */
static atomic_uint bad;

static void *churn(void *arg)
{
	MUST(cuCtxSetCurrent(primary));
	for (unsigned i = 0; i < 400; i++) {
		struct block b = take_filled(arg ? 5000 : 2 * MIB);
		bad += !intact(&b);
		MUST(cuMemFree(b.at));
		if (i % 64 == 0) { /* a refused allocation waits for every context */
			CUdeviceptr all;
			CUresult result = cuMemAlloc(&all, (size_t)1 << 40);
			bad += result != CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	return NULL;
}

static void ends(void)
{
	pthread_t threads[2];
	for (uintptr_t i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, churn, (void *)i);
	for (unsigned i = 0; i < 100; i++) {
		CUcontext other;
		MUST(cuCtxCreate_v2(&other, 0, 0));
		struct block b[3] = {take_filled(SIZE), take_filled(100), take_filled(SIZE)};
		MUST(cuMemFree(b[0].at));
		MUST(cuMemFree(b[1].at));
		MUST(cuCtxDestroy(other));
	}
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	MUST(cuCtxSetCurrent(primary));
	printf("%u blocks were not intact\n", atomic_load(&bad));
}

int main(int argc, char **argv)
{
	static const struct program_case cases[] = {
		{"plain", plain},	{"many", many},	      {"order", order},
		{"contexts", contexts}, {"capture", capture}, {"gone", gone},
		{"reset", reset},	{"async", async},     {"full", full},
		{"ends", ends},		{"cycle", cycle},     {"cycle_later", cycle_later},
		{"beside", beside},	{"still", still},     {"small", small}};
	return case_run(cases, sizeof cases / sizeof *cases, argc, argv);
}
