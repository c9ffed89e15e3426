/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The walks of `rw` and `rw-bm`, by one lane alone, for a group of up to 32 units; and, for these
 * and `corw`, the search of all words in order by a warp. If that fails, the result is NULL.
 */
#ifndef GM_HEAP_POLICIES_RW_WALK_H
#define GM_HEAP_POLICIES_RW_WALK_H

#include "heap/policies/rw_pool.h"

/* Probe `words` random words, with `tries` groups in each: the first unit, or GM_NO_GRANULE. */
GM_DEVICE uint32_t gm_rw_probe(struct gm_rw *rw, uint32_t held, uint32_t n, uint32_t words,
			       uint32_t tries, uint32_t *seed)
{
	uint32_t unit = GM_NO_GRANULE, bit;
	for (; words && held && unit == GM_NO_GRANULE; words--) {
		uint32_t word = gm_rw_place(rw, held, seed, &bit);
		if (word != GM_NO_GRANULE)
			unit = gm_rw_take(rw, word, n, gm_rw_aim(bit, n), tries);
	}
	return unit;
}

/* The walk has probed GM_RW_CACHED words: walk on, with the present size of the pool.
 * GM_NO_GRANULE: without success, and there are no more granules. */
GM_DEVICE_SLOW uint32_t gm_rw_walk_on(struct gm_heap *heap, uint32_t n, uint32_t tries)
{
	struct gm_rw *rw = gm_rw_of(heap);
	uint32_t seed = gm_rw_seed(), held, unit, turn = 0;
	do {
		held = gm_load32(&rw->held);
		unit = gm_rw_probe(rw, held, n, GM_RW_PROBES, tries, &seed);
	} while (unit == GM_NO_GRANULE && gm_rw_more(heap, held, turn++));
	return unit;
}

/* Walk to a group of `n` units, 1 to 32: its first unit, or GM_NO_GRANULE. */
GM_DEVICE uint32_t gm_rw_walk(struct gm_heap *heap, uint32_t n, uint32_t tries)
{
	struct gm_rw *rw = gm_rw_of(heap);
	uint32_t seed = gm_rw_seed(), held = gm_load32_cached(&rw->held);
	uint32_t unit = gm_rw_probe(rw, held, n, GM_RW_CACHED, tries, &seed);
	return unit != GM_NO_GRANULE ? unit : gm_rw_walk_on(heap, n, tries);
}

/* --- a warp together --- */

/* Algorithm 4: the place of the k-th set bit of `bits`, from 0; there are more than k. */
GM_DEVICE uint32_t gm_rw_kth(uint32_t bits, uint32_t k)
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

/*
 * By all lanes of `mask`, of which the lanes `need` need a group of `n` units. Each brings a word,
 * or GM_NO_GRANULE, and the used bits that it read. Lanes with clear groups give one each to lanes
 * in need, until none needs one, or none has any. Then all set the bits that they gave away.
 * Returns the caller's first unit; GM_NO_GRANULE: it needs none, or got none.
 */
GM_DEVICE_SLOW uint32_t gm_rw_share(struct gm_rw *rw, uint32_t mask, uint32_t need, uint32_t n,
				    uint32_t word, uint32_t bits)
{
	uint32_t given = 0, giver = gm_lane(), mine = 0;
	while (need) {
		uint32_t fit = gm_rw_fit(~bits, n), first = fit & (~fit + 1);
		uint32_t has = gm_ballot(mask, first != 0), rank = gm_rank(need);
		bool takes = (need >> gm_lane() & 1) && rank < gm_popc(has);
		if (!has)
			break;
		/* The k-th lane with a clear group gives it to the k-th lane in need. */
		uint32_t from = !takes || has == need ? gm_lane() : gm_rw_kth(has, rank);
		uint32_t got = gm_shfl32(mask, first, from);
		giver = takes ? from : giver;
		mine = takes ? got : mine;
		first = gm_rank(has) < gm_popc(need) ? first * gm_rw_bits(n) : 0;
		given |= first;
		bits |= first;
		need &= ~gm_ballot(mask, takes);
	}
	if (given)
		bits = gm_or32(&gm_rw_word(rw, word)->used, given);
	uint32_t old = gm_shfl32(mask, bits, giver);
	word = gm_shfl32(mask, word, giver);
	gm_syncwarp(mask); /* the receiver sees the memory like the giver */
	if (!(old & mine * gm_rw_bits(n)))
		return mine ? word << 5 | gm_ctz(mine) : GM_NO_GRANULE;
	gm_rw_undo(rw, word, mine * gm_rw_bits(n) & ~old);
	return GM_NO_GRANULE;
}

/* By all lanes of `mask`: search one granule for a group for each of the lanes `need`. */
GM_DEVICE uint32_t gm_rw_sweep_one(struct gm_rw *rw, uint32_t granule, uint32_t mask, uint32_t need,
				   uint32_t n)
{
	uint32_t unit = GM_NO_GRANULE;
	for (uint32_t w = 0; w < GM_RW_WORDS && need; w += gm_popc(mask)) {
		uint32_t at = w + gm_rank(mask);
		uint32_t word = at < GM_RW_WORDS ? granule * GM_RW_WORDS + at : GM_NO_GRANULE;
		for (uint32_t has = 1; has && need;) {
			uint32_t bits = word == GM_NO_GRANULE
						? ~0u
						: gm_load32(&gm_rw_word(rw, word)->used);
			has = gm_ballot(mask, gm_rw_fit(~bits, n) != 0);
			uint32_t got =
				has ? gm_rw_share(rw, mask, need, n, word, bits) : GM_NO_GRANULE;
			unit = got == GM_NO_GRANULE ? unit : got;
			need &= ~gm_ballot(mask, got != GM_NO_GRANULE);
		}
	}
	return unit;
}

/* By the active lanes; those with the same `n` search together. Returns the first unit of a group
 * in any word; GM_NO_GRANULE: no word has one. */
GM_DEVICE_SLOW uint32_t gm_rw_sweep(struct gm_rw *rw, uint32_t n)
{
	uint32_t mask = gm_match(gm_active(), n), leader = gm_leader(mask), need = mask;
	uint32_t held = gm_shfl32(mask, gm_load32(&rw->held), leader), unit = GM_NO_GRANULE;
	for (uint32_t k = 0; k < held && need; k++) {
		uint32_t granule = gm_shfl32(mask, gm_load32_acquire(&rw->granule[k]), leader);
		uint32_t got =
			granule ? gm_rw_sweep_one(rw, granule - 1, mask, need, n) : GM_NO_GRANULE;
		unit = got == GM_NO_GRANULE ? unit : got;
		need &= ~gm_ballot(mask, got != GM_NO_GRANULE);
	}
	return unit;
}

#endif
