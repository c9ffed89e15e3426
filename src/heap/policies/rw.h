/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `rw`: the basic random walk (Pham et al., section 3, algorithm 1): a lane sets the used
 * bits of random groups of units until they were clear. Lanes share no words but the used bits.
 * More than 32 units: RW_malloc.
 */
#ifndef GM_HEAP_POLICIES_RW_H
#define GM_HEAP_POLICIES_RW_H

#include "heap/policies/rw_run.h"

GM_DEVICE void *gm_rw_malloc(struct gm_heap *heap, size_t size)
{
	uint32_t n = gm_rw_units(size);
	return gm_rw_finish(heap, size, n, n <= 32 ? gm_rw_walk(heap, n, 1) : GM_NO_GRANULE);
}

#endif
