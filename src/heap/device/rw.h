/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `rw`: the basic random walk (Pham et al., section 3, algorithm 1): a lane sets the used
 * bit of random units until one was clear. Lanes share no words but the used bits. More than a
 * unit: RW_malloc.
 */
#ifndef GM_HEAP_DEVICE_RW_H
#define GM_HEAP_DEVICE_RW_H

#include "heap/device/rw_run.h"

GM_DEVICE void *gm_rw_malloc(struct gm_heap *heap, size_t size)
{
	struct gm_rw *rw = gm_rw_of(heap);
	uint32_t seed = gm_rw_seed(), held, turn = 0;
	if (size > GM_RW_UNIT)
		return gm_rw_malloc_run(heap, size);
	do {
		held = gm_load32(&rw->held);
		for (uint32_t i = 0; i < GM_RW_PROBES && held; i++) {
			uint32_t word = gm_rw_place(rw, &seed), bit = gm_rw_random(&seed) >> 27;
			if (word != GM_NO_GRANULE &&
			    !(gm_or32_sync(&rw->used[word], 1u << bit) >> bit & 1))
				return gm_rw_address(heap, word << 5 | bit);
		}
	} while (gm_rw_more(heap, held, turn++));
	return gm_rw_address(heap, gm_rw_sweep(rw));
}

#endif
