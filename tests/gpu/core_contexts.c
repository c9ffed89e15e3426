/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Four threads on two contexts of one device, with memory of libgpumem-core only. Each block is
 * filled on its stream, and every byte is checked before the free. Both contexts are destroyed and
 * created again and again, one while the other is in use. Prints the number of wrong bytes,
 * natively and preloaded: 0. Usage: core_contexts seconds|operations N
 */
#include <cuda.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpumem.h"

/* Declared here: cuda.h hides this call, and every driver has it. */
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);

#define PLACES 2   /* contexts */
#define WORKERS 2  /* threads on each context */
#define STREAMS 2  /* of each thread */
#define HELD 24	   /* blocks of each thread */
#define ROUND 300  /* operations of each thread while a context lives */
#define LARGEST 21 /* logarithm of the largest size */

#define MUST(call)                                                                   \
	do {                                                                         \
		int must_ = (int)(call);                                             \
		if (must_ != 0) {                                                    \
			printf("%s:%d: %s: %d\n", __FILE__, __LINE__, #call, must_); \
			exit(1);                                                     \
		}                                                                    \
	} while (0)

struct place {
	CUcontext context;
	CUdevice device;
	pthread_barrier_t line; /* the threads of this context */
	bool over;
};

struct block {
	CUdeviceptr at;
	size_t size;
	uint32_t tag; /* value of each of its words */
	unsigned stream;
	bool any; /* for any stream */
};

struct worker {
	pthread_t thread;
	struct place *place;
	CUstream streams[STREAMS];
	struct block held[HELD];
	uint32_t *host;
	uint64_t random, wrong;
};

static atomic_ullong operations; /* of all threads */
static uint64_t most;		 /* operations, or 0 */
static time_t until;		 /* end time if most is 0 */
static bool preloaded;

static uint64_t pick(struct worker *w, uint64_t below)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random % below;
}

static void *allocate(const struct worker *w, const struct block *b)
{
	return gpumem_cupy_malloc(b->any ? NULL : w->streams[b->stream], b->size, 0);
}

static void fill(struct worker *w, struct block *b)
{
	b->size = ((size_t)512 << pick(w, LARGEST - 9 + 1)) - 4 * pick(w, 64);
	b->tag = (uint32_t)pick(w, UINT32_MAX) + 1;
	b->stream = (unsigned)pick(w, STREAMS);
	b->any = pick(w, 4) == 0;
	b->at = (CUdeviceptr)allocate(w, b);
	MUST(b->at == 0);
	MUST(cuMemsetD32Async(b->at, b->tag, b->size / 4, w->streams[b->stream]));
}

static void look(struct worker *w, const struct block *b)
{
	CUstream stream = w->streams[b->stream];
	MUST(cuMemcpyDtoHAsync(w->host, b->at, b->size, stream));
	MUST(cuStreamSynchronize(stream));
	for (size_t i = 0; i < b->size / 4; i++)
		for (uint32_t differ = w->host[i] ^ b->tag; differ; differ >>= 8)
			w->wrong += (differ & 0xff) != 0;
}

static void give(struct worker *w, struct block *b)
{
	look(w, b);
	gpumem_cupy_free(b->any ? NULL : w->streams[b->stream], (void *)b->at, 0);
	b->at = 0;
}

static void begin(struct worker *w)
{
	MUST(cuCtxSetCurrent(w->place->context));
	for (unsigned i = 0; i < STREAMS; i++)
		MUST(cuStreamCreate(&w->streams[i], CU_STREAM_NON_BLOCKING));
	memset(w->held, 0, sizeof w->held);
}

/* Under the preload half of the blocks are left: they end with the context. */
static void end(struct worker *w)
{
	for (unsigned i = 0; i < HELD; i++) {
		struct block *b = &w->held[i];
		if (b->at && (!preloaded || i % 2))
			give(w, b);
		else if (b->at)
			look(w, b);
	}
}

static bool is_over(void)
{
	return most ? atomic_load(&operations) >= most : time(NULL) >= until;
}

/* Call while no thread uses the context. */
static void renew(struct place *p)
{
	p->over = is_over();
	if (!preloaded)
		gpumem_trim(); /* natively the library does not notice a context's end */
	MUST(cuCtxDestroy(p->context));
	if (!p->over)
		MUST(cuCtxCreate_v2(&p->context, 0, p->device));
}

static void *work(void *arg)
{
	struct worker *w = arg;
	do {
		begin(w);
		for (unsigned i = 0; i < ROUND; i++) {
			struct block *b = &w->held[pick(w, HELD)];
			if (b->at)
				give(w, b);
			fill(w, b);
		}
		atomic_fetch_add(&operations, ROUND);
		end(w);
		if (pthread_barrier_wait(&w->place->line) == PTHREAD_BARRIER_SERIAL_THREAD)
			renew(w->place);
		pthread_barrier_wait(&w->place->line);
	} while (!w->place->over);
	return NULL;
}

static void start(struct worker *w, struct place *place, unsigned number)
{
	w->place = place;
	w->random = 0x9e3779b97f4a7c15 * (number + 1);
	w->host = malloc((size_t)1 << LARGEST);
	MUST(!w->host || pthread_create(&w->thread, NULL, work, w));
}

int main(int argc, char **argv)
{
	static struct place places[PLACES];
	static struct worker workers[PLACES * WORKERS];
	uint64_t n = argc == 3 ? strtoull(argv[2], NULL, 10) : 0, wrong = 0;
	if (!n || (strcmp(argv[1], "seconds") != 0 && strcmp(argv[1], "operations") != 0)) {
		fprintf(stderr, "usage: core_contexts seconds|operations N\n");
		return 2;
	}
	most = argv[1][0] == 'o' ? n : 0;
	until = time(NULL) + (time_t)n;
	MUST(cuInit(0));
	preloaded = dlsym(RTLD_DEFAULT, "gm_preload_core") != NULL;
	for (unsigned i = 0; i < PLACES; i++) {
		MUST(cuDeviceGet(&places[i].device, 0));
		MUST(cuCtxCreate_v2(&places[i].context, 0, places[i].device));
		MUST(pthread_barrier_init(&places[i].line, NULL, WORKERS));
	}
	for (unsigned i = 0; i < PLACES * WORKERS; i++)
		start(&workers[i], &places[i % PLACES], i);
	for (unsigned i = 0; i < PLACES * WORKERS; i++) {
		MUST(pthread_join(workers[i].thread, NULL));
		wrong += workers[i].wrong;
		free(workers[i].host);
	}
	printf("%llu bytes wrong\n", (unsigned long long)wrong);
	return wrong != 0;
}
