/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For programs in which a held stream is yet to write to a block that is freed. With `show` they
 * also print whether memory was used again at once, and whether a thread waited.
 */
#ifndef GM_TESTS_PRELOAD_SPOIL_H
#define GM_TESTS_PRELOAD_SPOIL_H

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "cases.h"
#include "sim/sim.h"
#include "steer.h"

#define LATE 255

/* --- a thread that releases streams when another waits --- */

static CUstream held[2];
static atomic_bool done, waited;

static void *let_go(void *arg)
{
	while (!atomic_load(&done)) {
		if (gm_sim_waiters()) {
			atomic_store(&waited, true);
			break;
		}
		usleep(100);
	}
	for (unsigned i = 0; i < 2; i++)
		if (held[i])
			gm_sim_release(held[i], -1u);
	return arg;
}

static pthread_t begin(void)
{
	pthread_t thread;
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
	for (unsigned i = 0; i < 2; i++)
		if (held[i])
			MUST(cuStreamSynchronize(held[i]));
}

static CUstream stream_new(void)
{
	CUstream stream;
	MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

static CUstream hold(unsigned i)
{
	held[i] = stream_new();
	gm_sim_hold(held[i]);
	return held[i];
}

static CUdeviceptr take(size_t size)
{
	CUdeviceptr at;
	MUST(cuMemAlloc(&at, size));
	return at;
}

/* Kernels use addresses like a program's: an unmapped address faults. */
static void kernel_fill(void **args)
{
	memset(*(void **)args[0], *(int *)args[1], *(size_t *)args[2]);
}

static CUfunction function_in(const struct gm_sim_image *image, const char *name)
{
	CUmodule module;
	CUfunction function;
	MUST(cuModuleLoadData(&module, image));
	MUST(cuModuleGetFunction(&function, module, name));
	return function;
}

static CUfunction function_fill(void)
{
	static const struct gm_sim_kernel kernel = {
		"fill", kernel_fill, {sizeof(CUdeviceptr), sizeof(int), sizeof(size_t)}, 0};
	static const struct gm_sim_image image = {GM_SIM_IMAGE, 1, &kernel, 0, 0, NULL};
	static CUfunction function;
	if (!function)
		function = function_in(&image, "fill");
	return function;
}

static void fill_by_kernel(CUdeviceptr at, int value, size_t size, CUstream stream)
{
	void *params[] = {&at, &value, &size};
	MUST(cuLaunchKernel(function_fill(), 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void late(CUdeviceptr at, size_t size, CUstream stream)
{
	fill_by_kernel(at, LATE, size, stream);
}

static void early(CUdeviceptr fresh, CUdeviceptr old, size_t size)
{
	if (show)
		printf("  used again: %d\n", fresh >= old && fresh < old + size);
}

static void holds(CUdeviceptr at, size_t size, unsigned char value)
{
	unsigned char *copy = malloc(size);
	MUST(cuMemcpyDtoH(copy, at, size));
	printf("intact: %d\n", copy[0] == value && memcmp(copy, copy + 1, size - 1) == 0);
	free(copy);
}

#endif
