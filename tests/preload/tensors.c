/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tensors in the segments of a cache like PyTorch's (libtensors.c), which is loaded as Python loads
 * an extension module: into no global scope. Prints what a profiler would have read.
 *
 *     tensors few        a handful of tensors, one of the host
 *     tensors many N     N short-lived ones beside four that stay
 *     tensors threads    eight threads, 2,000 each
 *     tensors fork       a child takes and gives tensors, too
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

#define SEGMENT (64 * MIB)

static void (*segment_add)(size_t bytes);
static void (*tensor_take)(void *address, size_t bytes);
static void (*tensor_give)(void *address, size_t bytes);
static void (*host_take)(void *address, size_t bytes);
static unsigned long *reports, *sum;
static char *segment;

static void *found(void *library, const char *name)
{
	void *address = dlsym(library, name);
	if (!address) {
		fprintf(stderr, "tensors: %s\n", dlerror());
		exit(2);
	}
	return address;
}

static void library_open(const char *program)
{
	char path[4096];
	const char *end = strrchr(program, '/');
	snprintf(path, sizeof path, "%.*s/libtensors_cuda.so", end ? (int)(end - program) : 1,
		 end ? program : ".");
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		fprintf(stderr, "tensors: %s\n", dlerror());
		exit(2);
	}
	*(void **)&segment_add = found(library, "segment_add");
	*(void **)&tensor_take = found(library, "tensor_take");
	*(void **)&tensor_give = found(library, "tensor_give");
	*(void **)&host_take = found(library, "host_take");
	reports = found(library, "reports");
	sum = found(library, "sum");
}

static char *at(size_t mib)
{
	return segment + mib * MIB;
}

static __attribute__((noinline)) void forward(void)
{
	tensor_take(at(0), 8 * MIB);
	tensor_take(at(8), 4 * MIB);
}

static __attribute__((noinline)) void backward(void)
{
	tensor_take(at(12), 20 * MIB);
	tensor_give(at(12), 20 * MIB);
}

static void few(void)
{
	int host;
	forward();
	backward();
	tensor_take(at(12), 2 * MIB);
	tensor_take(at(14), 512);
	host_take(&host, sizeof host);
	tensor_give(at(8), 4 * MIB);
	tensor_give(at(40), 1 * MIB); /* nobody took it */
	tensor_take(at(8), 3 * MIB);
}

static void many(unsigned long n)
{
	forward();
	for (unsigned long i = 0; i < n; i++) {
		tensor_take(at(32) + i % 1024 * 512, 512);
		tensor_give(at(32) + i % 1024 * 512, 512);
	}
}

static void *crew(void *arg)
{
	char *mine = at(32) + (size_t)arg * MIB;
	for (unsigned i = 0; i < 2000; i++) {
		tensor_take(mine, 64 << 10);
		tensor_give(mine, 64 << 10);
	}
	tensor_take(mine, 64 << 10);
	return NULL;
}

static void threads(void)
{
	pthread_t thread[8];
	for (size_t i = 0; i < 8; i++)
		pthread_create(&thread[i], NULL, crew, (void *)i);
	for (size_t i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
	*sum = 0; /* the order of reports is any */
}

static void forked(void)
{
	forward();
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		tensor_give(at(0), 8 * MIB);
		backward();
		printf("child: %lu reports\n", *reports);
		fflush(stdout);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	backward();
}

int main(int argc, char **argv)
{
	CUdeviceptr address;
	const char *mode = argc > 1 ? argv[1] : "few";
	MUST(cuInit(0));
	use_device(0);
	MUST(cuMemAlloc(&address, SEGMENT));
	segment = (char *)(uintptr_t)address;
	library_open(argv[0]);
	segment_add(SEGMENT);
	if (strcmp(mode, "many") == 0)
		many(strtoul(argv[2], NULL, 10));
	else if (strcmp(mode, "threads") == 0)
		threads();
	else if (strcmp(mode, "fork") == 0)
		forked();
	else
		few();
	printf("%lu reports, sum %lu\n", *reports, *sum % 1000 + (*sum != 0));
	return 0;
}
