/* SPDX-License-Identifier: BSD-3-Clause */
/* The same product by cuSPARSE, which is looked for at run time: the program starts without it. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "programs/common/args.h"
#include "spgemm.h"

#if defined(__has_include)
#if __has_include(<cusparse.h>)
#include <cusparse.h>
#define HAVE_CUSPARSE 1
#endif
#endif

#ifndef HAVE_CUSPARSE

void sp_rival(const struct sp_device *d, struct sp_result *out)
{
	(void)d;
	(void)out;
	pr_fail(1, "cusparse: compiled without its header");
}

#else

static void *library(void)
{
	static const char *const names[] = {"libcusparse.so.13", "libcusparse.so.12",
					    "libcusparse.so"};
	static void *handle;
	for (unsigned i = 0; i < 3 && !handle; i++)
		handle = dlopen(names[i], RTLD_NOW);
	if (!handle)
		pr_fail(1, "cusparse: libcusparse.so was not found");
	return handle;
}

static void *function(const char *name)
{
	void *found = dlsym(library(), name);
	if (!found)
		pr_fail(1, "cusparse: it has no %s", name);
	return found;
}

#define CALL(name, ...) must(#name, ((__typeof__(&name))function(#name))(__VA_ARGS__))

static void must(const char *name, cusparseStatus_t status)
{
	if (status != CUSPARSE_STATUS_SUCCESS)
		pr_fail(1, "cusparse: %s: status %d", name, (int)status);
}

struct product {
	cusparseHandle_t handle;
	cusparseSpMatDescr_t a, c;
	cusparseSpGEMMDescr_t state;
	void *block[2];
	int *start, *column;
	double *value;
	int64_t entries;
};

static cusparseSpMatDescr_t described(const struct sp_matrix *m, uint32_t entries)
{
	cusparseSpMatDescr_t out;
	CALL(cusparseCreateCsr, &out, m->rows, m->rows, entries, m->start, m->column, m->value,
	     CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_64F);
	return out;
}

#define ARGUMENTS                                                                                  \
	p->handle, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, p->a, \
		p->a, &zero, p->c, CUDA_R_64F, CUSPARSE_SPGEMM_DEFAULT, p->state

/* Two phases, each of which first says how much memory it wants. Returns their bytes. */
static uint64_t product_compute(struct product *p, uint32_t rows)
{
	const double one = 1, zero = 0;
	size_t bytes[2] = {0, 0};
	int64_t n;
	CALL(cusparseSpGEMM_workEstimation, ARGUMENTS, &bytes[0], NULL);
	p->block[0] = pr_take(bytes[0]);
	CALL(cusparseSpGEMM_workEstimation, ARGUMENTS, &bytes[0], p->block[0]);
	CALL(cusparseSpGEMM_compute, ARGUMENTS, &bytes[1], NULL);
	p->block[1] = pr_take(bytes[1]);
	CALL(cusparseSpGEMM_compute, ARGUMENTS, &bytes[1], p->block[1]);
	CALL(cusparseSpMatGetSize, p->c, &n, &n, &p->entries);
	p->column = pr_take((uint64_t)p->entries * sizeof *p->column);
	p->value = pr_take((uint64_t)p->entries * sizeof *p->value);
	CALL(cusparseCsrSetPointers, p->c, p->start, p->column, p->value);
	CALL(cusparseSpGEMM_copy, p->handle, CUSPARSE_OPERATION_NON_TRANSPOSE,
	     CUSPARSE_OPERATION_NON_TRANSPOSE, &one, p->a, p->a, &zero, p->c, CUDA_R_64F,
	     CUSPARSE_SPGEMM_DEFAULT, p->state);
	PR_MUST(cudaDeviceSynchronize());
	return bytes[0] + bytes[1] + (rows + UINT64_C(1)) * sizeof *p->start +
	       (uint64_t)p->entries * (sizeof *p->column + sizeof *p->value);
}

/* On the host: this is not timed. */
static uint64_t product_checksum(const struct product *p, uint32_t rows)
{
	uint64_t n = (uint64_t)p->entries, sum = 0;
	int *start = pr_host_take(rows + UINT64_C(1), sizeof *start);
	int *column = pr_host_take(n, sizeof *column);
	double *value = pr_host_take(n, sizeof *value);
	PR_MUST(cudaMemcpy(start, p->start, (rows + UINT64_C(1)) * sizeof *start,
			   cudaMemcpyDeviceToHost));
	PR_MUST(cudaMemcpy(column, p->column, n * sizeof *column, cudaMemcpyDeviceToHost));
	PR_MUST(cudaMemcpy(value, p->value, n * sizeof *value, cudaMemcpyDeviceToHost));
	for (uint32_t r = 0; r < rows; r++)
		for (int i = start[r]; i < start[r + 1]; i++)
			sum += sp_entry_mix(r, (uint64_t)column[i], value[i]);
	free(start);
	free(column);
	free(value);
	return sum;
}

void sp_rival(const struct sp_device *d, struct sp_result *out)
{
	struct product p = {0};
	struct sp_matrix none = {.rows = d->matrix.rows};
	uint32_t rows = d->matrix.rows, entries;
	memset(out, 0, sizeof *out);
	PR_MUST(cudaMemcpy(&entries, d->matrix.start + rows, sizeof entries,
			   cudaMemcpyDeviceToHost));
	CALL(cusparseCreate, &p.handle);
	p.a = described(&d->matrix, entries);
	CALL(cusparseSpGEMM_createDescr, &p.state);
	double begin = pr_now_ms();
	p.start = pr_take((rows + UINT64_C(1)) * sizeof *p.start);
	none.start = (uint32_t *)p.start;
	p.c = described(&none, 0);
	out->bytes = product_compute(&p, rows);
	out->total_ms = pr_now_ms() - begin;
	out->entries = out->slots = (uint64_t)p.entries;
	out->checksum = product_checksum(&p, rows);
	CALL(cusparseSpGEMM_destroyDescr, p.state);
	CALL(cusparseDestroySpMat, p.a);
	CALL(cusparseDestroySpMat, p.c);
	CALL(cusparseDestroy, p.handle);
	void *const blocks[] = {p.block[0], p.block[1], p.start, p.column, p.value};
	for (unsigned i = 0; i < 5; i++)
		PR_MUST(cudaFree(blocks[i]));
}

#endif
