// SPDX-License-Identifier: BSD-3-Clause
// cuBLAS and cuBLASLt: products of matrices whose elements are small integers, so that every order
// of summation gives the same bits.
#include <cublasLt.h>
#include <cublas_v2.h>

#include "gpu.h"

template <class T> static T *matrix(int rows, int columns, uint32_t tag)
{
	std::vector<T> host((size_t)rows * columns);
	for (size_t i = 0; i < host.size(); i++)
		host[i] = (T)(int)(pattern(tag, i) >> 8 & 7);
	T *device;
	MUST(cudaMalloc(&device, host.size() * sizeof(T)));
	MUST(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
	return device;
}

static void multiply(cublasHandle_t blas, int n)
{
	const float one = 1, half = 0.5f;
	float *a = matrix<float>(n, n, 1), *b = matrix<float>(n, n, 2), *c = matrix<float>(n, n, 3);
	MUST(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, &one, a, n, b, n, &half, c, n));
	printf("sgemm %d: %016llx\n", n, digest(c, (size_t)n * n * sizeof *c));
	MUST(cublasSgemmStridedBatched(blas, CUBLAS_OP_N, CUBLAS_OP_N, n / 4, n / 4, n / 4, &one, a,
				       n / 4, (long long)n * n / 16, b, n / 4,
				       (long long)n * n / 16, &half, c, n / 4,
				       (long long)n * n / 16, 16));
	printf("batched %d: %016llx\n", n, digest(c, (size_t)n * n * sizeof *c));
	MUST(cudaFree(a));
	MUST(cudaFree(b));
	MUST(cudaFree(c));
}

static void multiply_lt(cublasLtHandle_t lt, int n, size_t room)
{
	const double one = 1, zero = 0;
	double *a = matrix<double>(n, n, 4), *b = matrix<double>(n, n, 5),
	       *c = matrix<double>(n, n, 6);
	void *workspace;
	MUST(cudaMalloc(&workspace, room));
	cublasLtMatmulDesc_t operation;
	cublasLtMatrixLayout_t layout;
	MUST(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_64F, CUDA_R_64F));
	MUST(cublasLtMatrixLayoutCreate(&layout, CUDA_R_64F, n, n, n));
	MUST(cublasLtMatmul(lt, operation, &one, a, layout, b, layout, &zero, c, layout, c, layout,
			    NULL, workspace, room, 0));
	printf("lt %d: %016llx\n", n, digest(c, (size_t)n * n * sizeof *c));
	MUST(cublasLtMatrixLayoutDestroy(layout));
	MUST(cublasLtMatmulDescDestroy(operation));
	for (void *p : {(void *)a, (void *)b, (void *)c, workspace})
		MUST(cudaFree(p));
}

int main()
{
	cublasHandle_t blas;
	cublasLtHandle_t lt;
	MUST(cublasCreate(&blas));
	MUST(cublasLtCreate(&lt));
	void *workspace;
	MUST(cudaMalloc(&workspace, 32 << 20));
	for (int own = 0; own < 2; own++) {
		if (own)
			MUST(cublasSetWorkspace(blas, workspace, 32 << 20));
		for (int n : {64, 512, 2048})
			multiply(blas, n);
	}
	for (int n : {128, 1024})
		multiply_lt(lt, n, 4 << 20);
	MUST(cublasLtDestroy(lt));
	MUST(cublasDestroy(blas));
	MUST(cudaFree(workspace));
	return 0;
}
