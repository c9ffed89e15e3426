/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RW_malloc (Pham et al., 4.3, algorithm 5): n units side by side, more than 32, or fewer if no
 * word has as many. The active lanes read neighbouring words of a granule, from a random one on,
 * and search all of these for a run of n clear bits, which may cross words. First they search one
 * run for all lanes together, and divide it; if there is none, one for each lane in turn.
 */
#ifndef GM_HEAP_POLICIES_RW_RUN_H
#define GM_HEAP_POLICIES_RW_RUN_H

#include "heap/policies/rw_walk.h"

/* By all lanes of `mask`: set the bits of a run, a word a lane at a time. False: one was set. */
GM_DEVICE_SLOW bool gm_rw_claim(struct gm_rw *rw, uint32_t unit, uint32_t count, uint32_t mask)
{
	uint32_t lost = 0, bits, first = unit >> 5, last = (unit + count - 1) >> 5;
	uint32_t w, set = first; /* the lane has set its words below `set`, but for `lost` bits */
	for (w = first + gm_rank(mask); w <= last && !lost; w += gm_popc(mask)) {
		uint32_t from = w == first ? unit : w << 5;
		gm_rw_part(from, unit + count - from, &bits);
		uint32_t old = gm_or32(&gm_rw_word(rw, w)->used, bits);
		set = w + 1;
		lost = old & bits;
		if (lost)
			gm_rw_undo(rw, w, bits & ~old);
	}
	bool won = !gm_ballot(mask, lost != 0);
	/* Every lane sees the memory of all words like the lanes that set them. */
	gm_syncwarp(mask);
	if (won)
		return true;
	for (w = first + gm_rank(mask); w < set - (lost != 0); w += gm_popc(mask)) {
		uint32_t from = w == first ? unit : w << 5;
		gm_rw_part(from, unit + count - from, &bits);
		gm_rw_undo(rw, w, bits);
	}
	return false;
}

/*
 * Continue the search for `count` clear bits in a row, in `word`. Its bits below `*from` are
 * scanned, and `*row` clear bits end there. True: `count` clear bits end below the new `*from`.
 */
GM_DEVICE bool gm_rw_scan(uint32_t word, uint32_t count, uint32_t *from, uint32_t *row)
{
	while (*from < 32) {
		uint32_t rest = word >> *from;
		uint32_t clear = rest ? gm_ctz(rest) : 32 - *from;
		if (*row + clear >= count) {
			*from += count - *row;
			*row = count;
			return true;
		}
		*row += clear;
		*from += clear;
		if (*from < 32) {
			*row = 0;
			rest = ~(word >> *from);
			*from += rest ? gm_ctz(rest) : 32;
		}
	}
	*from = 0;
	return false;
}

/* By all lanes of `mask`: claim a run in one granule, from word `begin` on; or GM_NO_GRANULE. */
GM_DEVICE_SLOW uint32_t gm_rw_search(struct gm_rw *rw, uint32_t granule, uint32_t begin,
				     uint32_t count, uint32_t mask)
{
	uint32_t row = 0, from = 0, base = granule * GM_RW_WORDS;
	for (uint32_t w = begin; w < GM_RW_WORDS; w += gm_popc(mask)) {
		uint32_t mine = w + gm_rank(mask), rest = mask, at = w;
		uint32_t word =
			mine < GM_RW_WORDS ? gm_load32(&gm_rw_word(rw, base + mine)->used) : ~0u;
		for (; rest && at < GM_RW_WORDS; rest &= rest - 1, at++) {
			uint32_t seen = gm_shfl32(mask, word, gm_ctz(rest));
			while (gm_rw_scan(seen, count, &from, &row)) {
				uint32_t unit = ((base + at) << 5) + from - count;
				if (gm_rw_claim(rw, unit, count, mask))
					return unit;
				row = 0;
				if (from == 32) {
					from = 0;
					break;
				}
			}
		}
	}
	return GM_NO_GRANULE;
}

/* By all lanes of `mask`, with the same arguments: claim `count` units in any granule, or
 * GM_NO_GRANULE. */
GM_DEVICE_SLOW uint32_t gm_rw_search_all(struct gm_rw *rw, uint32_t count, uint32_t mask)
{
	uint32_t leader = gm_leader(mask), unit = GM_NO_GRANULE;
	uint32_t held = gm_shfl32(mask, gm_load32(&rw->held), leader);
	for (uint32_t k = 0; k < held && unit == GM_NO_GRANULE; k++) {
		uint32_t granule = gm_shfl32(mask, gm_load32_address(&rw->granule[k]), leader);
		if (granule)
			unit = gm_rw_search(rw, granule - 1, 0, count, mask);
	}
	return unit;
}

/* Likewise, but first in random granules; also brings granules to the pool. */
GM_DEVICE_SLOW uint32_t gm_rw_find(struct gm_heap *heap, uint32_t count, uint32_t mask)
{
	struct gm_rw *rw = gm_rw_of(heap);
	uint32_t leader = gm_leader(mask), seed = gm_shfl32(mask, gm_rw_seed(), leader), more = 1;
	for (uint32_t turn = 0; more; turn++) {
		uint32_t held = gm_shfl32(mask, gm_load32(&rw->held), leader);
		for (uint32_t i = 0; i < 2 && held; i++) {
			uint32_t bit, place = gm_rw_place(rw, held, &seed, &bit), unit;
			place = gm_shfl32(mask, place, leader);
			if (place == GM_NO_GRANULE)
				continue;
			unit = gm_rw_search(rw, place / GM_RW_WORDS, i ? 0 : place % GM_RW_WORDS,
					    count, mask);
			if (unit != GM_NO_GRANULE)
				return unit;
		}
		if (gm_lane() == leader)
			more = gm_rw_more(heap, held, turn);
		more = gm_shfl32(mask, more, leader);
	}
	return GM_NO_GRANULE;
}

/* Make the units one allocation: set `more` of all but the last. */
GM_DEVICE void *gm_rw_join(struct gm_heap *heap, uint32_t unit, uint32_t count)
{
	uint32_t bits, n;
	for (uint32_t at = unit, rest = count - 1; rest && unit != GM_NO_GRANULE;
	     at += n, rest -= n) {
		n = gm_rw_part(at, rest, &bits);
		gm_or32(&gm_rw_word(gm_rw_of(heap), at >> 5)->more, bits);
	}
	return gm_rw_address(heap, unit);
}

/*
 * By the active lanes: a run of `count` units for each. Lanes with `walked` found no group by a
 * walk, which brought all granules that there are. A failed search of all granules is not repeated
 * for as many units or more.
 */
GM_DEVICE_SLOW uint32_t gm_rw_take_run(struct gm_heap *heap, uint32_t count, bool walked)
{
	uint32_t mask = gm_active(), total = 0, before = 0, unit = GM_NO_GRANULE, least = ~0u;
	uint32_t fresh = gm_ballot(mask, !walked);
	for (uint32_t rest = mask; rest; rest &= rest - 1) {
		if (gm_ctz(rest) == gm_lane())
			before = total;
		total += gm_shfl32(mask, count, gm_ctz(rest));
	}
	if (fresh == mask && total != count && total <= GM_RW_LONGEST)
		unit = gm_rw_find(heap, total, mask);
	if (unit != GM_NO_GRANULE)
		return unit + before;
	for (uint32_t rest = mask; rest; rest &= rest - 1) {
		uint32_t lane = gm_ctz(rest), n = gm_shfl32(mask, count, lane), found;
		found = fresh >> lane & 1 ? gm_rw_find(heap, n, mask) : GM_NO_GRANULE;
		if (found == GM_NO_GRANULE && n < least)
			found = gm_rw_search_all(gm_rw_of(heap), n, mask);
		if (found == GM_NO_GRANULE && n < least)
			least = n;
		if (lane == gm_lane())
			unit = found;
	}
	return unit;
}

/* The walk found no group of `count` units, or was not tried for more than 32. */
GM_DEVICE_SLOW void *gm_rw_malloc_run(struct gm_heap *heap, size_t size, uint32_t count)
{
	uint32_t unit = GM_NO_GRANULE;
	if (count > GM_RW_LONGEST)
		return gm_run_malloc(heap, size);
	if (count <= 32)
		unit = gm_rw_sweep(gm_rw_of(heap), count);
	if (unit == GM_NO_GRANULE && count > 1)
		unit = gm_rw_take_run(heap, count, count <= 32);
	return gm_rw_join(heap, unit, count);
}

/* Units of an allocation of `size` bytes; more than GM_RW_LONGEST: it is a run of granules. */
GM_DEVICE uint32_t gm_rw_units(size_t size)
{
	if (size > (size_t)GM_RW_LONGEST * GM_RW_UNIT)
		return GM_RW_LONGEST + 1;
	return size ? (uint32_t)((size + GM_RW_UNIT - 1) >> GM_RW_UNIT_SHIFT) : 1;
}

/* The allocation of `count` units from `unit` on, found by the walk; `unit` may be
 * GM_NO_GRANULE. */
GM_DEVICE void *gm_rw_finish(struct gm_heap *heap, size_t size, uint32_t count, uint32_t unit)
{
	if (unit == GM_NO_GRANULE)
		return gm_rw_malloc_run(heap, size, count);
	if (count > 1)
		gm_or32(&gm_rw_word(gm_rw_of(heap), unit >> 5)->more, gm_rw_bits(count - 1)
									      << (unit & 31));
	return gm_rw_address(heap, unit);
}

/* The functions of policy `name` that all random search policies share: all but gm_name_malloc. */
#define GM_RW_POLICY(name)                                                                       \
	GM_DEVICE_HOST size_t gm_##name##_bytes(uint32_t capacity)                               \
	{                                                                                        \
		return gm_rw_bytes(capacity);                                                    \
	}                                                                                        \
	GM_DEVICE void gm_##name##_init(struct gm_heap *heap, uint32_t thread, uint32_t threads) \
	{                                                                                        \
		gm_rw_init(heap, thread, threads);                                               \
	}                                                                                        \
	GM_DEVICE void gm_##name##_free(struct gm_heap *heap, void *address)                     \
	{                                                                                        \
		gm_rw_free(heap, address);                                                       \
	}                                                                                        \
	GM_DEVICE size_t gm_##name##_usable(struct gm_heap *heap, const void *address)           \
	{                                                                                        \
		return gm_rw_usable(heap, address);                                              \
	}                                                                                        \
	GM_DEVICE void gm_##name##_trim(struct gm_heap *heap)                                    \
	{                                                                                        \
		gm_rw_trim(heap);                                                                \
	}                                                                                        \
	GM_DEVICE void gm_##name##_stats(struct gm_heap *heap, struct gm_heap_stats *stats)      \
	{                                                                                        \
		gm_rw_stats(heap, stats);                                                        \
	}

#endif
