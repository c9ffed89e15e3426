// SPDX-License-Identifier: BSD-3-Clause
// cuFFT: plans of one to three dimensions, batched, with the library's and the program's own work
// area. A plan computes the same bits every time.
#include <cufft.h>

#include "gpu.h"

static __global__ void signal(cufftComplex *at, size_t n)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n;
	     i += (size_t)gridDim.x * blockDim.x)
		at[i] = make_cuComplex((int)(pattern(7, i) >> 24) - 128,
				       (int)(pattern(8, i) >> 24));
}

static void transform(const char *what, cufftHandle plan, size_t n)
{
	cufftComplex *data;
	MUST(cudaMalloc(&data, n * sizeof *data));
	signal<<<256, 256>>>(data, n);
	MUST(cufftExecC2C(plan, data, data, CUFFT_FORWARD));
	printf("%s forward: %016llx\n", what, digest(data, n * sizeof *data));
	MUST(cufftExecC2C(plan, data, data, CUFFT_INVERSE));
	printf("%s and back: %016llx\n", what, digest(data, n * sizeof *data));
	MUST(cufftDestroy(plan));
	MUST(cudaFree(data));
}

static void own_area(int n)
{
	cufftHandle plan;
	size_t need;
	void *area;
	MUST(cufftCreate(&plan));
	MUST(cufftSetAutoAllocation(plan, 0));
	MUST(cufftMakePlan1d(plan, n, CUFFT_C2C, 1, &need));
	MUST(cudaMalloc(&area, need ? need : 1));
	MUST(cufftSetWorkArea(plan, area));
	transform("own work area", plan, n);
	MUST(cudaFree(area));
}

int main()
{
	cufftHandle plan;
	for (int n : {1 << 10, 1 << 20, 1000003}) {
		MUST(cufftPlan1d(&plan, n, CUFFT_C2C, 1));
		transform("1D", plan, n);
	}
	MUST(cufftPlan2d(&plan, 1024, 768, CUFFT_C2C));
	transform("2D", plan, 1024 * 768);
	MUST(cufftPlan3d(&plan, 64, 96, 128, CUFFT_C2C));
	transform("3D", plan, 64 * 96 * 128);
	int length = 4096;
	MUST(cufftPlanMany(&plan, 1, &length, NULL, 1, length, NULL, 1, length, CUFFT_C2C, 500));
	transform("500 at once", plan, 4096 * 500);
	own_area(1 << 18);
	return 0;
}
