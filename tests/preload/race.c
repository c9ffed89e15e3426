/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads allocate and free while another thread captures in relaxed mode, again and again: none of
 * their calls may invalidate a capture.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "program.h"

#define THREADS 3
/* Without the capture lock hundreds of captures are lost. A debug build checks all retired blocks
 * in each step, so the cost grows with the square of the pairs. */
#define PAIRS 1000

static CUcontext context;
static atomic_uint finished, refused;

/* A block that is freed during a capture may not be used again before the capture ends: all of them
 * together are smaller than the device. */
static void *churn(void *arg)
{
	size_t size = (size_t)(uintptr_t)arg;
	CUdeviceptr p;
	MUST(cuCtxSetCurrent(context));
	for (int i = 0; i < PAIRS; i++)
		if (cuMemAlloc(&p, size) != CUDA_SUCCESS || cuMemFree(p) != CUDA_SUCCESS)
			atomic_fetch_add(&refused, 1);
	atomic_fetch_add(&finished, 1);
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	CUstream stream;
	unsigned invalidated = 0;
	MUST(cuInit(0));
	context = use_device(0);
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, churn, (void *)(1000 + 30000 * i));
	while (atomic_load(&finished) < THREADS) {
		CUgraph graph = NULL;
		MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
		invalidated += cuStreamEndCapture(stream, &graph) != CUDA_SUCCESS;
		if (graph)
			MUST(cuGraphDestroy(graph));
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%u captures invalidated, %u calls refused\n", invalidated, atomic_load(&refused));
	MUST(cuStreamDestroy(stream));
	return 0;
}
