/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lower half of policy `granule` (granule.h): its structures, what becomes of a granule when
 * slots come free, and how a shard gets another one.
 */
#ifndef GM_HEAP_DEVICE_GRANULE_SHARD_H
#define GM_HEAP_DEVICE_GRANULE_SHARD_H

#include "heap/device/span.h"

enum {
	GM_CLASSES = 32,
	GM_SHARD_PATIENCE = 64,	  /* turns of waiting for a busy shard */
	GM_CLASS_PATIENCE = 4096, /* and for one that may hold the last granule */
	GM_SHARDS = 2048,	  /* of a class, at most; a power of two */
	GM_SLAB_BITS = 256,	  /* bitmap in the slab record up to this many slots */
	GM_RUN = 63,		  /* class number, plus 1, of the head of a run */
};

/* The state of a granule: slots in use or reserved (20 bits), class + 1 or 0 (6), active; above,
 * the cursor. A reservation that comes too late counts there for a moment, whatever the granule is.
 */
#define GM_USED(state) ((uint32_t)(state)&0xfffff)
#define GM_CLASS(state) ((uint32_t)(state) >> 20 & 63)
#define GM_CLASS_IS(class_plus_1) ((uint64_t)(class_plus_1) << 20)
#define GM_ACTIVE (1ull << 26)

/*
 * A lane is putting another granule there; others keep away, so that they do not all take one. But
 * nobody depends on that lane, which may be one of the same warp that the hardware does not let go
 * on: after GM_SHARD_PATIENCE turns they put theirs there, and the lane that comes too late offers
 * its granule to the class.
 */
#define GM_SHARD_BUSY 0xffffffffu
#define GM_NO_SHARD 0xffffffffu
#define GM_FRESH 0x80000000u /* with a granule: its bitmap is not cleared yet */

struct gm_slab {
	uint64_t state;
	uint32_t run; /* granules of a run, in its head */
	uint32_t pad[5];
	uint32_t bits[GM_SLAB_BITS / 32];
};

struct gm_granule_class {
	uint32_t slots;	   /* usable ones of a granule */
	uint32_t header;   /* bytes before the first */
	uint32_t shards;   /* in use: a power of two */
	uint32_t granules; /* owned */
	uint32_t dry;	   /* heap.epoch + 1 when the last search found nothing; 0: one may */
	uint32_t pad[11];
	struct gm_bits roomy, ragged;
	uint32_t shard[GM_SHARDS]; /* granule + 1; 0: none yet */
};

struct gm_granules {
	struct gm_granule_class class_[GM_CLASSES];
	struct gm_slab *slab;
	struct gm_bits empty; /* not active, and nothing in use: any class may have them */
	uint32_t dry;	      /* some class is: an empty granule is news to it */
	uint32_t pad[15];
};

/* Octave and half of it: 2 * floor(log2(last byte)) + (in its upper half). There is no 24. */
GM_DEVICE uint32_t gm_granule_class_of(size_t size)
{
	uint64_t last = (size < 16 ? 16 : size) - 1;
	uint32_t octave = gm_log2(last);
	uint32_t v = octave << 1 | ((uint32_t)(last >> (octave - 1)) & 1);
	return v <= 7 ? 0 : v <= 9 ? 1 : v - 8;
}

/* Class c's slots are 3 or 4 (the parts) << shift bytes. */
GM_DEVICE uint32_t gm_granule_shift(uint32_t c)
{
	return c == 0 ? 2 : (c >> 1) + 3;
}

GM_DEVICE uint32_t gm_granule_parts(uint32_t c)
{
	return c == 0 ? 4 : 3 + (c & 1);
}

GM_DEVICE uint32_t gm_granule_size(uint32_t c)
{
	return gm_granule_parts(c) << gm_granule_shift(c);
}

GM_DEVICE struct gm_granules *gm_granules_of(struct gm_heap *heap)
{
	return (struct gm_granules *)heap->policy;
}

GM_DEVICE uint32_t *gm_granule_bits(struct gm_heap *heap, struct gm_slab *slab, uint32_t granule,
				    uint32_t header)
{
	return header ? (uint32_t *)gm_span_address(heap, granule) : slab->bits;
}

/* Change the state of a granule that is nobody else's, but for late reservations. */
GM_DEVICE void gm_slab_become(struct gm_slab *slab, uint64_t state)
{
	uint64_t old = gm_load64(&slab->state), seen;
	while ((seen = gm_cas64(&slab->state, old, (old & 0xfffff) | state)) != old)
		old = seen;
}

/* --- what a granule becomes when slots of it came free --- */

/* Make an empty granule nobody's; false: it is in use again, or another lane did. */
GM_DEVICE bool gm_slab_retire(struct gm_heap *heap, uint32_t granule)
{
	struct gm_granules *all = gm_granules_of(heap);
	uint64_t state = gm_load64(&all->slab[granule].state);
	uint32_t c = GM_CLASS(state) - 1;
	if (c >= GM_CLASSES || GM_USED(state) != 0 || state & GM_ACTIVE ||
	    gm_cas64(&all->slab[granule].state, state, 0) != state)
		return false;
	gm_bits_remove(&all->class_[c].ragged, granule);
	gm_bits_remove(&all->class_[c].roomy, granule);
	gm_add32(&all->class_[c].granules, ~0u);
	return true;
}

/* `before` slots were in use, now it is `now`, and the granule is no shard's. */
GM_DEVICE_SLOW void gm_slab_offer(struct gm_heap *heap, uint32_t granule, uint32_t c,
				  uint32_t before, uint32_t now)
{
	struct gm_granules *all = gm_granules_of(heap);
	struct gm_granule_class *class_ = &all->class_[c];
	uint32_t slots = class_->slots, roomy = slots - (slots >> 3);
	if (before > roomy && now <= roomy)
		gm_bits_put(&class_->roomy, granule);
	if (before >= slots && now < slots)
		gm_bits_put(&class_->ragged, granule);
	if (now == 0)
		gm_bits_put(&all->empty, granule);
}

/* Take `count` off the slots in use or reserved; the bits are clear already. */
GM_DEVICE void gm_slab_drop(struct gm_heap *heap, uint32_t granule, uint32_t count)
{
	struct gm_granules *all = gm_granules_of(heap);
	uint64_t old = gm_add64_release(&all->slab[granule].state, 0ull - count);
	uint32_t c = GM_CLASS(old) - 1, used = GM_USED(old), now = used - count;
	if (c >= GM_CLASSES)
		return;
	struct gm_granule_class *class_ = &all->class_[c];
	uint32_t slots = gm_load32_cached(&class_->slots), roomy = slots - (slots >> 3);
	if (gm_load32(&class_->dry) != 0)
		gm_store32(&class_->dry, 0);
	if (now == 0 && gm_load32(&all->dry) != 0) {
		gm_store32(&all->dry, 0);
		gm_add32(&heap->epoch, 1);
	}
	if (!(old & GM_ACTIVE) &&
	    (now == 0 || (used > roomy && now <= roomy) || (used >= slots && now < slots)))
		gm_slab_offer(heap, granule, c, used, now);
}

/* --- another granule for a shard --- */

GM_DEVICE void gm_granule_deactivate(struct gm_heap *heap, uint32_t granule, uint32_t c)
{
	struct gm_granules *all = gm_granules_of(heap);
	uint64_t old = gm_and64(&all->slab[granule].state, ~GM_ACTIVE);
	if (GM_USED(old) < all->class_[c].slots)
		gm_slab_offer(heap, granule, c, ~0u, GM_USED(old));
}

/* Make a granule out of a set of the class active; GM_NO_GRANULE: there is none. */
GM_DEVICE uint32_t gm_granule_claim(struct gm_heap *heap, const struct gm_bits *set, uint32_t c,
				    uint32_t seed)
{
	struct gm_granules *all = gm_granules_of(heap);
	for (;;) {
		uint32_t granule = gm_bits_take(set, heap->summaries, seed);
		if (granule == GM_NO_GRANULE)
			return granule;
		uint64_t *word = &all->slab[granule].state, state = gm_load64(word);
		/* The bit may be from an earlier life: then it is dropped. */
		while (GM_CLASS(state) == c + 1 && !(state & GM_ACTIVE)) {
			uint64_t seen = gm_cas64(word, state, state | GM_ACTIVE);
			if (seen == state)
				return granule;
			state = seen;
		}
	}
}

/* The class owns one granule more: a shard for each. */
GM_DEVICE void gm_granule_more_shards(struct gm_granule_class *class_)
{
	uint32_t granules = gm_add32(&class_->granules, 1) + 1, shards = gm_load32(&class_->shards);
	if (shards < GM_SHARDS && granules > shards)
		gm_cas32(&class_->shards, shards, shards * 2);
}

/* A granule that no class holds, or holds empty. */
GM_DEVICE uint32_t gm_granule_fresh(struct gm_heap *heap, uint32_t seed)
{
	uint32_t granule = gm_span_take_one(heap, seed);
	while (granule == GM_NO_GRANULE) {
		uint32_t empty = gm_bits_take(&gm_granules_of(heap)->empty, heap->summaries, seed);
		if (empty == GM_NO_GRANULE)
			return empty;
		if (gm_slab_retire(heap, empty))
			granule = empty;
	}
	return granule;
}

/* A shard of the class whose granule still has a slot, or GM_NO_SHARD. */
GM_DEVICE uint32_t gm_granule_other_shard(struct gm_heap *heap, uint32_t c, uint32_t turn)
{
	struct gm_granules *all = gm_granules_of(heap);
	struct gm_granule_class *class_ = &all->class_[c];
	uint32_t slots = class_->slots, shards = gm_load32(&class_->shards);
	for (uint32_t s = 0; s < shards; s++) {
		uint32_t seen = gm_load32(&class_->shard[s]);
		if (seen == GM_SHARD_BUSY && turn < GM_CLASS_PATIENCE)
			return s;
		if (seen && seen != GM_SHARD_BUSY &&
		    GM_USED(gm_load64(&all->slab[seen - 1].state)) < slots)
			return s;
	}
	return GM_NO_SHARD;
}

/* By one lane, with the shard marked busy: find it a granule. */
GM_DEVICE_SLOW uint32_t gm_granule_find(struct gm_heap *heap, uint32_t c, uint32_t seed,
					bool *fresh)
{
	struct gm_granule_class *class_ = &gm_granules_of(heap)->class_[c];
	uint32_t granule = gm_granule_claim(heap, &class_->roomy, c, seed);
	if (granule != GM_NO_GRANULE)
		return granule;
	granule = gm_granule_fresh(heap, seed);
	*fresh = granule != GM_NO_GRANULE;
	return *fresh ? granule : gm_granule_claim(heap, &class_->ragged, c, seed);
}

/* Clear the bitmap of a fresh granule, with all lanes of `mask`. */
GM_DEVICE_SLOW void gm_granule_clear(struct gm_heap *heap, uint32_t c, uint32_t granule,
				     uint32_t mask)
{
	struct gm_granules *all = gm_granules_of(heap);
	uint32_t header = all->class_[c].header;
	uint32_t words = header ? (all->class_[c].slots + 31) >> 5 : GM_SLAB_BITS / 32;
	uint32_t *bits = gm_granule_bits(heap, &all->slab[granule], granule, header);
	for (uint32_t w = gm_rank(mask); w < words; w += gm_popc(mask))
		gm_store32(&bits[w], 0);
	gm_syncwarp(mask);
}

/* Take empty granules away from the shards of all classes. False: there were none. */
GM_DEVICE_SLOW bool gm_granule_strip(struct gm_heap *heap)
{
	struct gm_granules *all = gm_granules_of(heap);
	bool any = false;
	for (uint32_t c = 0; c < GM_CLASSES; c++) {
		struct gm_granule_class *class_ = &all->class_[c];
		for (uint32_t s = 0; s < gm_load32(&class_->shards); s++) {
			uint32_t seen = gm_load32(&class_->shard[s]);
			if (seen == 0 || seen == GM_SHARD_BUSY ||
			    GM_USED(gm_load64(&all->slab[seen - 1].state)) != 0 ||
			    gm_cas32(&class_->shard[s], seen, 0) != seen)
				continue;
			gm_granule_deactivate(heap, seen - 1, c);
			any = true;
		}
	}
	return any;
}

/* Nothing was found for class `c`: another shard's rest, or more memory, or GM_NO_SHARD. */
GM_DEVICE_SLOW uint32_t gm_granule_exhausted(struct gm_heap *heap, uint32_t c, uint32_t s,
					     uint32_t turn)
{
	struct gm_granules *all = gm_granules_of(heap);
	struct gm_granule_class *class_ = &all->class_[c];
	uint32_t epoch = gm_load32(&heap->epoch);
	if (gm_load32(&class_->dry) != epoch + 1) {
		gm_store32(&class_->dry, epoch + 1);
		gm_store32(&all->dry, 1);
		uint32_t other = gm_granule_other_shard(heap, c, turn);
		if (other == GM_NO_SHARD && gm_granule_strip(heap))
			other = s;
		if (other != GM_NO_SHARD) {
			gm_store32(&class_->dry, 0);
			return other;
		}
	}
	return gm_span_grow(heap, 1) ? s : GM_NO_SHARD;
}

/* By one lane: mark the shard busy, and find it a granule. Without one, `*next` is where to go. */
GM_DEVICE_SLOW uint32_t gm_granule_begin(struct gm_heap *heap, uint32_t c, uint32_t s,
					 uint32_t seen, uint32_t turn, uint32_t *next)
{
	struct gm_granule_class *class_ = &gm_granules_of(heap)->class_[c];
	uint32_t *shard = &class_->shard[s], granule;
	bool fresh = false;
	if (gm_load32(&class_->dry) == gm_load32(&heap->epoch) + 1) {
		*next = gm_granule_exhausted(heap, c, s, turn);
		return GM_NO_GRANULE;
	}
	if (seen == GM_SHARD_BUSY ? turn < GM_SHARD_PATIENCE
				  : gm_cas32(shard, seen, GM_SHARD_BUSY) != seen) {
		*next = (s + 1) & (gm_load32(&class_->shards) - 1);
		gm_pause(20);
		return GM_NO_GRANULE;
	}
	granule = gm_granule_find(heap, c, s, &fresh);
	if (granule != GM_NO_GRANULE)
		return granule | (fresh ? GM_FRESH : 0);
	if (seen != GM_SHARD_BUSY && gm_cas32(shard, GM_SHARD_BUSY, seen) != GM_SHARD_BUSY && seen)
		gm_granule_deactivate(heap, seen - 1, c);
	*next = gm_granule_exhausted(heap, c, s, turn);
	return GM_NO_GRANULE;
}

/* By one lane: the granule that it found, ready to use, goes to the shard in the place of `seen`.
 */
GM_DEVICE_SLOW void gm_granule_publish(struct gm_heap *heap, uint32_t c, uint32_t s, uint32_t seen,
				       uint32_t granule, bool fresh)
{
	struct gm_granules *all = gm_granules_of(heap);
	struct gm_granule_class *class_ = &all->class_[c];
	if (fresh) {
		gm_slab_become(&all->slab[granule], GM_CLASS_IS(c + 1) | GM_ACTIVE);
		gm_granule_more_shards(class_);
	}
	if (gm_cas32(&class_->shard[s], GM_SHARD_BUSY, granule + 1) != GM_SHARD_BUSY)
		gm_granule_deactivate(heap, granule, c);
	if (seen && seen != GM_SHARD_BUSY)
		gm_granule_deactivate(heap, seen - 1, c);
}

/*
 * Shard `s` of class `c` had `seen`, which is used up: give it another granule. All lanes of `mask`
 * come, with the same arguments, for the `turn`th time. Answers the shard to try next, or
 * GM_NO_SHARD: the class has nothing left.
 */
GM_DEVICE_SLOW uint32_t gm_granule_replace(struct gm_heap *heap, uint32_t c, uint32_t s,
					   uint32_t seen, uint32_t mask, uint32_t turn)
{
	uint32_t granule = GM_NO_GRANULE, next = s;
	if (gm_lane() == gm_leader(mask))
		granule = gm_granule_begin(heap, c, s, seen, turn, &next);
	granule = gm_shfl32(mask, granule, gm_leader(mask));
	if (granule == GM_NO_GRANULE)
		return gm_shfl32(mask, next, gm_leader(mask));
	bool fresh = granule & GM_FRESH;
	granule &= ~GM_FRESH;
	if (fresh)
		gm_granule_clear(heap, c, granule, mask);
	if (gm_lane() == gm_leader(mask))
		gm_granule_publish(heap, c, s, seen, granule, fresh);
	return s;
}

#endif
