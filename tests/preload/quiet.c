/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program's view of its process up to cuInit: allocations by libraries, threads, descriptors,
 * files in this folder. It must be the same natively and preloaded.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);

static unsigned long allocations;

void *malloc(size_t size)
{
	allocations++;
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	allocations++;
	return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	allocations++;
	return __libc_realloc(old, size);
}

static int entries(const char *folder)
{
	int n = 0;
	DIR *directory = opendir(folder);
	if (!directory)
		return -1;
	while (readdir(directory))
		n++;
	closedir(directory);
	return n;
}

int main(void)
{
	static const struct {
		const char *name;
		int version;
		cuuint64_t flags;
	} requests[] = {
		{"cuInit", 2000, 0},
		{"cuGetProcAddress", 12000, 0},
		{"cuMemAlloc", 3020, 0},
		{"cuMemcpyHtoD", 7000, 2},
		{"cuMemFree", 3020, 0},
		{"cuNoSuchCall", 13000, 0},
		{"cuDriverGetVersion", 2020, 0},
		{"cuLaunchKernel", 4000, 0},
	};
	void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return puts(dlerror()), 1;

	unsigned long before = allocations;
	CUresult (*resolve)(const char *, void **, int, cuuint64_t,
			    CUdriverProcAddressQueryResult *);
	*(void **)&resolve = dlsym(handle, "cuGetProcAddress_v2");
	unsigned found = 0;
	for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
		void *entry = NULL;
		resolve(requests[i].name, &entry, requests[i].version, requests[i].flags, NULL);
		found += entry != NULL;
	}
	CUresult (*init)(unsigned) = (CUresult(*)(unsigned))dlsym(handle, "cuInit");
	CUresult (*release)(CUdeviceptr) = (CUresult(*)(CUdeviceptr))dlsym(handle, "cuMemFree_v2");
	CUresult early = release(4096), bad = init(77);
	unsigned long during = allocations - before;

	printf("found %u, free too early %d, init with bad flags %d\n", found, early, bad);
	printf("allocations %lu\n", during);
	printf("threads %d, descriptors %d, files %d\n", entries("/proc/self/task"),
	       entries("/proc/self/fd"), entries("."));
	return 0;
}
