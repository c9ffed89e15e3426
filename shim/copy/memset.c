/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/copy/copy2d.h"

/* Bytes of n elements of `step` bytes; SIZE_MAX, larger than any block, on overflow. */
static size_t memset_bytes(size_t n, size_t step)
{
	size_t bytes;
	return __builtin_mul_overflow(n, step, &bytes) ? SIZE_MAX : bytes;
}

/* Bytes from the first to the last of `rows` rows, `pitch` apart. */
static size_t memset_rows_span(size_t width, size_t rows, size_t pitch)
{
	size_t before, span;
	if (!rows || !width)
		return 0;
	if (__builtin_mul_overflow(rows - 1, pitch, &before) ||
	    __builtin_add_overflow(before, width, &span))
		return SIZE_MAX;
	return span;
}

struct gm_transfer gm_transfer_of_fill(CUdeviceptr at, size_t pitch, size_t step, size_t n,
				       size_t rows)
{
	size_t width = memset_bytes(n, step);
	return (struct gm_transfer){.dst = at,
				    .dst_span = memset_rows_span(width, rows, pitch),
				    .bytes = memset_bytes(width, rows),
				    .flags = GM_RECORD_MEMSET};
}

#define LINE(step) .dst = at, .dst_span = memset_bytes(n, step), .bytes = memset_bytes(n, step)
#define ROWS(step)                                                                   \
	.dst = at, .dst_span = memset_rows_span(memset_bytes(n, step), rows, pitch), \
	.bytes = memset_bytes(memset_bytes(n, step), rows)

/* The four forms of one element type: a line or rows, synchronous or not. */
#define MEMSETS(D, type)                                                                         \
	GM_TRANSFERS(cuMemset##D##_v2, (CUdeviceptr at, type value, size_t n), (at, value, n),   \
		     .flags = GM_RECORD_MEMSET, LINE(sizeof(type)))                              \
	GM_TRANSFERS_ASYNC(cuMemset##D##Async,                                                   \
			   (CUdeviceptr at, type value, size_t n, CUstream stream),              \
			   (at, value, n, stream), .flags = GM_RECORD_MEMSET | GM_RECORD_ASYNC,  \
			   LINE(sizeof(type)))                                                   \
	GM_TRANSFERS(cuMemsetD2##D##_v2,                                                         \
		     (CUdeviceptr at, size_t pitch, type value, size_t n, size_t rows),          \
		     (at, pitch, value, n, rows), .flags = GM_RECORD_MEMSET, ROWS(sizeof(type))) \
	GM_TRANSFERS_ASYNC(cuMemsetD2##D##Async,                                                 \
			   (CUdeviceptr at, size_t pitch, type value, size_t n, size_t rows,     \
			    CUstream stream),                                                    \
			   (at, pitch, value, n, rows, stream),                                  \
			   .flags = GM_RECORD_MEMSET | GM_RECORD_ASYNC, ROWS(sizeof(type)))

MEMSETS(D8, unsigned char)
MEMSETS(D16, unsigned short)
MEMSETS(D32, unsigned int)
