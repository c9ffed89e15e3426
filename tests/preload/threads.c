/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `threads ROUNDS`: each thread allocates memory, fills it, copies it to the host and back on a
 * stream of its own, and frees it. The blocks of the main thread must stay unchanged.
 */
#include <pthread.h>

#include "program.h"

#define THREADS 4
#define KEPT 20
#define MOST ((size_t)256)

static CUcontext context;
static int rounds;

/* Allocates, uses and frees a block. False: the data has changed. */
static bool live(CUstream stream, unsigned char value, size_t size)
{
	unsigned char out[MOST], back[MOST];
	CUdeviceptr p;
	MUST(cuMemAlloc(&p, 4096 * size));
	MUST(cuMemsetD8Async(p, value, size, stream));
	MUST(cuMemcpyDtoHAsync(out, p, size, stream));
	MUST(cuStreamSynchronize(stream));
	MUST(cuMemcpyHtoDAsync(p + size, out, size, stream));
	MUST(cuMemcpyDtoDAsync(p + 3 * size, p + size, size, stream));
	MUST(cuMemcpyDtoHAsync(back, p + 3 * size, size, stream));
	MUST(cuStreamSynchronize(stream));
	MUST(cuMemFree(p));
	return out[0] == value && memcmp(out, out + 1, size - 1) == 0 &&
	       memcmp(out, back, size) == 0;
}

static void *work(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	CUstream stream;
	uintptr_t wrong = 0;
	MUST(cuCtxSetCurrent(context));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < rounds; i++)
		wrong += !live(stream, (unsigned char)(i + 50 * me), 1 + (i * 7 + me) % (MOST - 1));
	MUST(cuStreamDestroy(stream));
	return (void *)wrong;
}

int main(int count, char **arguments)
{
	pthread_t threads[THREADS];
	CUdeviceptr kept[KEPT];
	unsigned char value;
	rounds = count > 1 ? atoi(arguments[1]) : 100;
	MUST(cuInit(0));
	context = use_device(0);
	for (int i = 0; i < KEPT; i++) {
		MUST(cuMemAlloc(&kept[i], MIB));
		MUST(cuMemsetD8(kept[i], (unsigned char)i, MIB));
	}
	MUST(cuCtxSynchronize());
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)i);
	for (int i = 0; i < THREADS; i++) {
		void *wrong;
		pthread_join(threads[i], &wrong);
		printf("thread %d: %u wrong\n", i, (unsigned)(uintptr_t)wrong);
	}
	for (int i = 0; i < KEPT; i++) {
		MUST(cuMemcpyDtoH(&value, kept[i] + MIB - 1, 1));
		printf("%d%c", value, i + 1 < KEPT ? ' ' : '\n');
	}
	return 0;
}
