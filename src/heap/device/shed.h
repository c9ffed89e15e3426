/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shedding: chunks leave a heap that kernels use. A kernel of the heap's own takes granules like
 * any lane that allocates, so it may run beside lanes that allocate and free:
 *
 *   sweep   granules that are empty, but kept for their class, become free
 *   claim   chunks whose granules are all free leave the device, no more in total than were free
 *           at all times since the last shed, less a reserve
 *
 * Lanes that hold an invalid address may still read there: the host unmaps the memory after the end
 * of all kernels that were in flight.
 */
#ifndef GM_HEAP_DEVICE_SHED_H
#define GM_HEAP_DEVICE_SHED_H

#include "heap/device/granule.h"
#include "heap/job.h"

/* For policy `granule`: by all lanes of a warp, of which this is `lane`. */
GM_DEVICE void gm_shed_sweep(struct gm_heap *heap, uint32_t lane)
{
	struct gm_granules *all = gm_granules_of(heap);
	uint32_t words = (heap->capacity + 63) >> 6, reach = gm_span_reach(heap) << 6;
	words = words < reach ? words : reach;
	gm_granule_strip(heap, ~0u);
	for (uint32_t w = lane; w < words; w += GM_WARP) {
		uint64_t empty = gm_load64(&all->empty.word[w]), rest, free = 0;
		if (empty == 0)
			continue;
		for (rest = gm_bits_drain(&all->empty, w, empty); rest; rest &= rest - 1) {
			uint32_t bit = gm_log2(rest & (~rest + 1));
			if (gm_slab_retire(heap, w << 6 | bit))
				free |= 1ull << bit;
		}
		for (; free; free &= free - 1)
			gm_span_give(heap, w << 6 | gm_log2(free & (~free + 1)), 1);
	}
	gm_syncwarp(~0u);
}

/* By one lane. */
GM_DEVICE void gm_shed_claim(struct gm_heap *heap, struct gm_shed *shed)
{
	uint64_t least = gm_load64(&heap->least);
	uint64_t used = shed->mapped > least ? shed->mapped - least : 0;
	uint64_t reserve = 2 * heap->low + used / 8;
	uint64_t budget = least > reserve ? least - reserve : 0;
	for (uint32_t i = 0; i < shed->chunks; i++) {
		struct gm_job_chunk *chunk = &shed->chunk[i];
		chunk->taken =
			chunk->count <= budget && gm_span_claim(heap, chunk->first, chunk->count);
		budget -= chunk->taken ? chunk->count : 0;
	}
	/* In this order: allocations from here on are seen. */
	gm_exch64(&heap->least, ~0ull);
	gm_span_lower(heap, gm_load64(&heap->available));
	gm_store64_system(&shed->done, shed->number);
}

#endif
