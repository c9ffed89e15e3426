/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allocations that are runs of whole granules, for policies whose own allocations are smaller; and
 * the owner of each granule, by which free classifies an address.
 */
#ifndef GM_HEAP_POLICIES_RUN_H
#define GM_HEAP_POLICIES_RUN_H

#include "heap/device/span.h"

#define GM_RUN_NONE 0u	       /* free, or inside of a run */
#define GM_RUN_CUT 0xffffffffu /* owned by the policy, which divides it */

/*
 * Cuts one granule after the other into steps. It is the first part of a policy's memory,
 * heap->policy, so that no call of a slow path keeps its address. `next` holds granule + 1 in its
 * upper half, and the number of steps cut off in its lower half, which may exceed `steps`.
 */
struct gm_cut {
	uint64_t next;
	uint32_t first;	    /* the first step of each granule that is cut off */
	uint32_t steps;	    /* of a granule */
	uint32_t replacing; /* a lane is bringing the next granule */
	uint32_t pad;
};

#define GM_CUT_NONE (~0ull)
#define GM_CUT_PATIENCE 32

GM_DEVICE struct gm_cut *gm_cut_of(const struct gm_heap *heap)
{
	return (struct gm_cut *)heap->policy;
}

GM_DEVICE void gm_cut_init(struct gm_heap *heap, uint32_t first, uint32_t steps)
{
	struct gm_cut *cut = gm_cut_of(heap);
	cut->first = first;
	cut->steps = steps;
	gm_store64(&cut->next, steps);
}

/* Take a free granule for the policy, or GM_NO_GRANULE: gm_span_grow may then bring some. */
GM_DEVICE uint32_t gm_run_take_one(struct gm_heap *heap)
{
	uint32_t granule = gm_span_take_one(heap, gm_sm());
	if (granule != GM_NO_GRANULE)
		gm_store32(&heap->run[granule], GM_RUN_CUT);
	return granule;
}

/* Return a granule that the policy took. */
GM_DEVICE_SLOW void gm_run_give_one(struct gm_heap *heap, uint32_t granule)
{
	gm_store32(&heap->run[granule], GM_RUN_NONE);
	gm_span_give(heap, granule, 1);
}

/* Replace granule `used_up` - 1. False: there is no other granule. */
GM_DEVICE bool gm_cut_install(struct gm_heap *heap, uint32_t used_up)
{
	uint32_t granule = gm_run_take_one(heap);
	uint64_t now = gm_load64(&gm_cut_of(heap)->next), was;
	if (granule == GM_NO_GRANULE)
		return now >> 32 != used_up;
	/* Other lanes add to the lower half meanwhile. */
	for (; now >> 32 == used_up; now = was) {
		was = gm_cas64(&gm_cut_of(heap)->next, now,
			       (uint64_t)(granule + 1) << 32 | gm_cut_of(heap)->first);
		if (was == now)
			return true;
	}
	gm_run_give_one(heap, granule);
	return true;
}

/*
 * Granule `used_up` - 1 has no steps any more: bring another, or wait for the lane that does, for
 * GM_CUT_PATIENCE turns; `turn` counts the calls. False: there is no granule, but gm_span_grow may
 * bring some. The caller calls that, so that its stack frame and this one do not add up.
 */
GM_DEVICE_SLOW bool gm_cut_replace(struct gm_heap *heap, uint32_t used_up, uint32_t turn, bool wait)
{
	/* Waiting lanes only read: they may be all lanes of the device. */
	bool first = wait && gm_load32(&gm_cut_of(heap)->replacing) == 0 &&
		     gm_cas32(&gm_cut_of(heap)->replacing, 0, 1) == 0;
	if (!first && wait && turn < GM_CUT_PATIENCE) {
		gm_pause(100u << (turn < 4 ? turn : 4));
		return true;
	}
	bool found =
		gm_load64(&gm_cut_of(heap)->next) >> 32 != used_up || gm_cut_install(heap, used_up);
	if (first)
		gm_store32_release(&gm_cut_of(heap)->replacing, 0);
	return found || gm_load64(&gm_cut_of(heap)->next) >> 32 != used_up;
}

/*
 * Cut off up to `wanted` steps side by side, at least one. Returns granule << 32 | first step, and
 * their number in *got; or GM_CUT_NONE. `wait`: for the host.
 */
GM_DEVICE uint64_t gm_cut_some(struct gm_heap *heap, uint32_t wanted, bool wait, uint32_t *got)
{
	for (uint32_t turn = 0;; turn++) {
		uint32_t epoch = gm_load32(&heap->epoch);
		uint64_t old = gm_load64(&gm_cut_of(heap)->next);
		if ((uint32_t)old < gm_cut_of(heap)->steps)
			old = gm_add64(&gm_cut_of(heap)->next, wanted);
		uint32_t rest = gm_cut_of(heap)->steps - (uint32_t)old;
		*got = rest < wanted ? rest : wanted;
		if ((uint32_t)old < gm_cut_of(heap)->steps)
			return old - (1ull << 32);
		if (!gm_cut_replace(heap, (uint32_t)(old >> 32), turn, wait) &&
		    !(wait && gm_span_grow(heap, 1, 1, epoch)))
			return GM_CUT_NONE;
	}
}

/* Cut off `count` steps. Returns granule << 32 | first step; or GM_CUT_NONE. */
GM_DEVICE uint64_t gm_cut_take(struct gm_heap *heap, uint32_t count)
{
	struct gm_cut *cut = gm_cut_of(heap);
	for (uint32_t turn = 0;; turn++) {
		uint32_t epoch = gm_load32(&heap->epoch);
		uint64_t old = gm_load64(&cut->next);
		if ((uint32_t)old <= cut->steps - count)
			old = gm_add64(&cut->next, count);
		if ((uint32_t)old <= cut->steps - count)
			return old - (1ull << 32);
		if (!gm_cut_replace(heap, (uint32_t)(old >> 32), turn, true) &&
		    !gm_span_grow(heap, 1, 1, epoch))
			return GM_CUT_NONE;
	}
}

/* Was the step cut off? If not, its memory holds arbitrary data. */
GM_DEVICE bool gm_cut_has(const struct gm_heap *heap, uint32_t granule, uint32_t step)
{
	uint64_t next = gm_load64(&gm_cut_of(heap)->next);
	return next >> 32 != granule + 1 || step < (uint32_t)next;
}

GM_DEVICE_SLOW void *gm_run_malloc(struct gm_heap *heap, size_t size)
{
	uint64_t count = ((uint64_t)size >> GM_GRANULE_SHIFT) + ((size & (GM_GRANULE - 1)) != 0);
	uint32_t granule = GM_NO_GRANULE;
	while (count <= heap->capacity) {
		uint32_t epoch = gm_load32(&heap->epoch);
		granule = gm_span_take_run(heap, (uint32_t)count);
		if (granule != GM_NO_GRANULE ||
		    !gm_span_grow(heap, (uint32_t)count, (uint32_t)count, epoch))
			break;
	}
	if (granule == GM_NO_GRANULE) {
		gm_add64(&heap->refusals, 1);
		return NULL;
	}
	gm_store32(&heap->run[granule], (uint32_t)count);
	return gm_span_address(heap, granule);
}

/* Does an address lie in a granule that the policy took? *granule is its granule. */
GM_DEVICE bool gm_run_is_cut(const struct gm_heap *heap, const void *address, uint32_t *granule)
{
	uint64_t offset = (uint64_t)(uintptr_t)address - heap->base;
	*granule = (uint32_t)(offset >> GM_GRANULE_SHIFT);
	return offset < (uint64_t)heap->capacity << GM_GRANULE_SHIFT &&
	       gm_load32(&heap->run[*granule]) == GM_RUN_CUT;
}

/* Free an address outside of the policy's granules: a run, or an invalid free. */
GM_DEVICE_SLOW void gm_run_free(struct gm_heap *heap, const void *address)
{
	uint64_t offset = (uint64_t)(uintptr_t)address - heap->base;
	uint32_t granule = (uint32_t)(offset >> GM_GRANULE_SHIFT);
	if (address == NULL)
		return;
	if (offset < (uint64_t)heap->capacity << GM_GRANULE_SHIFT &&
	    (offset & (GM_GRANULE - 1)) == 0) {
		uint32_t count = gm_load32(&heap->run[granule]);
		if (count != GM_RUN_NONE && count != GM_RUN_CUT &&
		    gm_cas32(&heap->run[granule], count, GM_RUN_NONE) == count) {
			gm_span_give(heap, granule, count);
			return;
		}
	}
	gm_add64(&heap->foreign_frees, 1);
}

GM_DEVICE size_t gm_run_usable(const struct gm_heap *heap, const void *address)
{
	uint64_t offset = (uint64_t)(uintptr_t)address - heap->base;
	if (offset >= (uint64_t)heap->capacity << GM_GRANULE_SHIFT || offset & (GM_GRANULE - 1))
		return 0;
	uint32_t count = gm_load32(&heap->run[offset >> GM_GRANULE_SHIFT]);
	return count == GM_RUN_CUT ? 0 : (size_t)count << GM_GRANULE_SHIFT;
}

/* The common part of gm_N_stats: granules, and the bytes of runs. */
GM_DEVICE void gm_run_stats(const struct gm_heap *heap, struct gm_heap_stats *stats)
{
	stats->granules += gm_load64(&heap->granted) - gm_load64(&heap->available);
	for (uint32_t g = 0; g < heap->capacity; g++) {
		uint32_t count = gm_load32(&heap->run[g]);
		if (count != GM_RUN_CUT)
			stats->live_bytes += (uint64_t)count << GM_GRANULE_SHIFT;
	}
}

#endif
