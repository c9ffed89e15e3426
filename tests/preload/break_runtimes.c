/* SPDX-License-Identifier: BSD-3-Clause */
/* Two runtimes in one process, one linked and one loaded. Each frees memory of the other. */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>

typedef cudaError_t malloc_fn(void **, size_t);
typedef cudaError_t free_fn(void *);

int main(void)
{
	void *handle = dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL);
	malloc_fn *other_malloc;
	free_fn *other_free;
	void *p = NULL, *q = NULL;
	unsigned char byte = 0;
	if (!handle)
		return puts(dlerror()), 1;
	*(void **)&other_malloc = dlsym(handle, "cudaMalloc");
	*(void **)&other_free = dlsym(handle, "cudaFree");
	if (other_malloc == cudaMalloc)
		return puts("one runtime"), 1;
	for (size_t size = 100; size < 100000000; size *= 30) {
		printf("%zu: %d %d", size, cudaMalloc(&p, size), other_malloc(&q, size));
		printf(" %d", cudaMemset(q, 7, size));
		printf(" %d", cudaMemcpy(p, q, size, cudaMemcpyDeviceToDevice));
		printf(" %d", cudaMemcpy(&byte, (char *)p + size - 1, 1, cudaMemcpyDeviceToHost));
		printf(" %d", byte);
		printf(" %d", other_free(p));
		printf(" %d", cudaFree(q));
		printf(" %d\n", cudaFree(p));
	}
	return 0;
}
