/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `bump`: one addition an allocation, and no memory is ever freed. The other policies are
 * measured against it: "Atomic" in the survey of the thesis (Winter, 2021, 5.6); the poor man's
 * heap of Spliet (2013, 5.2), after Lea. The rest of a granule is lost when the next allocation
 * does not fit.
 */
#ifndef GM_HEAP_POLICIES_BUMP_H
#define GM_HEAP_POLICIES_BUMP_H

#include "heap/policies/run.h"

enum { GM_BUMP_STEPS = 1 << (GM_GRANULE_SHIFT - 4) }; /* of 16 bytes */

GM_DEVICE_HOST size_t gm_bump_bytes(uint32_t capacity)
{
	(void)capacity;
	return sizeof(struct gm_cut);
}

GM_DEVICE void gm_bump_init(struct gm_heap *heap, uint32_t thread, uint32_t threads)
{
	(void)threads;
	if (thread == 0)
		gm_cut_init(heap, 0, GM_BUMP_STEPS);
}

GM_DEVICE void *gm_bump_malloc(struct gm_heap *heap, size_t size)
{
	if (size > GM_GRANULE)
		return gm_run_malloc(heap, size);
	uint32_t steps = size ? (uint32_t)((size + 15) >> 4) : 1;
	uint64_t at = gm_cut_take(heap, steps);
	if (at != GM_CUT_NONE)
		return gm_span_address(heap, (uint32_t)(at >> 32)) + ((uint64_t)(uint32_t)at << 4);
	gm_add64(&heap->refusals, 1);
	return NULL;
}

GM_DEVICE void gm_bump_free(struct gm_heap *heap, void *address)
{
	uint32_t granule;
	if (!gm_run_is_cut(heap, address, &granule))
		gm_run_free(heap, address);
}

GM_DEVICE size_t gm_bump_usable(struct gm_heap *heap, const void *address)
{
	return gm_run_usable(heap, address);
}

GM_DEVICE void gm_bump_trim(struct gm_heap *heap)
{
	(void)heap;
}

GM_DEVICE void gm_bump_stats(struct gm_heap *heap, struct gm_heap_stats *stats)
{
	gm_run_stats(heap, stats);
	stats->live_bytes = stats->granules << GM_GRANULE_SHIFT;
}

#endif
