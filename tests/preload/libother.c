/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Another library between the program and the driver, preloaded beside ours. At exit it prints the
 * numbers of calls that it has seen.
 *   CALLS    defines two of the driver's calls, and finds the next ones by RTLD_NEXT
 *   DLSYM    defines dlsym, returns its own functions for two calls and leaves the others to the
 *            next dlsym, as profilers do
 *   AROUND   the same with libc's dlsym as the next one, as HAMi-core and nvshare do
 *   MALLOC   defines malloc and free, and finds the next ones by dlsym at the first call, as heap
 *            tracers do: dlsym must not call malloc during that look-up
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

typedef CUresult allocate_fn(CUdeviceptr *, size_t);
typedef CUresult free_fn(CUdeviceptr);
typedef void *dlsym_fn(void *, const char *);

static unsigned allocated, freed;

__attribute__((destructor)) static void report(void)
{
	char line[80];
	int n = snprintf(line, sizeof line, "other: %u allocated, %u freed\n", allocated, freed);
	ssize_t ignored = write(1, line, (size_t)n);
	(void)ignored;
}

#ifdef MALLOC

static void *(*next_malloc)(size_t);
static void (*next_free)(void *);

static void find(void)
{
	static int finding;
	if (finding++)
		_exit(99); /* dlsym has called malloc */
	*(void **)&next_malloc = dlsym(RTLD_NEXT, "malloc");
	*(void **)&next_free = dlsym(RTLD_NEXT, "free");
	finding = 0;
}

void *malloc(size_t size)
{
	if (!next_malloc)
		find();
	allocated = 1; /* a flag, not a count */
	return next_malloc(size);
}

void free(void *p)
{
	if (!next_free)
		find();
	freed = 1;
	next_free(p);
}

#else

static allocate_fn *next_allocate;
static free_fn *next_free;

#ifdef CALLS
#define OWN(name) name
#else
#define OWN(name) own_##name
static allocate_fn OWN(cuMemAlloc_v2);
static free_fn OWN(cuMemFree_v2);
#endif

#ifdef CALLS

static void find(void)
{
	*(void **)&next_allocate = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
	*(void **)&next_free = dlsym(RTLD_NEXT, "cuMemFree_v2");
}

#else

static dlsym_fn *next_dlsym;

static void find(void)
{
}

static dlsym_fn *find_dlsym(void)
{
	static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
	for (size_t i = 0; i < sizeof versions / sizeof *versions && !next_dlsym; i++)
		next_dlsym = (dlsym_fn *)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
#ifdef DLSYM
	next_dlsym = (dlsym_fn *)next_dlsym(RTLD_NEXT, "dlsym");
#endif
	return next_dlsym;
}

void *dlsym(void *handle, const char *name)
{
	dlsym_fn *next = next_dlsym ? next_dlsym : find_dlsym();
	void *volatile found = next(handle, name);
	if (found && strcmp(name, "cuMemAlloc_v2") == 0) {
		next_allocate = (allocate_fn *)found;
		return (void *)OWN(cuMemAlloc_v2);
	}
	if (found && strcmp(name, "cuMemFree_v2") == 0) {
		next_free = (free_fn *)found;
		return (void *)OWN(cuMemFree_v2);
	}
	return found;
}

#endif

CUresult OWN(cuMemAlloc_v2)(CUdeviceptr *address, size_t size)
{
	if (!next_allocate)
		find();
	allocated++;
	return next_allocate(address, size);
}

CUresult OWN(cuMemFree_v2)(CUdeviceptr address)
{
	if (!next_free)
		find();
	freed++;
	return next_free(address);
}

#endif
