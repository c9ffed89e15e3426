/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels that allocate, each by other means, and some that do not. image_nvcc.sh defines the name
 * of one kernel. */
#include <cassert>
#include <cstdio>

#if defined GM_MALLOC
__global__ void take(int **p)
{
	p[threadIdx.x] = (int *)malloc(64);
}
__global__ void give(int **p)
{
	free(p[threadIdx.x]);
}
#elif defined GM_NEW
struct object {
	int a;
	__device__ object(int x) : a(x)
	{
	}
};
__global__ void take(object **p)
{
	p[threadIdx.x] = new object(3);
}
__global__ void give(object **p)
{
	delete p[threadIdx.x];
}
#elif defined GM_ALIGNED
struct alignas(64) aligned {
	int a[32];
};
__global__ void take(aligned **p)
{
	p[threadIdx.x] = new aligned;
}
#elif defined GM_VIRTUAL
struct base {
	__device__ virtual int f()
	{
		return 1;
	}
};
struct derived : base {
	int x;
	__device__ int f() override
	{
		return 2 + x;
	}
};
__global__ void construct(derived *d)
{
	*d = derived();
}
__global__ void call(base **p, int *r)
{
	r[threadIdx.x] = p[threadIdx.x]->f();
}
#elif defined GM_PRINT
/* The names malloc and free only in text. */
__device__ const char *const name = "malloc";
__global__ void print(int *p)
{
	assert(p[0]);
	printf("%s and free: %d\n", name, p[0]);
}
#elif defined GM_DEVICE_RUNTIME
__global__ void take(void **p)
{
	cudaMalloc(p, 100);
}
#else
__global__ void plain(int *p)
{
	p[threadIdx.x] = threadIdx.x;
}
#endif

#ifdef GM_MAIN
int main()
{
}
#endif
