// SPDX-License-Identifier: BSD-3-Clause
// cuSPARSE: a matrix of small integers times a vector, a dense matrix, and itself, with buffers
// that the program allocates for the library.
#include <cusparse.h>

#include "gpu.h"

static const int N = 20000, EACH = 16; /* rows, and elements in each */

struct Matrix {
	int *rows, *columns;
	float *values;
	cusparseSpMatDescr_t sparse;
};

template <class T> static T *to_device(const std::vector<T> &host)
{
	T *device;
	MUST(cudaMalloc(&device, host.size() * sizeof(T)));
	MUST(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
	return device;
}

static Matrix make()
{
	std::vector<int> rows(N + 1), columns((size_t)N * EACH);
	std::vector<float> values(columns.size());
	for (int r = 0; r <= N; r++)
		rows[r] = r * EACH;
	for (int r = 0; r < N; r++)
		for (int k = 0; k < EACH; k++) {
			columns[(size_t)r * EACH + k] = k * (N / EACH) + (r * 7 + k) % (N / EACH);
			values[(size_t)r * EACH + k] = (float)((r + k) % 5 - 2);
		}
	Matrix m = {to_device(rows), to_device(columns), to_device(values), NULL};
	MUST(cusparseCreateCsr(&m.sparse, N, N, (int64_t)N * EACH, m.rows, m.columns, m.values,
			       CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
			       CUDA_R_32F));
	return m;
}

static void *buffer(size_t size)
{
	void *p;
	MUST(cudaMalloc(&p, size ? size : 1));
	return p;
}

static void by_vector(cusparseHandle_t handle, const Matrix &m)
{
	const float one = 1, zero = 0;
	float *x = to_device(std::vector<float>(N, 3)), *y = to_device(std::vector<float>(N, 0));
	cusparseDnVecDescr_t in, out;
	size_t need;
	MUST(cusparseCreateDnVec(&in, N, x, CUDA_R_32F));
	MUST(cusparseCreateDnVec(&out, N, y, CUDA_R_32F));
	MUST(cusparseSpMV_bufferSize(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, m.sparse, in,
				     &zero, out, CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT, &need));
	void *work = buffer(need);
	MUST(cusparseSpMV(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, m.sparse, in, &zero, out,
			  CUDA_R_32F, CUSPARSE_SPMV_ALG_DEFAULT, work));
	printf("by a vector: %016llx\n", digest(y, N * sizeof *y));
	MUST(cusparseDestroyDnVec(in));
	MUST(cusparseDestroyDnVec(out));
	for (void *p : {(void *)x, (void *)y, work})
		MUST(cudaFree(p));
}

static void by_itself(cusparseHandle_t handle, const Matrix &m)
{
	const float one = 1, zero = 0;
	const cusparseOperation_t plain = CUSPARSE_OPERATION_NON_TRANSPOSE;
	cusparseSpMatDescr_t product;
	cusparseSpGEMMDescr_t plan;
	size_t first = 0, second = 0;
	int *rows = to_device(std::vector<int>(N + 1));
	MUST(cusparseCreateCsr(&product, N, N, 0, rows, NULL, NULL, CUSPARSE_INDEX_32I,
			       CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
	MUST(cusparseSpGEMM_createDescr(&plan));
#define ARGS                                                                        \
	handle, plain, plain, &one, m.sparse, m.sparse, &zero, product, CUDA_R_32F, \
		CUSPARSE_SPGEMM_DEFAULT, plan
	MUST(cusparseSpGEMM_workEstimation(ARGS, &first, NULL));
	void *work1 = buffer(first);
	MUST(cusparseSpGEMM_workEstimation(ARGS, &first, work1));
	MUST(cusparseSpGEMM_compute(ARGS, &second, NULL));
	void *work2 = buffer(second);
	MUST(cusparseSpGEMM_compute(ARGS, &second, work2));
	int64_t r, c, n;
	MUST(cusparseSpMatGetSize(product, &r, &c, &n));
	int *columns = (int *)buffer(n * sizeof(int));
	float *values = (float *)buffer(n * sizeof(float));
	MUST(cusparseCsrSetPointers(product, rows, columns, values));
	MUST(cusparseSpGEMM_copy(ARGS));
	printf("by itself: %lld elements, rows %016llx, columns %016llx, values %016llx\n",
	       (long long)n, digest(rows, (N + 1) * sizeof(int)), digest(columns, n * sizeof(int)),
	       digest(values, n * sizeof(float)));
	MUST(cusparseSpGEMM_destroyDescr(plan));
	MUST(cusparseDestroySpMat(product));
	for (void *p : {(void *)rows, (void *)columns, (void *)values, work1, work2})
		MUST(cudaFree(p));
}

int main()
{
	cusparseHandle_t handle;
	MUST(cusparseCreate(&handle));
	Matrix m = make();
	for (int i = 0; i < 3; i++) {
		by_vector(handle, m);
		by_itself(handle, m);
	}
	MUST(cusparseDestroySpMat(m.sparse));
	for (void *p : {(void *)m.rows, (void *)m.columns, (void *)m.values})
		MUST(cudaFree(p));
	MUST(cusparseDestroy(handle));
	return 0;
}
