/* SPDX-License-Identifier: BSD-3-Clause */
/* Slots of a granule, in policy `granule` (granule.h): lanes of a warp reserve them together, then
 * each finds its own. */
#ifndef GM_HEAP_DEVICE_GRANULE_SLOT_H
#define GM_HEAP_DEVICE_GRANULE_SLOT_H

#include "heap/device/granule_shard.h"

/*
 * Reserve `count` slots of the granule in shard `s`, which may have fewer. Returns the granule's
 * state before, and GM_RESERVED; 0: none was reserved. `*seen`: the shard's word, with the granule.
 * `check`: read first whether there are any, as many lanes may try.
 */
GM_DEVICE uint64_t gm_granule_reserve(struct gm_heap *heap, uint32_t c, uint32_t s, uint32_t count,
				      bool check, uint32_t *seen)
{
	struct gm_granules *all = gm_granules_of(heap);
	*seen = s == GM_NO_SHARD ? 0 : gm_load32_address(gm_shard_of(&all->class_[c], s));
	if (*seen == 0 || *seen == GM_SHARD_BUSY) {
		if (check && s != GM_NO_SHARD)
			gm_room_missed(heap, c, s);
		return 0;
	}
	uint64_t *state = &gm_slab_of(heap, *seen - 1)->state;
	if (check && GM_USED(gm_load64(state)) >= gm_load32_cached(&all->class_[c].slots)) {
		gm_room_missed(heap, c, s);
		return 0;
	}
	return gm_add64(state, (uint64_t)count << 32 | count) | GM_RESERVED;
}

/*
 * The bit at `at` was set: find a clear one. There is one, because a slot was reserved. Long-lived
 * blocks fill words in a row, and many lanes find these at once. So they first try some words at
 * random: else they would pass all full words and meet at the first one behind. Then they try all
 * words in a row.
 */
GM_DEVICE_SLOW uint32_t gm_granule_search(uint32_t *bits, uint32_t slots, uint32_t at)
{
	uint32_t words = (slots + 31) >> 5, w = at >> 5, random = at * 0x9e3779b9u;
	for (uint32_t turn = 0;; turn++) {
		uint32_t free = ~gm_load32(&bits[w]);
		if (w == words - 1 && slots & 31)
			free &= (1u << (slots & 31)) - 1;
		while (free) {
			uint32_t above = free >> (at & 31) << (at & 31);
			uint32_t bit = gm_ctz(above ? above : free);
			uint32_t old = gm_or32(&bits[w], 1u << bit);
			if (!(old >> bit & 1))
				return w << 5 | bit;
			free &= ~old & ~(1u << bit);
		}
		w = w + 1 == words ? 0 : w + 1;
		if (turn < GM_SLOT_TRIES) {
			w = gm_high32(random, words);
			random = random * 1664525 + 1013904223;
		}
	}
}

/*
 * The slot for each lane of `mask`, from the cursor on. Lanes with the same word claim their bits
 * at once. With few slots each lane claims its own bit, because the cursor may reach a word twice.
 */
GM_DEVICE uint32_t gm_granule_slot(const struct gm_granule_class *class_, uint32_t *bits,
				   uint32_t cursor, uint32_t mask)
{
	uint32_t at = gm_granule_wrap(class_, cursor + gm_rank(mask)), old = 0;
	uint32_t slots = gm_load32_cached(&class_->slots);
	uint32_t same = gm_match32(mask, slots < GM_WARP * 2 ? GM_WARP + gm_lane() : at >> 5);
	uint32_t leader = gm_leader(same), wanted = (2u << (gm_popc(same) - 1)) - 1;
	if (gm_lane() == leader)
		old = gm_or32(&bits[at >> 5], wanted << (at & 31));
	old = gm_shfl32(same, old, leader);
	gm_syncwarp(mask); /* see memory like the lane that claimed the bit */
	return old >> (at & 31) & 1 ? gm_granule_search(bits, slots, at) : at;
}

/* One of the slots that were reserved for all lanes of `mask`. */
GM_DEVICE void *gm_granule_take(struct gm_heap *heap, uint32_t c, uint32_t granule, uint32_t cursor,
				uint32_t mask)
{
	struct gm_granule_class *class_ = &gm_granules_of(heap)->class_[c];
	uint32_t header = gm_load32_cached(&class_->header);
	uint32_t *bits = gm_granule_bits(heap, gm_slab_of(heap, granule), granule, header);
	uint32_t slot = gm_granule_slot(class_, bits, cursor, mask);
	return gm_span_address(heap, granule) + (header + slot * gm_load32_cached(&class_->size));
}

/* The slots that the lanes of a mask reserved in shard `s` of a class. */
struct gm_granule_try {
	uint32_t s, seen, cursor;
	uint32_t got;	/* number of slots, for the first lanes of the mask */
	uint32_t count; /* wanted */
	bool drained;	/* gm_granule_drain has to follow */
};

/* All lanes of `mask` call it: reserve slots in shard `s` of the first lane. Each lane derives its
 * values from the old state: values of the first lane alone would wait in the stack. */
GM_DEVICE void gm_granule_try(struct gm_heap *heap, uint32_t c, uint32_t s, uint32_t mask,
			      bool check, struct gm_granule_try *t)
{
	uint32_t leader = gm_leader(mask), count = gm_popc(mask), seen = 0;
	uint64_t old = 0;
	if (gm_lane() == leader)
		old = gm_granule_reserve(heap, c, s, count, check, &seen);
	t->s = gm_shfl32(mask, s, leader);
	t->seen = gm_shfl32(mask, seen, leader);
	old = gm_shfl(mask, old, leader);
	t->cursor = (uint32_t)(old >> 32);
	t->got = 0;
	t->count = count;
	uint32_t slots = gm_load32_cached(&gm_granules_of(heap)->class_[c].slots);
	if (GM_CLASS(old) == c + 1 && GM_USED(old) < slots)
		t->got = slots - GM_USED(old) < count ? slots - GM_USED(old) : count;
	t->drained = old & GM_RESERVED && (t->got < count || GM_USED(old) + count >= slots);
}

/* By the first lane, afterwards: the granule has no slot left. */
GM_DEVICE void gm_granule_drain(struct gm_heap *heap, uint32_t c, const struct gm_granule_try *t)
{
	if (t->got)
		gm_room_remove(heap, c, t->s);
	if (t->got < t->count)
		gm_slab_drop(heap, t->seen - 1, t->count - t->got);
}

#endif
