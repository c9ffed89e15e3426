/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `corw`: the collaborative random walk (Pham et al., 4.2, algorithms 3 and 4). Every lane
 * reads a random word. Lanes that found clear bits give one each to lanes that still need a unit,
 * until none needs one, or none has any. A word whose lock bit another warp has set counts as full,
 * so that warps seldom meet. A lane owns a unit once it has set the used bit: RW_malloc, which
 * serves more than a unit, sets no lock bits.
 */
#ifndef GM_HEAP_DEVICE_CORW_H
#define GM_HEAP_DEVICE_CORW_H

#include "heap/device/rw_run.h"

GM_RW_POLICY(corw)

/* Algorithm 4: the place of the k-th set bit of `bits`, from 0; there are more than k. */
GM_DEVICE uint32_t gm_corw_kth(uint32_t bits, uint32_t k)
{
	uint32_t at = 0;
	for (uint32_t width = 16; width; width /= 2) {
		uint32_t below = gm_popc(bits >> at & ((1u << width) - 1));
		if (k >= below) {
			k -= below;
			at += width;
		}
	}
	return at;
}

/* Lock a random word: its number, and its used bits; or GM_NO_GRANULE, and all bits set. */
GM_DEVICE uint32_t gm_corw_read(struct gm_rw *rw, uint32_t *seed, uint32_t *bits)
{
	uint32_t word = gm_rw_place(rw, seed);
	*bits = ~0u;
	if (word != GM_NO_GRANULE &&
	    gm_or32_sync(&rw->lock[word >> 5], 1u << (word & 31)) >> (word & 31) & 1)
		word = GM_NO_GRANULE;
	if (word != GM_NO_GRANULE)
		*bits = gm_load32(&rw->used[word]);
	return word;
}

/* Set the used bits that this lane gave away, and unlock the word; returns those set before. */
GM_DEVICE uint32_t gm_corw_write(struct gm_rw *rw, uint32_t word, uint32_t given)
{
	uint32_t old = 0;
	if (given)
		old = gm_or32_sync(&rw->used[word], given);
	if (word != GM_NO_GRANULE)
		gm_and32_sync(&rw->lock[word >> 5], ~(1u << (word & 31)));
	return old & given;
}

/* One round of all lanes of `mask`, of which `*need` need a unit: the caller's unit, if any. */
GM_DEVICE_SLOW uint32_t gm_corw_round(struct gm_rw *rw, uint32_t mask, uint32_t *need,
				      uint32_t *seed)
{
	uint32_t bits, given = 0, giver = gm_lane(), bit = 0, rest = *need;
	uint32_t word = gm_corw_read(rw, seed, &bits), unit = GM_NO_GRANULE;
	for (;;) {
		uint32_t has = gm_ballot(mask, bits != ~0u);
		if (!rest || !has)
			break;
		uint32_t n = gm_popc(has), rank = gm_rank(rest), first = ~bits & (bits + 1);
		bool mine = (rest >> gm_lane() & 1) && rank < n;
		if (mine)
			giver = gm_corw_kth(has, rank);
		uint32_t got = gm_shfl32(mask, first, mine ? giver : gm_lane());
		if (mine)
			bit = got;
		/* The k-th lane with a clear bit gives it to the k-th lane in need. */
		if (first && gm_rank(has) < gm_popc(rest)) {
			given |= first;
			bits |= first;
		}
		rest &= ~gm_ballot(mask, mine);
	}
	uint32_t lost = gm_shfl32(mask, gm_corw_write(rw, word, given), giver);
	gm_syncwarp(mask); /* the receiver sees the memory as the giver did */
	word = gm_shfl32(mask, word, giver);
	if (bit && !(lost & bit))
		unit = word << 5 | gm_ctz(bit);
	*need &= ~gm_ballot(mask, unit != GM_NO_GRANULE);
	return unit;
}

/* A unit for each active lane; GM_NO_GRANULE: the walk found none. */
GM_DEVICE_SLOW uint32_t gm_corw_walk(struct gm_heap *heap)
{
	struct gm_rw *rw = gm_rw_of(heap);
	uint32_t mask = gm_active(), need = mask, seed = gm_rw_seed(), unit = GM_NO_GRANULE,
		 more = 1;
	for (uint32_t turn = 0; need && more; turn++) {
		uint32_t held = gm_shfl32(mask, gm_load32(&rw->held), gm_leader(mask));
		for (uint32_t i = 0; i < GM_RW_PROBES && held && need; i++) {
			uint32_t got = gm_corw_round(rw, mask, &need, &seed);
			unit = got == GM_NO_GRANULE ? unit : got;
		}
		if (need && gm_lane() == gm_leader(mask))
			more = gm_rw_more(heap, held, turn);
		more = gm_shfl32(mask, more, gm_leader(mask));
	}
	return unit;
}

GM_DEVICE void *gm_corw_malloc(struct gm_heap *heap, size_t size)
{
	if (size > GM_RW_UNIT)
		return gm_rw_malloc_run(heap, size);
	uint32_t unit = gm_corw_walk(heap);
	if (unit == GM_NO_GRANULE)
		unit = gm_rw_sweep(gm_rw_of(heap));
	return gm_rw_address(heap, unit);
}

#endif
