/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that is linked with libcuda: it makes no look-up. With "owner" as the first argument it
 * prints the owners of its entries. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

static void say_owner(const char *name, void *entry)
{
	Dl_info info = {0};
	dladdr(entry, &info);
	const char *slash = strrchr(info.dli_fname, '/');
	printf("%s: %s\n", name, slash ? slash + 1 : info.dli_fname);
}

int main(int count, char **arguments)
{
	CUcontext context = NULL;
	CUdeviceptr address = 0;
	void *entry = NULL;
	int version = 0;
	if (count > 1 && strcmp(arguments[1], "owner") == 0) {
		say_owner("cuInit", (void *)cuInit);
		say_owner("cuMemAlloc_v2", (void *)cuMemAlloc_v2);
		say_owner("cuGetProcAddress_v2", (void *)cuGetProcAddress_v2);
		say_owner("cuDriverGetVersion", (void *)cuDriverGetVersion);
		printf("through the resolver %d, ",
		       cuGetProcAddress_v2("cuMemAlloc", &entry, 3020, 0, NULL));
		puts(entry == (void *)cuMemAlloc_v2 ? "the same" : "another");
	}
	printf("too early: %d\n", cuMemAlloc_v2(&address, 1 << 20));
	printf("init: %d\n", cuInit(0));
	printf("version: %d\n", cuDriverGetVersion(&version));
	printf("no context: %d\n", cuMemAlloc_v2(&address, 1 << 20));
	printf("retain: %d\n", cuDevicePrimaryCtxRetain(&context, 0));
	printf("current: %d\n", cuCtxSetCurrent(context));
	printf("alloc: %d\n", cuMemAlloc_v2(&address, 1 << 20));
	/* A call with a structure. */
	CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			      .srcHost = &copy,
			      .WidthInBytes = 4,
			      .Height = 1,
			      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
			      .dstDevice = address};
	printf("copy: %d\n", cuMemcpy2D_v2(&copy));
	printf("free: %d\n", cuMemFree_v2(address));
	printf("again: %d\n", cuMemFree_v2(address));
	return 0;
}
