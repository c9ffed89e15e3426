/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spgemm: the square of a sparse matrix, in ways that differ in where a row of the result gets its
 * space. doc/programs.md has the ways and their source.
 */
#ifndef SPGEMM_H
#define SPGEMM_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "programs/common/both.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Compressed rows: row r has the entries from start[r] to start[r + 1], by column. */
struct sp_matrix {
	uint32_t rows;
	uint32_t *start, *column;
	double *value; /* whole numbers from 1 to 7: sums are exact, in any order */
};

/* Slots of a row of the result: the header, then columns, then values. */
struct sp_segment {
	struct sp_segment *next;
	uint32_t slots, used;
};

/* How far the row is: the next product is that of entry `a` and entry `b`. */
struct sp_row {
	struct sp_segment *first, *last;
	uint32_t a, b, segments;
};

/* The argument of all kernels, in device memory. */
struct sp_work {
	struct sp_matrix matrix; /* on the device */
	struct sp_row *row;
	uint32_t *list, listed; /* the rows to compute */
	uint32_t *next;		/* the rows that need more space; room for all */
	uint32_t *count;	/* of slots of each row; NULL: `size` for each segment */
	char *space;		/* for segments; NULL: malloc, each segment twice the last one */
	uint64_t space_bytes;
	uint32_t size;
	uint32_t budget; /* segments that a row may take in a launch, or a round */
	/* Set to 0 before a launch. */
	uint32_t taken, remaining, longest, rounds;
	/* Sums over all launches; of spaces: bytes taken. */
	uint64_t used, slots, bytes, entries, checksum, busy_ns;
};

#define SP_WARPS 4 /* of a block */

static inline uint64_t sp_columns_bytes(uint32_t slots)
{
	return ((uint64_t)slots * sizeof(uint32_t) + 7) / 8 * 8;
}

static inline uint64_t sp_segment_bytes(uint32_t slots)
{
	return sizeof(struct sp_segment) + sp_columns_bytes(slots) + slots * sizeof(double);
}

/* Of an entry: the sum over all entries is the checksum, whatever their order. */
PR_BOTH uint64_t sp_entry_mix(uint64_t row, uint64_t column, double value)
{
	uint64_t x = (row << 32 | column) * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)value;
	x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
	return x ^ x >> 32;
}

/* --- spgemm_kernels.cu: each enqueues one kernel on the default stream --- */

/* How many warps can be resident. */
cudaError_t sp_kernel_warps(uint32_t *warps, uint32_t *processors);
/* count: the products of each row, at most the columns; `slots`, `bytes`: their sums; `longest`. */
cudaError_t sp_kernel_upper(struct sp_work *work);
/* count: the entries of each listed row; `slots`, `bytes`. Each of `warps` has a segment of `slots`
 * slots in `scratch`. */
cudaError_t sp_kernel_count(struct sp_work *work, char *scratch, uint32_t slots, uint32_t warps);
/* Compute the listed rows, each as far as its space goes. */
cudaError_t sp_kernel_rows(struct sp_work *work, uint32_t warps);
/* The same by rounds of `budget`, until no row remains or there is no space; cooperative. */
cudaError_t sp_kernel_persistent(struct sp_work *work, uint32_t warps);
/* entries and checksum; frees segments of malloc. */
cudaError_t sp_kernel_finish(struct sp_work *work, uint32_t warps);

/* --- spgemm_matrix.c --- */

/* A matrix by name: one of the table, skew, or a file of reader.c. `share`: of its
 * rows, 0 to 1. False: *why says it. The caller frees it by sp_matrix_free. */
bool sp_matrix_make(const char *name, double share, struct sp_matrix *out, char why[256]);
void sp_matrix_free(struct sp_matrix *m);
void sp_matrix_list(void);

/* The CPU's result: its entries and their checksum. False: no memory. */
bool sp_matrix_square(const struct sp_matrix *m, uint64_t *entries, uint64_t *checksum);

/* --- spgemm_run.c --- */

enum sp_way { SP_UPPER, SP_PRECISE, SP_DYNAMIC, SP_PERSISTENT, SP_MALLOC, SP_CUSPARSE, SP_WAYS };

struct sp_result {
	uint64_t entries, checksum, slots, bytes;
	uint32_t size, launches; /* of kernels that compute rows */
	double total_ms, estimate_ms, active_warps;
};

/* The matrix on the device. */
struct sp_device {
	struct sp_matrix matrix;
	uint32_t warps, processors;
};

void sp_device_open(struct sp_device *d, const struct sp_matrix *m);
void sp_device_close(struct sp_device *d);
/* `size`: slots of a segment; 0: by sampling. Ends the process if the device lacks memory. */
void sp_run(const struct sp_device *d, enum sp_way way, uint32_t size, struct sp_result *out);

/* --- spgemm_rival.c --- */

/* By cuSPARSE, which is looked for when it is needed. */
void sp_rival(const struct sp_device *d, struct sp_result *out);

#ifdef __cplusplus
}
#endif

#endif
