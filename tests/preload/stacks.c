/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocates in functions of known names, for the stacks in its log: stacks WAY [LIBRARY]
 *   calls      in functions, one inlined, one of C++; and twice at one place
 *   again      in two functions by turns, at the same stack depth, many times
 *   library    in a library that is closed afterwards, and by the program that links it
 *   threads    in threads, each at its own place, while libraries come and go
 *   segments   a block with a stack, then without one until the log's first segment is dropped
 *   full       in many sizes until memory lacks, four times
 *   fork       in a child, whose calls must do no harm, and in the parent afterwards
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

static PLACE CUdeviceptr known_leaf(size_t size)
{
	CUdeviceptr block;
	MUST(cuMemAlloc(&block, size));
	STAYS();
	return block;
}

__attribute__((always_inline)) static inline CUdeviceptr known_inlined(size_t size)
{
	CUdeviceptr block = known_leaf(size);
	STAYS();
	return block;
}

static PLACE CUdeviceptr known_caller(size_t size)
{
	CUdeviceptr block = known_inlined(size);
	STAYS();
	return block;
}

/* mangled name of test::Layer<int>::forward(unsigned long) */
PLACE CUdeviceptr layer_forward(size_t size) __asm__("_ZN4test5LayerIiE7forwardEm");
PLACE CUdeviceptr layer_forward(size_t size)
{
	CUdeviceptr block = known_leaf(size);
	STAYS();
	return block;
}

static void way_calls(const char *unused)
{
	(void)unused;
	known_caller(1 * MIB);
	layer_forward(2 * MIB);
	for (volatile int i = 0; i < 3; i++) /* not unrolled, so one place */
		known_leaf(4 * MIB);
	known_leaf(1000); /* too small for a stack */
	CUdeviceptr freed = known_caller(8 * MIB);
	MUST(cuMemFree(freed));
}

static void way_again(const char *unused)
{
	(void)unused;
	for (volatile int i = 0; i < 300; i++) {
		CUdeviceptr one = known_caller(1 * MIB), two = layer_forward(2 * MIB);
		if (i % 100 == 0)
			continue;
		MUST(cuMemFree(one));
		MUST(cuMemFree(two));
	}
}

static void way_library(const char *path)
{
	CUdeviceptr block = known_leaf(32 * MIB); /* reads the list of objects before */
	for (int i = 0; i < 2; i++) {		  /* at the same address again, or elsewhere */
		void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		CUresult (*allocate)(CUdeviceptr *, size_t) = NULL;
		if (library)
			*(void **)&allocate = dlsym(library, "library_allocate");
		if (!allocate) {
			printf("%s\n", dlerror());
			exit(1);
		}
		MUST(allocate(&block, 1 * MIB));
		dlclose(library);
	}
	known_caller(16 * MIB);
}

enum { THREADS = 4, TURNS = 300 };
static CUcontext context;

static void *thread_allocate(void *arg)
{
	CUdeviceptr block, kept = known_caller(MIB);
	(void)arg;
	for (int i = 0; i < TURNS; i++) {
		block = i % 2 ? known_leaf(MIB) : known_caller(MIB);
		MUST(cuMemFree(block));
	}
	return kept ? NULL : &context;
}

static void *thread_start(void *arg)
{
	MUST(cuCtxSetCurrent(context));
	return thread_allocate(arg);
}

static void way_threads(const char *path)
{
	pthread_t threads[THREADS];
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, thread_start, NULL);
	for (int i = 0; i < 50; i++) {
		void *library = dlopen(path, RTLD_NOW);
		if (library)
			dlclose(library);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void way_segments(const char *unused)
{
	(void)unused;
	known_caller(1 * MIB);
	for (int i = 0; i < 290000; i++) {
		CUdeviceptr block;
		MUST(cuMemAlloc(&block, 512));
		MUST(cuMemFree(block));
	}
}

/* 70 sizes with one block each, which have no stack, and three places with stacks. */
static void way_full(const char *unused)
{
	CUdeviceptr block;
	(void)unused;
	known_caller(3 * MIB);
	for (volatile int i = 0; i < 2; i++)
		known_leaf(10 * MIB);
	layer_forward(2 * MIB);
	for (volatile size_t i = 1; i <= 70; i++)
		known_leaf(i * 100);
	for (volatile int i = 0; i < 4; i++)
		if (cuMemAlloc(&block, 512 * MIB) != CUDA_ERROR_OUT_OF_MEMORY)
			exit(1);
}

static void way_fork(const char *unused)
{
	int status = -1;
	CUdeviceptr block;
	(void)unused;
	known_leaf(MIB);
	pid_t child = fork();
	if (child == 0) {
		cuMemAlloc(&block, MIB); /* the driver does not survive a fork */
		_exit(0);
	}
	waitpid(child, &status, 0);
	if (status)
		exit(1);
	known_caller(MIB);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*go)(const char *path);
	} ways[] = {{"calls", way_calls},     {"again", way_again},	  {"library", way_library},
		    {"threads", way_threads}, {"segments", way_segments}, {"full", way_full},
		    {"fork", way_fork}};
	MUST(cuInit(0));
	context = use_device(0);
	for (size_t i = 0; argc > 1 && i < sizeof ways / sizeof *ways; i++)
		if (!strcmp(argv[1], ways[i].name)) {
			ways[i].go(argc > 2 ? argv[2] : "");
			puts("done");
			return 0;
		}
	return 2;
}
