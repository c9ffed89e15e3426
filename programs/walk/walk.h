/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pagesteps: how many words of the bitmap a thread, and a warp, reads until it has a page, beside
 * the theory of Pham et al. doc/programs.md has both.
 */
#ifndef WALK_H
#define WALK_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "programs/common/both.h"

#ifdef __cplusplus
extern "C" {
#endif

enum walk_policy { WALK_RW, WALK_RW_BM, WALK_CORW, WALK_POLICIES };

#define WALK_WARP 32
#define WALK_LEAST 8192 /* pages: one granule */

/* The argument of all kernels, in device memory. */
struct walk_work {
	void *heap;	  /* struct gm_heap */
	uint32_t bits;	  /* 2^bits pages */
	uint32_t free;	  /* pages that are free at first */
	uint32_t threads; /* whole warps */
	uint32_t *page;	  /* that each thread got */
	uint32_t *steps;  /* that it took */
};

/* A permutation of the numbers below 2^bits: a page is free at first if its number is below
 * `free`. */
PR_BOTH uint32_t walk_place(uint32_t page, uint32_t bits)
{
	uint32_t mask = ~0u >> (32 - bits), x = page;
	x = x * 0x9e3779b1u & mask;
	x ^= x >> (bits / 2 + 1);
	x = x * 0x85ebca6bu & mask;
	x ^= x >> (bits / 2 + 1);
	return x * 0xc2b2ae35u & mask;
}

/* --- walk_kernels.cu: each enqueues a kernel on the default stream --- */

/* A heap of 2^bits pages, all in the pool of the random walks. The caller ends it by
 * walk_heap_close. */
struct page_heap *walk_heap_open(uint32_t bits);
void *walk_heap_device(struct page_heap *heap);
void walk_heap_close(struct page_heap *heap);
/* Set all used bits, but for those of free pages. */
cudaError_t walk_kernel_mark(struct walk_work *work, uint32_t words);
/* Each thread walks until it has a page. */
cudaError_t walk_kernel_run(struct walk_work *work, uint32_t threads, enum walk_policy policy);

#ifdef __cplusplus
}
#endif

#endif
