/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hostarrays: two programs whose arrays the host takes, for malloc in their kernels would not help:
 * K-means and the product of a sparse matrix and a vector, 3.2.4 and 3.2.5 of Spliet (2013).
 * doc/programs.md has them. Sums are exact, or made in one order, so that the CPU gets the same.
 */
#ifndef ARRAYS_H
#define ARRAYS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "programs/common/both.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Points with features of 8 bits: feature d of point i is at [d * points + i]. */
struct kmeans {
	uint32_t points, dims, clusters;
	uint8_t *feature;
	uint8_t *centre;       /* of each cluster: dims of them */
	uint32_t *member;      /* of each point: its cluster */
	uint32_t *sum, *count; /* of a cluster: dims sums of features; points. 0 between steps */
	uint32_t *moved;       /* points that have changed the cluster */
};

/*
 * Jagged diagonals: rows by length, the longest first; diagonal d has the d-th entry of all rows
 * that are longer than d, from start[d] on.
 */
struct spmv {
	uint32_t rows, diagonals;
	uint64_t entries;
	uint32_t *row;	  /* of each sorted row: which one it is */
	uint32_t *length; /* of each sorted row */
	uint32_t *column;
	float *value;
	uint64_t *start;
};

PR_BOTH uint64_t arrays_mix(uint64_t a, uint64_t b)
{
	uint64_t x = (a + b * UINT64_C(0xd6e8feb86659fd93)) * UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
	return x ^ x >> 32;
}

/* --- arrays_cpu.c --- */

/* Which cluster of the nearest centre, until no point moves, `steps` steps at most; memory is the
 * host's. Returns the steps. */
uint32_t kmeans_reference(struct kmeans *k, uint32_t steps);
uint8_t kmeans_feature(const struct kmeans *k, uint32_t point, uint32_t dim);
/* The first points' features, far from each other. */
void kmeans_begin(const struct kmeans *k, const uint8_t *feature, uint8_t *centre);

/* Entries of a row of the matrix, which nobody has to keep. */
uint32_t spmv_length(uint32_t row, uint32_t average);
uint32_t spmv_column(uint32_t row, uint32_t k, uint32_t rows);
float spmv_value(uint32_t row, uint32_t k, uint32_t length);
/* `steps` products, each of the vector before it: from x to x; y is spare. */
void spmv_reference(uint32_t rows, uint32_t average, uint32_t steps, float *x, float *y);
/* The matrix in arrays of the host, which the caller frees. */
void spmv_make(struct spmv *m, uint32_t rows, uint32_t average);

/* --- arrays_kernels.cu: each enqueues one kernel on the default stream --- */

/* A thread a point: its cluster, and that cluster's sums. */
cudaError_t kmeans_kernel_assign(const struct kmeans *k);
/* A thread a cluster: its centre; sums are 0 again. */
cudaError_t kmeans_kernel_centre(const struct kmeans *k);
/* A thread a row: y = A x. */
cudaError_t spmv_kernel(const struct spmv *m, const float *x, float *y);

#ifdef __cplusplus
}
#endif

#endif
