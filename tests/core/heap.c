/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program that makes device heaps by gpumem.h, on the simulated pair, which runs the heap's own
 * kernels in the emulation instead of the library's. Alone and preloaded it must print the same.
 * Usage: heap CASE.
 */
#include "../preload/program.h"

#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "heap/device/api.h"
#include "sim/kernels.h"
/* after sim.h, whose names it takes */
#include "../preload/steer.h"
#include "api/gpumem.h"

static struct gpumem_heap_stats stats_of(struct gpumem_heap *heap)
{
	struct gpumem_heap_stats s = {.size = sizeof s};
	int result = gpumem_heap_stats(heap, &s);
	if (result != 0)
		printf("statistics: error %d\n", result);
	return s;
}

static struct gpumem_heap *make(void)
{
	struct gpumem_heap *heap;
	int result = gpumem_heap_create(0, 256 * MIB, &heap);
	printf("made: %d\n", result);
	return result == 0 ? heap : NULL;
}

/* A kernel of the program: it runs when its stream is released. */
static void nothing(void *unused)
{
	(void)unused;
}

static CUstream held_stream(void)
{
	CUstream stream;
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	gm_sim_hold(stream);
	return stream;
}

static void launch(struct gpumem_heap *heap, CUstream stream)
{
	gpumem_heap_begin(heap, stream);
	gm_sim_launch(stream, nothing, NULL);
	gpumem_heap_end(heap, stream);
}

/* Request granules and wait without a time limit, as a lane does that finds none. */
static void grow(struct gm_heap *device)
{
	uint64_t granted = gm_load64(&device->granted);
	while (gm_load64(&device->granted) == granted) {
		gm_span_want(device, granted + 1);
		gm_simt_advance(GM_POLL);
		gm_span_poll(device);
		sched_yield();
	}
}

static void show(const char *when, struct gpumem_heap *heap)
{
	struct gpumem_heap_stats s = stats_of(heap);
	printf("%s: limit %d MiB, %d chunks, %d MiB, grown %d, shrunk %d, used %d MiB, live %d\n",
	       when, (int)(s.limit / MIB), (int)s.chunks, (int)(s.mapped / MIB), (int)s.grown,
	       (int)s.shrunk, (int)(s.used / MIB), (int)s.live);
}

static void life(void)
{
	struct gpumem_heap *heap = make();
	if (!heap)
		return;
	struct gm_heap *device = gpumem_heap_device(heap);
	CUstream stream = held_stream();
	struct gpumem_heap_stats s = {.size = sizeof s};
	show("empty", heap);
	launch(heap, stream);
	for (int i = 0; i < 3; i++)
		grow(device);
	printf("while a kernel runs: statistics %d, trim %d\n", gpumem_heap_stats(heap, &s),
	       (int)gpumem_heap_trim(heap));
	gm_sim_release(stream, (unsigned)-1);
	show("grown", heap);
	char *block = gpumem_malloc(device, 100);
	memset(block, 1, 100);
	void *run = gpumem_malloc(device, 4 * MIB);
	show("used", heap);
	gpumem_free(device, run);
	gpumem_free(device, block);
	printf("trimmed: %d MiB\n", (int)(gpumem_heap_trim(heap) / MIB));
	show("trimmed", heap);
	gpumem_heap_destroy(heap);
	MUST(cuStreamDestroy(stream));
	struct gpumem_stats pool = {.size = sizeof pool};
	gpumem_trim();
	gpumem_stats(0, &pool);
	printf("left: %d MiB\n", (int)(pool.mapped / MIB));
}

static void wrong(void)
{
	struct gpumem_heap *heap = NULL;
	struct gpumem_heap_stats s = {.size = 0};
	printf("no place: %d\n", gpumem_heap_create(0, 0, NULL));
	printf("no device: %d\n", gpumem_heap_create(77, 0, &heap));
	printf("no heap: %d %d %d\n", heap == NULL, gpumem_heap_device(NULL) == NULL,
	       (int)gpumem_heap_trim(NULL));
	printf("statistics of none: %d\n", gpumem_heap_stats(NULL, &s));
	gpumem_heap_begin(NULL, NULL);
	gpumem_heap_end(NULL, NULL);
	gpumem_heap_destroy(NULL);
	heap = make();
	if (!heap)
		return;
	printf("statistics without a size: %d\n", gpumem_heap_stats(heap, &s));
	s.size = 2 * sizeof s.size;
	int result = gpumem_heap_stats(heap, &s);
	printf("some of them: %d, %d bytes, %d MiB, and %d\n", result, (int)s.size,
	       (int)(s.limit / MIB), (int)s.mapped);
	gpumem_heap_destroy(heap);
}

static void reset(void)
{
	struct gpumem_heap *heap = make();
	if (!heap)
		return;
	launch(heap, NULL);
	MUST(cuDevicePrimaryCtxReset(0));
	struct gpumem_heap *other = make();
	show("another", other);
	gpumem_heap_destroy(heap);
	show("still", other);
	gpumem_heap_destroy(other);
}

/* A kernel is in flight, and nothing is destroyed. */
static void leave(void)
{
	struct gpumem_heap *heap = make();
	if (!heap)
		return;
	launch(heap, held_stream());
	grow(gpumem_heap_device(heap));
	printf("grown\n");
}

/* A kernel that has used the heap ends; the last call of the program is `then`. */
static void use_once(void (*then)(void))
{
	struct gpumem_heap *heap = make();
	if (!heap)
		return;
	CUstream stream = held_stream();
	launch(heap, stream);
	gpumem_malloc(gpumem_heap_device(heap), 100);
	gm_sim_release(stream, (unsigned)-1);
	then();
}

static void synchronize(void)
{
	MUST(cuCtxSynchronize());
}

static void wait_for_work(void)
{
	use_once(synchronize);
}

/* Call repeatedly for a while: a call that finds no due work delays the next look. */
static void ask(void)
{
	struct timespec start, now;
	size_t left, all;
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		clock_gettime(CLOCK_MONOTONIC, &now); /* before the last call */
		MUST(cuMemGetInfo(&left, &all));
	} while ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec < 1000000);
}

static void make_calls(void)
{
	use_once(ask);
}

static void forked(void)
{
	struct gpumem_heap *heap = make();
	int status = -1;
	if (!heap)
		return;
	CUstream stream = held_stream();
	launch(heap, stream);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		gpumem_heap_begin(heap, stream);
		gpumem_heap_end(heap, stream);
		printf("child: trim %d\n", (int)gpumem_heap_trim(heap));
		gpumem_heap_destroy(heap);
		exit(0);
	}
	waitpid(child, &status, 0);
	printf("child: status %d\n", status);
	grow(gpumem_heap_device(heap));
	gm_sim_release(stream, (unsigned)-1);
	show("parent", heap);
	gpumem_heap_destroy(heap);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {{"life", life},   {"wrong", wrong},	{"reset", reset},
		     {"leave", leave}, {"wait", wait_for_work}, {"calls", make_calls},
		     {"fork", forked}};
	MUST(cuInit(0));
	use_device(0);
	gm_sim_stand_in(&gm_heap_sim_image);
	for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
		if (strcmp(argv[1], cases[i].name) == 0)
			return cases[i].run(), 0;
	return 2;
}
