/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `rw-bm`: the random walk over a bitmap (Pham et al., 4.1, algorithm 2): a random word of
 * 32 used bits, and any clear one of it. More than a unit: RW_malloc.
 */
#ifndef GM_HEAP_DEVICE_RW_BM_H
#define GM_HEAP_DEVICE_RW_BM_H

#include "heap/device/rw_run.h"

GM_RW_POLICY(rw_bm)

GM_DEVICE void *gm_rw_bm_malloc(struct gm_heap *heap, size_t size)
{
	struct gm_rw *rw = gm_rw_of(heap);
	uint32_t seed = gm_rw_seed(), held, turn = 0;
	if (size > GM_RW_UNIT)
		return gm_rw_malloc_run(heap, size);
	do {
		held = gm_load32(&rw->held);
		for (uint32_t i = 0; i < GM_RW_PROBES && held; i++) {
			uint32_t word = gm_rw_place(rw, &seed);
			uint32_t unit = word == GM_NO_GRANULE ? word : gm_rw_take(rw, word);
			if (unit != GM_NO_GRANULE)
				return gm_rw_address(heap, unit);
		}
	} while (gm_rw_more(heap, held, turn++));
	return gm_rw_address(heap, gm_rw_sweep(rw));
}

#endif
