/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sets of granules without a lock: a bitmap under one level of summary. Any lanes may add and
 * remove members at the same time. A summary bit may be set over an empty word, but is not clear
 * for long over a word with members.
 */
#ifndef GM_HEAP_DEVICE_BITS_H
#define GM_HEAP_DEVICE_BITS_H

#include "heap/device/heap.h"

/* A set bit of `word`, the first at or above `from` if there is one. `word` is not 0. */
GM_DEVICE uint32_t gm_bits_pick(uint64_t word, uint32_t from)
{
	uint64_t above = word >> (from & 63) << (from & 63);
	uint64_t one = above ? above : word;
	return gm_log2(one & (~one + 1));
}

GM_DEVICE void gm_bits_fill(const struct gm_bits *set, uint32_t w, uint64_t bits)
{
	if (gm_or64(&set->word[w], bits) == 0)
		gm_or64(&set->summary[w >> 6], 1ull << (w & 63));
}

GM_DEVICE void gm_bits_put(const struct gm_bits *set, uint32_t i)
{
	gm_bits_fill(set, i >> 6, 1ull << (i & 63));
}

/* Word `w` was seen empty: clear its summary bit, unless it filled up meanwhile. */
GM_DEVICE void gm_bits_emptied(const struct gm_bits *set, uint32_t w)
{
	gm_and64(&set->summary[w >> 6], ~(1ull << (w & 63)));
	if (gm_load64(&set->word[w]) != 0)
		gm_or64(&set->summary[w >> 6], 1ull << (w & 63));
}

/* Remove `bits` from word `w`. Returns those of them that were set. */
GM_DEVICE uint64_t gm_bits_drain(const struct gm_bits *set, uint32_t w, uint64_t bits)
{
	uint64_t old = gm_and64(&set->word[w], ~bits);
	if (old && (old & ~bits) == 0)
		gm_bits_emptied(set, w);
	return old & bits;
}

GM_DEVICE bool gm_bits_remove(const struct gm_bits *set, uint32_t i)
{
	return gm_bits_drain(set, i >> 6, 1ull << (i & 63)) != 0;
}

/* True: there may be a member; false: there was none. */
GM_DEVICE bool gm_bits_any(const struct gm_bits *set, uint32_t summaries)
{
	for (uint32_t s = 0; s < summaries; s++)
		if (gm_load64(&set->summary[s]) != 0)
			return true;
	return false;
}

/* Remove one member, searched from a place given by `seed`; GM_NO_GRANULE: none was found. */
GM_DEVICE uint32_t gm_bits_take(const struct gm_bits *set, uint32_t summaries, uint32_t seed)
{
	for (uint32_t n = 0, s = seed % summaries; n < summaries;
	     n++, s = s + 1 == summaries ? 0 : s + 1) {
		uint64_t filled = gm_load64(&set->summary[s]);
		while (filled) {
			uint32_t at = gm_bits_pick(filled, seed >> 4);
			uint32_t w = s << 6 | at;
			uint64_t word = gm_load64(&set->word[w]);
			while (word) {
				uint32_t bit = gm_bits_pick(word, seed);
				if (gm_bits_drain(set, w, 1ull << bit))
					return w << 6 | bit;
				word = gm_load64(&set->word[w]);
			}
			gm_bits_emptied(set, w);
			filled &= ~(1ull << at);
		}
	}
	return GM_NO_GRANULE;
}

#endif
