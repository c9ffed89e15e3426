/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For programs with the same output natively and preloaded: they print calls and results, never
 * addresses or times.
 */
#ifndef GM_TESTS_PRELOAD_PROGRAM_H
#define GM_TESTS_PRELOAD_PROGRAM_H

#include <cuda.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

/* A function of PLACE has a frame of its own, so that call stacks name it. After its last call it
 * needs STAYS: else that call may be a jump. */
#ifdef __clang__ /* clones no function */
#define PLACE __attribute__((noinline))
#else
#define PLACE __attribute__((noinline, noclone))
#endif
#define STAYS() __asm__ volatile("" ::: "memory")

static inline const char *result_name(CUresult result)
{
	const char *name = NULL;
	return cuGetErrorName(result, &name) == CUDA_SUCCESS && name ? name : "?";
}

__attribute__((unused)) static CUresult say(const char *call, CUresult result)
{
	printf("%s: %s\n", call, result_name(result));
	fflush(stdout);
	return result;
}

/* Print the call and its result. */
#define SAY(call) say(#call, call)

/* A call outside the test's subject: it must succeed. */
#define MUST(call)                                                                                \
	do {                                                                                      \
		CUresult must_ = (call);                                                          \
		if (must_ != CUDA_SUCCESS) {                                                      \
			printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, result_name(must_)); \
			exit(1);                                                                  \
		}                                                                                 \
	} while (0)

/* Retain and set the primary context of a device. */
__attribute__((unused)) static CUcontext use_device(int ordinal)
{
	CUcontext context;
	CUdevice device;
	MUST(cuDeviceGet(&device, ordinal));
	MUST(cuDevicePrimaryCtxRetain(&context, device));
	MUST(cuCtxSetCurrent(context));
	return context;
}

#endif
