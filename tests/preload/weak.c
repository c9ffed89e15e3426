/* SPDX-License-Identifier: BSD-3-Clause */
/* A program with weak references to a driver that is not loaded. */
#include <stdio.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#pragma weak cuInit
#pragma weak cuLaunchKernel
#pragma weak cuGetProcAddress_v2

int main(void)
{
	void *entry = NULL;
	if (!cuInit)
		return puts("absent"), 0;
	printf("init: %d\n", cuInit(0));
	printf("launch: %d\n", cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	printf("resolver: %d %p\n", cuGetProcAddress_v2("cuInit", &entry, 2000, 0, NULL), entry);
	return 0;
}
