/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocation and free while a stream is being captured: three modes, on the capturing thread or
 * another, with the thread's own mode exchanged to relaxed or not.
 */
#include <pthread.h>

#include "program.h"

static CUcontext context;

enum act { ALLOCATE, FREE, COPY, SET };

struct attempt {
	enum act act;
	bool exchange;
	CUdeviceptr block;
	CUresult answer;
};

static CUresult act(struct attempt *a)
{
	CUdeviceptr fresh;
	char byte;
	switch (a->act) {
	case ALLOCATE:
		return cuMemAlloc(&fresh, 3 * MIB);
	case FREE:
		return cuMemFree(a->block);
	case COPY:
		return cuMemcpyDtoH(&byte, a->block, 1);
	default:
		return cuMemsetD8(a->block, 1, 1);
	}
}

static void *attempt(void *arg)
{
	struct attempt *a = arg;
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	MUST(cuCtxSetCurrent(context));
	if (a->exchange)
		MUST(cuThreadExchangeStreamCaptureMode(&mode));
	a->answer = act(a);
	if (a->exchange)
		MUST(cuThreadExchangeStreamCaptureMode(&mode));
	return NULL;
}

static void one_case(enum act what, CUstreamCaptureMode mode, bool other, bool exchange)
{
	static const char *const acts[] = {"cuMemAlloc", "cuMemFree", "cuMemcpyDtoH", "cuMemsetD8"};
	static const char *const modes[] = {"global", "thread-local", "relaxed"};
	struct attempt a = {.act = what, .exchange = exchange};
	CUstream stream;
	CUgraph graph = NULL;
	pthread_t thread;
	MUST(cuMemAlloc(&a.block, 1000));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamBeginCapture(stream, mode));
	if (other) {
		pthread_create(&thread, NULL, attempt, &a);
		pthread_join(thread, NULL);
	} else {
		attempt(&a);
	}
	CUresult end = cuStreamEndCapture(stream, &graph);
	printf("%s, %s, %s thread%s: %s, then %s, graph %d\n", acts[what], modes[mode],
	       other ? "another" : "the same", exchange ? ", exchanged" : "", result_name(a.answer),
	       result_name(end), graph != NULL);
	if (graph)
		MUST(cuGraphDestroy(graph));
	/* Free the block whether the captured free succeeded or not: nothing may be left. */
	bool gone = what == FREE && a.answer == CUDA_SUCCESS;
	printf("  the block afterwards: %s\n", result_name(cuMemFree(a.block)));
	if (!gone)
		printf("  and again: %s\n", result_name(cuMemFree(a.block)));
	MUST(cuStreamDestroy(stream));
}

/* Captures that end without cuStreamEndCapture, and ends that fail. */
static void odd_ends(void)
{
	CUstream stream;
	CUgraph graph;
	CUdeviceptr p;
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	SAY(cuStreamEndCapture(stream, &graph));
	MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	SAY(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	SAY(cuMemAlloc(&p, 1000));
	SAY(cuStreamEndCapture(stream, &graph));
	SAY(cuMemAlloc(&p, 1000));
	SAY(cuMemFree(p));
	MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	SAY(cuStreamDestroy(stream));
	SAY(cuMemAlloc(&p, 1000));
	SAY(cuMemFree(p));
	SAY(cuCtxSynchronize());
}

static void *end_it(void *stream)
{
	CUgraph graph;
	MUST(cuCtxSetCurrent(context));
	SAY(cuStreamEndCapture(stream, &graph));
	return NULL;
}

/* cuStreamEndCapture on the wrong thread fails, and the capture stays open: a free must not
 * invalidate it. */
static void wrong_thread(void)
{
	CUstream stream;
	CUgraph graph = NULL;
	CUdeviceptr p;
	pthread_t thread;
	MUST(cuMemAlloc(&p, 1000));
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	pthread_create(&thread, NULL, end_it, stream);
	pthread_join(thread, NULL);
	struct attempt free_it = {.act = FREE, .block = p};
	pthread_create(&thread, NULL, attempt, &free_it);
	pthread_join(thread, NULL);
	printf("freed by another thread: %s\n", result_name(free_it.answer));
	SAY(cuStreamEndCapture(stream, &graph));
	printf("graph %d\n", graph != NULL);
	if (graph)
		MUST(cuGraphDestroy(graph));
	MUST(cuMemAlloc(&p, 1000));
	SAY(cuMemFree(p));
	MUST(cuStreamDestroy(stream));
}

int main(void)
{
	MUST(cuInit(0));
	context = use_device(0);
	for (int what = ALLOCATE; what <= SET; what++)
		for (int mode = 0; mode < 3; mode++)
			for (int i = 0; i < 4; i++)
				one_case((enum act)what, (CUstreamCaptureMode)mode, i / 2, i % 2);
	odd_ends();
	wrong_thread();
	return 0;
}
