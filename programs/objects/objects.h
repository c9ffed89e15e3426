/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * expressions: trees of objects that kernels make by new, with virtual functions: the
 * use case C++ of Spliet (2013), 3.2.10. doc/programs.md has it.
 *
 * An expression of x is a number, x, a sum of 2 to 4 operands or a product. Numbers are of 32 bits
 * and wrap, so that every order gives the same result.
 */
#ifndef OBJECTS_H
#define OBJECTS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "programs/common/both.h"

#ifdef __cplusplus
extern "C" {
#endif

enum objects_way { OBJECTS_BUMP, OBJECTS_NEW, OBJECTS_WAYS };

typedef unsigned long long objects_word;

#define OBJECTS_TALLIES 256

/* The argument of all kernels, in device memory. */
struct objects_work {
	uint32_t trees, depth, x;
	objects_word *tree, *slope; /* addresses of expressions, and of their derivatives */
	/* bump: no memory is freed */
	char *space;
	objects_word space_bytes, used;
	/* Set to 0 before a run. Objects are counted by their addresses, for one counter would be
	 * what is measured; arrays are not counted. */
	objects_word made[OBJECTS_TALLIES], deleted[OBJECTS_TALLIES];
	objects_word value, slope_value; /* sums of digests */
};

PR_BOTH uint64_t objects_mix(uint64_t a, uint64_t b)
{
	uint64_t x = (a + b * UINT64_C(0xd6e8feb86659fd93)) * UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
	return x ^ x >> 32;
}

/* --- which expression has that seed --- */

enum objects_kind { OBJECTS_NUMBER, OBJECTS_X, OBJECTS_SUM, OBJECTS_PRODUCT };

/* At depth 0 there are no operands. */
PR_BOTH enum objects_kind objects_kind(uint64_t seed, uint32_t depth)
{
	uint32_t n = (uint32_t)(seed >> 8) % 8;
	if (!depth || n < 2)
		return n % 2 ? OBJECTS_X : OBJECTS_NUMBER;
	return n < 5 ? OBJECTS_SUM : OBJECTS_PRODUCT;
}

PR_BOTH uint32_t objects_number(uint64_t seed)
{
	return (uint32_t)(seed >> 32);
}

PR_BOTH uint32_t objects_operands(uint64_t seed)
{
	return 2 + (uint32_t)(seed >> 16) % 3;
}

/* The seed of an operand. */
PR_BOTH uint64_t objects_operand(uint64_t seed, uint32_t k)
{
	return objects_mix(seed, k + 1);
}

/* --- objects_kernels.cu: each enqueues one kernel on the default stream --- */

/* A thread a tree: make it; its value at x; make its derivative; make that simpler, which deletes
 * objects; the derivative's value; delete both. */
enum objects_stage {
	OBJECTS_MAKE,
	OBJECTS_VALUE,
	OBJECTS_DERIVE,
	OBJECTS_SIMPLIFY,
	OBJECTS_SLOPE,
	OBJECTS_DROP,
	OBJECTS_STAGES
};

cudaError_t objects_kernel(struct objects_work *work, uint32_t trees, enum objects_stage stage,
			   enum objects_way way);

#ifdef __cplusplus
}
#endif

#endif
