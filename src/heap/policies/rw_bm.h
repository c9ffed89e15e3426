/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `rw-bm`: the random walk over a bitmap (Pham et al., 4.1, algorithm 2): a random word of
 * 32 used bits, and any clear ones of it. The paper reads the word first. Here the lane sets a
 * random bit, and so reads the word: while few units are in use, no second access is needed. More
 * than 32 units: RW_malloc.
 */
#ifndef GM_HEAP_POLICIES_RW_BM_H
#define GM_HEAP_POLICIES_RW_BM_H

#include "heap/policies/rw_run.h"

GM_RW_POLICY(rw_bm)

GM_DEVICE void *gm_rw_bm_malloc(struct gm_heap *heap, size_t size)
{
	uint32_t n = gm_rw_units(size);
	return gm_rw_finish(heap, size, n,
			    n <= 32 ? gm_rw_walk(heap, n, GM_RW_TRIES) : GM_NO_GRANULE);
}

#endif
