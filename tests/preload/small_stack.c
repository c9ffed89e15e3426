/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stack use of calls: small_stack MOST. The stack is painted before each call. Prints a line for
 * each call that used more than MOST bytes. Exit status 1: a call used more, or failed.
 */
#include <pthread.h>
#include <sys/mman.h>

#include "tests/preload/program.h"

#define ROOM ((size_t)256 << 10)
#define BELOW 512 /* bytes below the frame of the painting function, left unpainted */
#define SIZE (64 * MIB)
#define PAINT 0xa5

static unsigned char *stack;
static char *host;
static size_t most;
static bool failed;

static void __attribute__((noinline)) stack_paint(const unsigned char *top)
{
	for (unsigned char *p = stack; p < top - BELOW; p++)
		*(volatile unsigned char *)p = PAINT;
}

static void __attribute__((noinline)) stack_look(const char *call, const unsigned char *top)
{
	const unsigned char *p = stack;
	while (*(const volatile unsigned char *)p == PAINT)
		p++;
	if ((size_t)(top - p) > most) {
		printf("%s: %zu bytes of stack\n", call, (size_t)(top - p));
		failed = true;
	}
}

#define TAKES(expected, call)                                           \
	do {                                                            \
		stack_paint(__builtin_frame_address(0));                \
		CUresult takes_ = (call);                               \
		stack_look(#call, __builtin_frame_address(0));          \
		if (takes_ != (expected)) {                             \
			printf("%s: %s\n", #call, result_name(takes_)); \
			failed = true;                                  \
		}                                                       \
	} while (0)

static void *thread_run(void *arg)
{
	CUdevice device;
	CUcontext context;
	CUdeviceptr block = 0;
	size_t free_bytes, total;
	TAKES(CUDA_SUCCESS, cuInit(0));
	TAKES(CUDA_SUCCESS, cuDeviceGet(&device, 0));
	TAKES(CUDA_SUCCESS, cuDevicePrimaryCtxRetain(&context, device));
	TAKES(CUDA_SUCCESS, cuCtxSetCurrent(context));
	TAKES(CUDA_SUCCESS, cuMemAlloc(&block, SIZE));
	TAKES(CUDA_SUCCESS, cuMemcpyHtoD(block, host, SIZE));
	TAKES(CUDA_SUCCESS, cuMemcpyDtoH(host, block, SIZE));
	TAKES(CUDA_SUCCESS, cuMemGetInfo(&free_bytes, &total));
	TAKES(CUDA_SUCCESS, cuMemFree(block));
	TAKES(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&block, (size_t)1 << 50));
	TAKES(CUDA_SUCCESS, cuMemAlloc(&block, 1000));
	TAKES(CUDA_SUCCESS, cuMemFree(block));
	TAKES(CUDA_SUCCESS, cuDevicePrimaryCtxReset(device));
	return arg;
}

int main(int argc, char **argv)
{
	pthread_attr_t attributes;
	pthread_t thread;
	most = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	host = calloc(1, SIZE);
	stack = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!host || stack == MAP_FAILED || pthread_attr_init(&attributes) != 0 ||
	    pthread_attr_setstack(&attributes, stack, ROOM) != 0 ||
	    pthread_create(&thread, &attributes, thread_run, NULL) != 0)
		return 2;
	pthread_join(thread, NULL);
	return failed;
}
