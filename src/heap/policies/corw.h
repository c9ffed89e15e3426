/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `corw`: the collaborative random walk (Pham et al., 4.2, algorithms 3 and 4). Every lane
 * reads a random word. Lanes that found clear bits give some to lanes that still need a unit, until
 * none needs one, or none has any. A word whose lock bit another warp has set counts as full, so
 * warps seldom use the same word. A lane owns a group of units once it has set the used bits:
 * RW_malloc, which serves more than 32 units, sets no lock bits.
 */
#ifndef GM_HEAP_POLICIES_CORW_H
#define GM_HEAP_POLICIES_CORW_H

#include "heap/policies/rw_run.h"

GM_RW_POLICY(corw)

/* Lock a random word in a pool of `held` granules. Returns its number, and its used bits in *bits;
 * or GM_NO_GRANULE, and all bits set. */
GM_DEVICE uint32_t gm_corw_read(struct gm_rw *rw, uint32_t held, uint32_t *seed, uint32_t *bits)
{
	uint32_t bit, word = gm_rw_place(rw, held, seed, &bit);
	*bits = ~0u;
	if (word == GM_NO_GRANULE)
		return word;
	uint32_t lock = gm_or32(&rw->lock[word >> 5], 1u << (word & 31));
	uint32_t used = gm_load32(&gm_rw_word(rw, word)->used);
	if (lock >> (word & 31) & 1)
		return GM_NO_GRANULE;
	*bits = used;
	return word;
}

/* One round of all lanes of `mask`, of which the lanes `need` need a group. Returns the caller's
 * first unit, if any. */
GM_DEVICE uint32_t gm_corw_round(struct gm_rw *rw, uint32_t held, uint32_t mask, uint32_t need,
				 uint32_t n, uint32_t *seed)
{
	uint32_t bits, word = gm_corw_read(rw, held, seed, &bits);
	uint32_t unit = gm_rw_share(rw, mask, need, n, word, bits);
	/* Subtract the bit, which is set: no order is needed, because the used bits decide. */
	if (word != GM_NO_GRANULE)
		gm_add32(&rw->lock[word >> 5], 0u - (1u << (word & 31)));
	return unit;
}

/* The first unit of a group of `n` for each active lane; GM_NO_GRANULE: the walk found none. */
GM_DEVICE_SLOW uint32_t gm_corw_walk(struct gm_heap *heap, uint32_t n)
{
	struct gm_rw *rw = gm_rw_of(heap);
	uint32_t mask = gm_match(gm_active(), n), need = mask, seed = gm_rw_seed(), more = 1;
	uint32_t unit = GM_NO_GRANULE, leader = gm_leader(mask);
	uint32_t held = gm_shfl32(mask, gm_load32_cached(&rw->held), leader);
	for (uint32_t turn = 0; need && more; turn++) {
		uint32_t rounds = turn ? GM_RW_PROBES : GM_RW_CACHED;
		for (uint32_t i = 0; i < rounds && held && need; i++) {
			uint32_t got = gm_corw_round(rw, held, mask, need, n, &seed);
			unit = got == GM_NO_GRANULE ? unit : got;
			need &= ~gm_ballot(mask, got != GM_NO_GRANULE);
		}
		if (need && turn && gm_lane() == leader)
			more = gm_rw_more(heap, held, turn - 1);
		if (need) {
			held = gm_shfl32(mask, gm_load32(&rw->held), leader);
			more = gm_shfl32(mask, more, leader);
		}
	}
	return unit;
}

GM_DEVICE void *gm_corw_malloc(struct gm_heap *heap, size_t size)
{
	uint32_t n = gm_rw_units(size);
	return gm_rw_finish(heap, size, n, n <= 32 ? gm_corw_walk(heap, n) : GM_NO_GRANULE);
}

#endif
