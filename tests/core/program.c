/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program linked with libgpumem-core, on the simulated pair, with streams that it releases step
 * by step. Prints results, never an address: alone and preloaded it must print the same, but for
 * `shared`. Usage: program CASE...
 */
#include "../preload/program.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "../preload/steer.h"
#include "api/gpumem.h"
#include "holds.h"

/* cuda.h hides it; every driver has it. */
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);

#define BIG (64 * MIB)	/* freed, it gets an event of its own */
#define SMALL (1 * MIB) /* shares an event with others */

static void *at(CUdeviceptr address)
{
	return (void *)address;
}

/* CuPy's NULL is any stream. */
static void *named(CUstream stream)
{
	return stream ? stream : CU_STREAM_LEGACY;
}

static CUdeviceptr take(size_t size, CUstream stream)
{
	return (CUdeviceptr)gpumem_cupy_malloc(named(stream), size, 0);
}

static void give(CUdeviceptr block, size_t size, CUstream stream)
{
	(void)size;
	gpumem_cupy_free(named(stream), at(block), 0);
}

static void yes(const char *what, bool is)
{
	printf("%s: %s\n", what, is ? "yes" : "no");
}

static struct gpumem_stats stats_of(int device)
{
	struct gpumem_stats s = {.size = sizeof s};
	int result = gpumem_stats(device, &s);
	if (result != 0 || s.mapped != s.handed_out + s.idle + s.retired || s.kept > s.handed_out)
		printf("wrong statistics, %d\n", result);
	return s;
}

static CUstream stream_new(void)
{
	CUstream stream;
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

/* A late kernel that overwrites 1 MiB. */
static void scribble(void *block)
{
	memset(block, 0xee, MIB);
}

static void same_stream(void)
{
	CUstream s = stream_new();
	gm_sim_hold(s);
	for (size_t size = 1000; size <= BIG; size *= 8) {
		CUdeviceptr a = take(size, s);
		give(a, size, s);
		CUdeviceptr b = take(size, s);
		printf("%zu bytes ", size);
		yes("reused on the same stream at once", a && a == b);
		give(b, size, s);
	}
	gm_sim_release(s, -1u);
}

static void other_stream(void)
{
	CUstream s = stream_new(), t = stream_new();
	CUdeviceptr a = take(BIG, s);
	gm_sim_hold(s);
	MUST(gm_sim_launch(s, scribble, at(a)));
	give(a, BIG, s);
	CUdeviceptr b = take(BIG, t);
	yes("reused on another stream before the first is through", a == b);
	MUST(cuMemsetD8Async(b, 0x11, BIG, t));
	MUST(cuStreamSynchronize(t));
	gm_sim_release(s, -1u);
	yes("what the other stream wrote is there", holds(b, 0x11));
	CUdeviceptr c = take(BIG, t);
	yes("reused after the first is through", c == a);
	CUdeviceptr small = take(SMALL, s);
	gm_sim_hold(s);
	MUST(gm_sim_launch(s, scribble, at(small)));
	give(small, SMALL, s);
	give(b, BIG, t); /* an event of this stream, which has completed */
	give(c, BIG, t);
	yes("an event covers another stream", take(SMALL, t) == small);
	gm_sim_release(s, -1u);
}

/* Small blocks share an event, which covers those before it and none after. */
static void batch(void)
{
	CUstream s = stream_new(), t = stream_new();
	CUdeviceptr block[17];
	for (int i = 0; i < 17; i++)
		block[i] = take(SMALL, s);
	unsigned before = gm_sim_calls("cuEventRecord");
	for (int i = 0; i < 15; i++)
		give(block[i], SMALL, s);
	CUdeviceptr other = take(SMALL, t);
	bool reused = false;
	for (int i = 0; i < 15; i++)
		reused |= other == block[i];
	yes("reused without an event", reused);
	gm_sim_hold(s);
	give(block[15], SMALL, s);
	MUST(gm_sim_launch(s, scribble, at(block[16])));
	give(block[16], SMALL, s);
	printf("%u events for 17 blocks\n", gm_sim_calls("cuEventRecord") - before);
	gm_sim_release(s, 1); /* the event */
	int n = 0;
	bool last = false;
	for (int i = 0; i < 17; i++) {
		CUdeviceptr again = take(SMALL, t);
		for (int j = 0; j < 16; j++)
			n += again == block[j];
		last |= again == block[16];
	}
	printf("%d reused behind it\n", n);
	yes("the one freed later among them", last);
	gm_sim_release(s, -1u);
}

static atomic_bool trimmed;

static void *trimmer(void *given)
{
	use_device(0);
	*(uint64_t *)given = gpumem_trim();
	trimmed = true;
	return NULL;
}

/* Behind an event of its own (BIG), or behind a fence of the context. */
static void trim_one(size_t size)
{
	CUstream s = stream_new();
	uint64_t given;
	pthread_t thread;
	CUdeviceptr block = take(size, s);
	gm_sim_hold(s);
	MUST(gm_sim_launch(s, scribble, at(block)));
	give(block, size, s);
	printf("%llu bytes kept\n", (unsigned long long)stats_of(0).kept);
	trimmed = false;
	pthread_create(&thread, NULL, trimmer, &given);
	while (gm_sim_waiters() == 0 && !trimmed)
		sched_yield();
	yes("trim waits", !trimmed);
	gm_sim_release(s, -1u);
	pthread_join(thread, NULL);
	yes("and gives back as much", given >= size);
	struct gpumem_stats st = stats_of(0);
	yes("nothing is left", st.kept == 0 && st.mapped == 0 && st.live_blocks == 0);
}

static void trim(void)
{
	trim_one(BIG);
	trim_one(SMALL);
	printf("trimmed again: %llu bytes\n", (unsigned long long)gpumem_trim());
}

/* Run with SIM_MEMORY=256M. */
static void memory(void)
{
	CUstream s = stream_new(), t = stream_new();
	CUdeviceptr a = take(16 * MIB, s), b = take(16 * MIB, s);
	give(a, 16 * MIB, s);
	give(b, 16 * MIB, s);
	printf("%llu bytes kept\n", (unsigned long long)stats_of(0).kept);
	CUdeviceptr all = take(236 * MIB, t);
	yes("what was kept makes room", all != 0);
	yes("and is kept no more", stats_of(0).kept == 0);
	yes("more than there is", take(236 * MIB, t) != 0);
	give(all, 236 * MIB, t);
	yes("kept beyond an eighth", stats_of(0).kept != 0);
}

/* Another stream may get the handle of a destroyed one. */
static void destroyed(void)
{
	CUdeviceptr block[8];
	bool reused = false;
	for (int i = 0; i < 8; i++) {
		CUstream s = stream_new();
		block[i] = take(SMALL, s);
		for (int j = 0; j < i; j++)
			reused |= block[i] == block[j];
		give(block[i], SMALL, s);
		MUST(cuStreamDestroy(s));
	}
	yes("reused by a stream that came after", reused);
	gpumem_trim();
	yes("all of it back", stats_of(0).mapped == 0);
}

#define BATCH 16

/* A block freed in one context is not reused in another, for it ends with the first. */
static void contexts(void)
{
	CUcontext first, second;
	CUdeviceptr block[BATCH], fresh[BATCH];
	bool crossed = false, again = false;
	MUST(cuCtxCreate_v2(&first, 0, 0));
	CUstream s = stream_new();
	for (int i = 0; i < BATCH; i++)
		block[i] = take(SMALL, s);
	for (int i = 0; i < BATCH; i++)
		give(block[i], SMALL, s);
	MUST(cuCtxCreate_v2(&second, 0, 0));
	CUstream t = stream_new();
	CUdeviceptr other = take(SMALL, t);
	for (int i = 0; i < BATCH; i++)
		crossed |= other == block[i];
	yes("reused in another context", crossed);
	if (!dlsym(RTLD_DEFAULT, "gm_preload_core"))
		gpumem_trim(); /* the library does not learn by itself that a context ends */
	MUST(cuCtxDestroy(first));
	for (int i = 0; i < BATCH; i++) {
		fresh[i] = take(SMALL, t);
		again |= fresh[i] == other;
	}
	yes("in use, and handed out again", again);
	for (int i = 0; i < BATCH; i++)
		give(fresh[i], SMALL, t);
	give(other, SMALL, t);
	gpumem_trim();
	yes("all of it back", stats_of(0).mapped == 0);
}

static void reset(void)
{
	CUstream s = stream_new();
	CUdevice device;
	give(take(BIG, s), BIG, s);
	CUdeviceptr kept = take(SMALL, s);
	give(kept, SMALL, s);
	MUST(cuDeviceGet(&device, 0));
	MUST(cuDevicePrimaryCtxReset(device));
	use_device(0);
	s = stream_new();
	CUdeviceptr fresh = take(SMALL, s);
	struct gpumem_stats st = stats_of(0);
	printf("after a reset: %llu blocks, %llu bytes kept\n", (unsigned long long)st.live_blocks,
	       (unsigned long long)st.kept);
	give(fresh, SMALL, s);
}

/* The device is reset while another context was the last one used. */
static void reset_behind(void)
{
	CUcontext other;
	CUdevice device;
	MUST(cuDeviceGet(&device, 0));
	CUdeviceptr mine = take(BIG, stream_new());
	yes("a block of the primary context", mine != 0);
	MUST(cuCtxCreate_v2(&other, 0, device));
	CUstream s = stream_new();
	CUdeviceptr block = take(SMALL, s);
	MUST(cuDevicePrimaryCtxReset(device));
	use_device(0);
	CUdeviceptr fresh = take(SMALL, NULL);
	printf("after a reset: %llu blocks\n", (unsigned long long)stats_of(0).live_blocks);
	give(fresh, SMALL, NULL);
	MUST(cuCtxSetCurrent(other));
	give(block, SMALL, s);
	gpumem_trim();
	yes("all of it back", stats_of(0).mapped == 0);
}

static void capture(void)
{
	CUstream s = stream_new(), t = stream_new();
	CUgraph graph;
	CUdeviceptr a = take(BIG, s);
	MUST(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
	give(a, BIG, s);
	CUdeviceptr b = take(BIG, s);
	yes("reused in the capture", a == b);
	give(b, BIG, s);
	CUdeviceptr c = take(BIG, t);
	yes("reused elsewhere during it", c == a);
	SAY(cuStreamEndCapture(s, &graph));
	size_t nodes = 99;
	MUST(cuGraphGetNodes(graph, NULL, &nodes));
	printf("%zu nodes of ours\n", nodes);
	MUST(cuGraphDestroy(graph));
	give(c, BIG, t);
	gpumem_trim();
	yes("all of it back", stats_of(0).mapped == 0);
}

struct freeing {
	void *stream, *block;
};

static void *freer(void *arg)
{
	struct freeing *f = arg;
	gpumem_cupy_free(f->stream, f->block, 0);
	return NULL;
}

static void cupy(void)
{
	CUstream s = stream_new();
	pthread_t thread;
	void *a = gpumem_cupy_malloc(s, BIG, 0);
	gpumem_cupy_free(s, a, 0);
	yes("of a stream: reused at once", a && gpumem_cupy_malloc(s, BIG, 0) == a);
	struct freeing f = {NULL, gpumem_cupy_malloc(NULL, SMALL, 0)};
	gm_sim_hold(s);
	MUST(gm_sim_launch(s, scribble, f.block));
	pthread_create(&thread, NULL, freer, &f);
	while (gm_sim_waiters() == 0)
		sched_yield();
	yes("of no stream: in use until its context is through", stats_of(0).live_blocks == 2);
	gm_sim_release(s, -1u);
	pthread_join(thread, NULL);
	yes("and free then", stats_of(0).live_blocks == 1);
}

static void *on_device(void *arg)
{
	int device = (int)(intptr_t)arg;
	CUcontext current = NULL;
	size_t size = (size_t)(device + 1) * MIB;
	void *block = gpumem_cupy_malloc(CU_STREAM_LEGACY, size, device);
	MUST(cuCtxGetCurrent(&current));
	bool none = block && !current;
	gpumem_cupy_free(CU_STREAM_LEGACY, block, device);
	for (int i = 0; none && i < 100; i++) {
		block = gpumem_cupy_malloc(CU_STREAM_LEGACY, size, device);
		none = block != NULL;
	}
	return (void *)(intptr_t)none;
}

/* Run with SIM_DEVICES=4. */
static void devices(void)
{
	pthread_t threads[4];
	for (intptr_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, on_device, (void *)i);
	for (int i = 0; i < 4; i++) {
		void *good;
		pthread_join(threads[i], &good);
		struct gpumem_stats st = stats_of(i);
		printf("device %d: %llu MiB in %llu blocks; nothing left current: %s\n", i,
		       (unsigned long long)(st.requested >> 20), (unsigned long long)st.live_blocks,
		       good ? "yes" : "no");
	}
	struct gpumem_stats st = {.size = sizeof st};
	printf("device 4: %d\n", gpumem_stats(4, &st));
}

/* The library is the first to meet the fault of a kernel. */
static void fault(void)
{
	CUcontext context;
	CUdeviceptr p;
	CUstream s = stream_new();
	MUST(cuMemAlloc(&p, 1000));
	MUST(cuMemFree(p));
	MUST(cuCtxGetCurrent(&context));
	gm_sim_break(context, CUDA_ERROR_ILLEGAL_ADDRESS);
	gm_sim_fail("cuMemCreate", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
	yes("memory after a fault", take(512 * MIB, s) != 0);
	SAY(cuMemAlloc(&p, 1000));
	gm_sim_break(context, CUDA_SUCCESS);
}

static void wrong(void)
{
	CUstream s = stream_new();
	struct {
		struct gpumem_stats st;
		unsigned char after;
	} x = {.st = {.size = sizeof x.st}, .after = 0x77};
	int local;
	CUdeviceptr a = take(SMALL, s);
	yes("size 0", take(0, s) != 0);
	yes("no such device", gpumem_cupy_malloc(s, 1, 64) || gpumem_cupy_malloc(s, 1, -1));
	yes("more than fits", gpumem_cupy_malloc(s, SIZE_MAX, 0) != NULL);
	give(0, 1, s);
	gpumem_cupy_free(s, &local, 0);
	give(a + 512, 1, s);
	give(a, SMALL, s);
	give(a, SMALL, s);
	CUdeviceptr b = take(SMALL, s), c = take(SMALL, s);
	yes("freed twice, handed out twice", a != b || b == c);
	printf("no struct: %d, no size: %d\n", gpumem_stats(0, NULL),
	       (x.st.size = 8, gpumem_stats(0, &x.st)));
	memset(&x.st, 0x77, sizeof x.st);
	x.st.size = offsetof(struct gpumem_stats, mapped);
	printf("an older struct: %d\n", gpumem_stats(0, &x.st));
	yes("filled that far", x.st.requested == 2 * SMALL && x.st.mapped == 0x7777777777777777 &&
				       x.st.size == offsetof(struct gpumem_stats, mapped));
	char grown[sizeof(struct gpumem_stats) + 64];
	memset(grown, 0x77, sizeof grown);
	memcpy(grown, &(size_t){sizeof grown}, sizeof(size_t));
	printf("a newer struct: %d\n", gpumem_stats(0, (struct gpumem_stats *)(void *)grown));
	yes("told how much was filled", *(size_t *)(void *)grown == sizeof(struct gpumem_stats) &&
						grown[sizeof(struct gpumem_stats)] == 0x77);
}

/* Preloaded, cudaMalloc's blocks are in the same pool. */
static void shared(void)
{
	CUdeviceptr a, b = take(8 * MIB, NULL);
	MUST(cuMemAlloc(&a, 4 * MIB));
	printf("%llu MiB in %llu blocks\n", (unsigned long long)(stats_of(0).requested >> 20),
	       (unsigned long long)stats_of(0).live_blocks);
	give(b, 8 * MIB, NULL);
	printf("marked: %d\n", gpumem_mark("epoch 3"));
	MUST(cuMemFree(a));
}

#define WORKERS 8
static CUstream streams[4];

static void *worker(void *arg)
{
	unsigned char me = (unsigned char)(intptr_t)arg;
	CUstream s = streams[me % 4];
	size_t wrong_ones = 0;
	use_device(0);
	for (unsigned i = 0; i < 200; i++) {
		size_t size = MIB << ((i + me) % 6);
		CUdeviceptr block = take(size, s);
		MUST(cuMemsetD8Async(block, me, size, s));
		MUST(cuStreamSynchronize(s));
		wrong_ones += !block || cuPointerGetAttribute(&(unsigned){0},
							      CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
							      block) != CUDA_SUCCESS;
		give(block, size, s);
		if (i % 64 == 63)
			gpumem_trim();
	}
	return (void *)wrong_ones;
}

static void threads(void)
{
	pthread_t all[WORKERS];
	size_t sum = 0;
	for (int i = 0; i < 4; i++)
		streams[i] = stream_new();
	for (intptr_t i = 0; i < WORKERS; i++)
		pthread_create(&all[i], NULL, worker, (void *)i);
	for (int i = 0; i < WORKERS; i++) {
		void *wrong_ones;
		pthread_join(all[i], &wrong_ones);
		sum += (size_t)wrong_ones;
	}
	gpumem_trim();
	struct gpumem_stats st = stats_of(0);
	printf("%zu wrong; %llu blocks, %llu bytes left\n", sum, (unsigned long long)st.live_blocks,
	       (unsigned long long)st.mapped);
}

/* Each thread holds a block all the time; its free would report a lost one. */
static void *in_context(void *context)
{
	MUST(cuCtxSetCurrent(context));
	CUstream s = stream_new();
	CUdeviceptr held = take(SMALL, s);
	size_t n_lost = 0;
	for (unsigned i = 0; i < 20000; i++) {
		CUdeviceptr block = take(SMALL, s);
		n_lost += !block;
		give(block, SMALL, s);
	}
	give(held, SMALL, s);
	return (void *)n_lost;
}

static void turns(void)
{
	pthread_t all[WORKERS];
	CUcontext two[2];
	size_t sum = 0;
	MUST(cuCtxCreate_v2(&two[0], 0, 0));
	MUST(cuCtxCreate_v2(&two[1], 0, 0));
	for (int i = 0; i < WORKERS; i++)
		pthread_create(&all[i], NULL, in_context, two[i % 2]);
	for (int i = 0; i < WORKERS; i++) {
		void *n_lost;
		pthread_join(all[i], &n_lost);
		sum += (size_t)n_lost;
	}
	printf("%zu blocks lost\n", sum);
	gpumem_trim();
	yes("all of it back", stats_of(0).mapped == 0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{"same_stream", same_stream},
		{"other_stream", other_stream},
		{"batch", batch},
		{"trim", trim},
		{"memory", memory},
		{"destroyed", destroyed},
		{"contexts", contexts},
		{"reset", reset},
		{"reset_behind", reset_behind},
		{"capture", capture},
		{"cupy", cupy},
		{"wrong", wrong},
		{"fault", fault},
		{"shared", shared},
		{"threads", threads},
		{"turns", turns},
		{"devices", devices},
	};
	MUST(cuInit(0));
	for (int i = 1; i < argc; i++)
		for (size_t j = 0; j < sizeof cases / sizeof *cases; j++)
			if (strcmp(argv[i], cases[j].name) == 0) {
				if (cases[j].run != devices)
					use_device(0);
				cases[j].run();
			}
	return 0;
}
