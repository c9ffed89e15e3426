/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one step makes of a cell, and which cells a thread takes. The kernels, the reference on the
 * CPU and the tests share it, so that they can be compared bit by bit.
 */
#ifndef OOC_CELLS_H
#define OOC_CELLS_H

#include <stdint.h>

#ifdef __CUDACC__
#define OOC_CELL static __host__ __device__ inline
#else
#define OOC_CELL static inline
#endif

/* Rounded after each operation. nvcc would fuse a product and a sum, which rounds once; C compilers
 * are told not to (-ffp-contract=off). */
OOC_CELL float ooc_product(float a, float b)
{
#ifdef __CUDA_ARCH__
	return __fmul_rn(a, b);
#else
	return a * b;
#endif
}

OOC_CELL float ooc_sum(float a, float b)
{
#ifdef __CUDA_ARCH__
	return __fadd_rn(a, b);
#else
	return a + b;
#endif
}

/* The explicit step of the heat equation in one dimension: three products, two sums. */
OOC_CELL float ooc_heat(float before, float here, float after)
{
	return ooc_sum(ooc_sum(ooc_product(0.25f, before), ooc_product(0.5f, here)),
		       ooc_product(0.25f, after));
}

/* One step over cells [from, to), as thread `thread` of `threads`: a grid-stride loop. */
OOC_CELL void ooc_add_cells(float *a, const float *b, uint64_t from, uint64_t to, uint64_t thread,
			    uint64_t threads)
{
	for (uint64_t i = from + thread; i < to; i += threads)
		a[i] = ooc_sum(a[i], b[i]);
}

/* Reads cells [from - 1, to + 1) of `in`. */
OOC_CELL void ooc_heat_cells(const float *in, float *out, uint64_t from, uint64_t to,
			     uint64_t thread, uint64_t threads)
{
	for (uint64_t i = from + thread; i < to; i += threads)
		out[i] = ooc_heat(in[i - 1], in[i], in[i + 1]);
}

#endif
