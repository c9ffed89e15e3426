/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A free waits for the kernels of its context: `held [async|other]`. Natively an async free does
 * not wait; nor does `other`, which frees an unused block in an idle stream.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "program.h"
#include "steer.h"

#define SIZE ((size_t)5000)

static CUcontext context;
static CUdeviceptr block, kept;
static CUstream stream;
static CUstream idle;
static atomic_bool freed;
static atomic_int seen;

/* The kernel reads its argument long after the launch. */
static void kernel(void *arg)
{
	const unsigned char *bytes = arg;
	atomic_store(&seen, bytes[0] + bytes[SIZE - 1]);
}

static void *free_it(void *arg)
{
	CUdeviceptr next;
	MUST(cuCtxSetCurrent(context));
	bool other = arg && strcmp(arg, "other") == 0;
	CUresult result = !arg ? cuMemFree(block) : cuMemFreeAsync(block, other ? idle : stream);
	printf("free: %s\n", result_name(result));
	atomic_store(&freed, true);
	/* The next owner of the memory writes to it. */
	MUST(cuMemAlloc(&next, SIZE));
	MUST(cuMemsetD8(next, 255, SIZE));
	MUST(cuMemFree(next));
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	MUST(cuInit(0));
	context = use_device(0);
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cuStreamCreate(&idle, CU_STREAM_NON_BLOCKING));
	MUST(cuMemAlloc(&block, SIZE));
	MUST(cuMemAlloc(&kept, SIZE));
	MUST(cuMemsetD8(block, 21, SIZE));
	MUST(cuMemsetD8(kept, 21, SIZE));
	MUST(cuCtxSynchronize());
	gm_sim_hold(stream);
	bool other = argc > 1 && strcmp(argv[1], "other") == 0;
	MUST(gm_sim_launch(stream, kernel, (void *)(uintptr_t)(other ? kept : block)));
	pthread_create(&thread, NULL, free_it, argc > 1 ? argv[1] : NULL);
	while (!gm_sim_waiters() && !atomic_load(&freed))
		sched_yield();
	printf("freed under the kernel: %d\n", atomic_load(&freed));
	gm_sim_release(stream, -1u);
	pthread_join(thread, NULL);
	printf("the kernel saw %d\n", atomic_load(&seen));
	MUST(cuStreamDestroy(stream));
	return 0;
}
