/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lower half of policy `granule` (granule.h): the place of a granule whose slots become free,
 * and the way a shard gets another granule.
 */
#ifndef GM_HEAP_DEVICE_GRANULE_SHARD_H
#define GM_HEAP_DEVICE_GRANULE_SHARD_H

#include "heap/device/granule_class.h"

/* --- a granule with slots that became free --- */

/* Take an empty granule from its class; false: it is in use again, or another lane took it. */
GM_DEVICE bool gm_slab_retire(struct gm_heap *heap, uint32_t granule)
{
	struct gm_granules *all = gm_granules_of(heap);
	uint64_t state = gm_load64(&gm_slab_of(heap, granule)->state);
	uint32_t c = GM_CLASS(state) - 1;
	if (c >= GM_CLASSES || GM_USED(state) != 0 || state & GM_ACTIVE ||
	    gm_cas64(&gm_slab_of(heap, granule)->state, state, 0) != state)
		return false;
	gm_bits_remove(&all->class_[c].ragged, granule);
	gm_bits_remove(&all->class_[c].roomy, granule);
	return true;
}

/* Make a granule of class `c` active; false: it is active, or of another class. Relaxed, as is
 * gm_slab_enter: an order costs more than the exchange, and the caller's next write, into a set,
 * orders both. */
GM_DEVICE bool gm_slab_activate(struct gm_heap *heap, uint32_t granule, uint32_t c)
{
	uint64_t *word = &gm_slab_of(heap, granule)->state, state = gm_load64(word), seen;
	for (; GM_CLASS(state) == c + 1 && !(state & GM_ACTIVE); state = seen)
		if ((seen = gm_cas64_relaxed(word, state, state | GM_ACTIVE)) == state)
			return true;
	return false;
}

/* Put an active granule into shard `s`, unless that holds one. */
GM_DEVICE bool gm_slab_enter(struct gm_granule_class *class_, struct gm_slab *slab,
			     uint32_t granule, uint32_t s)
{
	gm_store32(&slab->shard, s);
	if (gm_cas32_relaxed(gm_shard_of(class_, s), 0, granule + 1) != 0)
		return false;
	gm_room_put(class_, s);
	return true;
}

/* Put an active granule into an unused shard, or a further one. False: there are too many. Lanes
 * that do this at once each add one: none waits for another. */
GM_DEVICE bool gm_slab_place(struct gm_granule_class *class_, struct gm_slab *slab,
			     uint32_t granule)
{
	uint32_t own = gm_load32(&class_->own), shards = gm_granule_shards(class_);
	if (shards > own && gm_slab_enter(class_, slab, granule, own + granule % (shards - own)))
		return true;
	if (shards == GM_SHARDS)
		return false;
	uint32_t further = gm_add32(&class_->shards, 1);
	return further < GM_SHARDS && gm_slab_enter(class_, slab, granule, further);
}

/* A granule is empty: classes that are dry search again. */
GM_DEVICE void gm_granule_announce(struct gm_heap *heap)
{
	struct gm_granules *all = gm_granules_of(heap);
	if (gm_load32(&all->dry) == 0)
		return;
	gm_store32(&all->dry, 0);
	gm_add32(&heap->epoch, 1);
}

/* A slot of the class became free that a search may have missed, and can be found now: drop the
 * result of the search. */
GM_DEVICE void gm_granule_doubt(struct gm_granule_class *class_)
{
	if (gm_load32(&class_->dry) != 0)
		gm_store32(&class_->dry, 0);
}

/* An inactive granule had `before` slots in use, and has `now`: put it into a set or a shard. */
GM_DEVICE_SLOW void gm_slab_offer(struct gm_heap *heap, uint32_t granule, uint32_t c,
				  uint32_t before, uint32_t now)
{
	struct gm_granules *all = gm_granules_of(heap);
	struct gm_granule_class *class_ = &all->class_[c];
	uint32_t slots = class_->slots, roomy = gm_granule_roomy(slots);
	if (before > roomy && now <= roomy) {
		if (gm_slab_activate(heap, granule, c)) {
			if (gm_slab_place(class_, gm_slab_of(heap, granule), granule)) {
				gm_granule_doubt(class_);
				return;
			}
			/* Lanes that freed meanwhile took it for active, and did not offer it. */
			now = GM_USED(gm_and64(&gm_slab_of(heap, granule)->state, ~GM_ACTIVE));
		}
		gm_bits_put(&class_->roomy, granule);
	}
	if (before >= slots && now < slots)
		gm_bits_put(&class_->ragged, granule);
	gm_granule_doubt(class_);
	if (now == 0) {
		gm_bits_put(&all->empty, granule);
		gm_granule_announce(heap);
	}
}

/* Can the heap get no memory at present? */
GM_DEVICE bool gm_granule_is_limited(const struct gm_heap *heap)
{
	return heap->low == 0 || gm_load64(&heap->refused) != 0;
}

/*
 * Slots of an active granule became free. Lanes are told when it has room again, not of each slot:
 * blocks that other lanes free in the order of their allocation would else make full granules
 * change between full and not full with each one, and all lanes would meet at the set of shards
 * with room. In a heap that cannot grow each slot counts.
 */
GM_DEVICE_SLOW void gm_slab_lighter(struct gm_heap *heap, uint32_t granule, uint32_t c,
				    uint32_t before, uint32_t now)
{
	struct gm_granules *all = gm_granules_of(heap);
	struct gm_granule_class *class_ = &all->class_[c];
	uint32_t slots = class_->slots, roomy = gm_granule_roomy(slots);
	bool room = before > roomy && now <= roomy, any = before >= slots && now < slots;
	if (room || (any && gm_granule_is_limited(heap)))
		gm_room_put(class_, gm_load32(&gm_slab_of(heap, granule)->shard));
	if (any)
		gm_granule_doubt(class_);
	if (now == 0 && !(gm_load64(&all->hollow.word[granule >> 6]) >> (granule & 63) & 1))
		gm_bits_put(&all->hollow, granule);
}

/* Subtract `count` from the slots in use or reserved; the bits are clear already. All frees call
 * this, so it reads words of the class only if a granule has room again, or is empty. */
GM_DEVICE void gm_slab_drop(struct gm_heap *heap, uint32_t granule, uint32_t count)
{
	struct gm_granules *all = gm_granules_of(heap);
	uint64_t old = gm_add64_freed(&gm_slab_of(heap, granule)->state, 0ull - count);
	uint32_t c = GM_CLASS(old) - 1, used = GM_USED(old), now = used - count;
	if (c >= GM_CLASSES)
		return;
	uint32_t slots = gm_load32_cached(&all->class_[c].slots), roomy = gm_granule_roomy(slots);
	if (now != 0 && !(used > roomy && now <= roomy) && !(used >= slots && now < slots))
		return;
	if (old & GM_ACTIVE)
		gm_slab_lighter(heap, granule, c, used, now);
	else
		gm_slab_offer(heap, granule, c, used, now);
	if (now == 0)
		gm_granule_announce(heap);
}

/* --- another granule for a shard --- */

GM_DEVICE_SLOW void gm_granule_deactivate(struct gm_heap *heap, uint32_t granule, uint32_t c)
{
	struct gm_granules *all = gm_granules_of(heap);
	uint64_t old = gm_and64(&gm_slab_of(heap, granule)->state, ~GM_ACTIVE);
	if (GM_USED(old) < all->class_[c].slots)
		gm_slab_offer(heap, granule, c, ~0u, GM_USED(old));
}

/* Raise a word to at least `least`. */
GM_DEVICE void gm_granule_raise(uint32_t *word, uint32_t least)
{
	uint32_t value = gm_load32(word), seen;
	for (; value < least; value = seen)
		if ((seen = gm_cas32(word, value, least)) == value)
			return;
}

/*
 * By one lane of the warp at `seat` of its grid: `lanes` more found no slot in the class. As many
 * shards bring granules as all waiting lanes need, so that granules arrive at once and not one by
 * one. Small blocks of very many warps would fit into one granule, and all mallocs and frees would
 * meet at its one word. So there is a shard for each GM_SHARD_WARPS warps, as far as free granules
 * last. A high seat says that the grid has many.
 */
GM_DEVICE void gm_granule_wanted(struct gm_heap *heap, uint32_t c, uint32_t lanes, uint32_t seat)
{
	struct gm_granule_class *class_ = &gm_granules_of(heap)->class_[c];
	uint32_t waiting = gm_add32(&class_->waiting, lanes) + lanes;
	uint32_t wanted = waiting / class_->slots + 1, spread = seat / GM_SHARD_WARPS + 1;
	uint64_t available = gm_load64(&heap->available), few = available / GM_SHARD_FEW;
	uint64_t most = available / GM_SHARD_PLENTY;
	few = few < GM_SHARD_SPREAD ? few : GM_SHARD_SPREAD;
	most = most < few ? few : most;
	spread = spread < most ? spread : (uint32_t)most;
	wanted = wanted < spread ? spread : wanted;
	wanted = wanted < GM_SHARDS ? wanted : GM_SHARDS;
	if (gm_load32(&class_->own) < wanted) {
		gm_granule_raise(&class_->shards, wanted);
		gm_granule_raise(&class_->own, wanted);
	}
}

/* `lanes` of the waiting lanes have a slot, or gave up. */
GM_DEVICE void gm_granule_served(struct gm_heap *heap, uint32_t c, uint32_t lanes)
{
	gm_add32(&gm_granules_of(heap)->class_[c].waiting, 0u - lanes);
}

/* By all lanes of `mask`: clear the bitmap of a fresh granule. */
GM_DEVICE_SLOW void gm_granule_clear(struct gm_heap *heap, uint32_t c, uint32_t granule,
				     uint32_t mask)
{
	struct gm_granules *all = gm_granules_of(heap);
	uint32_t header = all->class_[c].header;
	uint32_t words = header ? (all->class_[c].slots + 31) >> 5 : GM_SLAB_BITS / 32;
	uint32_t *bits = gm_granule_bits(heap, gm_slab_of(heap, granule), granule, header);
	for (uint32_t w = gm_rank(mask); w < words; w += gm_popc(mask))
		gm_store32(&bits[w], 0);
	gm_syncwarp(mask);
}

/* By one lane: take the granule out of shard `s` of class `c`, if it is empty. */
GM_DEVICE bool gm_granule_strip_one(struct gm_heap *heap, uint32_t c, uint32_t s)
{
	struct gm_granules *all = gm_granules_of(heap);
	uint32_t *shard = gm_shard_of(&all->class_[c], s), seen = gm_load32(shard);
	if (seen == 0 || seen == GM_SHARD_BUSY ||
	    GM_USED(gm_load64(&gm_slab_of(heap, seen - 1)->state)) != 0 ||
	    gm_cas32(shard, seen, 0) != seen)
		return false;
	/* Not gm_granule_deactivate: it would put the granule into a shard of the class again. */
	uint64_t old = gm_and64(&gm_slab_of(heap, seen - 1)->state, ~GM_ACTIVE);
	if (GM_USED(old) == 0) {
		/* A lane that saw it there may still take a slot: then the class keeps it. */
		gm_bits_put(&all->class_[c].roomy, seen - 1);
		gm_granule_doubt(&all->class_[c]);
		gm_bits_put(&all->empty, seen - 1);
	} else if (GM_USED(old) < all->class_[c].slots) {
		gm_slab_offer(heap, seen - 1, c, ~0u, GM_USED(old));
	}
	return true;
}

/* A place in a search of all shards. */
struct gm_granule_sweep {
	uint32_t c, from; /* the class, and a number of shards of it */
	uint32_t s;	  /* the lane's shard there, which had an empty granule; or GM_NO_SHARD */
};

/* By all lanes of `mask`: search on for empty granules in shards. False: that was all. */
GM_DEVICE bool gm_granule_sweep(const struct gm_heap *heap, uint32_t mask,
				struct gm_granule_sweep *sweep)
{
	struct gm_granules *all = gm_granules_of(heap);
	for (uint32_t c = sweep->c; c < GM_CLASSES; c++) {
		struct gm_granule_class *class_ = &all->class_[c];
		/* The number of shards in use; 0: the class never had a granule. */
		bool known = gm_load64(&all->known[c >> 6]) >> (c & 63) & 1;
		uint32_t shards = known ? gm_granule_shards(class_) : 0;
		shards = gm_shfl32(mask, shards, gm_leader(mask));
		for (uint32_t from = c == sweep->c ? sweep->from : 0; from < shards;) {
			uint32_t s = from + gm_rank(mask);
			uint32_t seen = s < shards ? gm_load32(gm_shard_of(class_, s)) : 0;
			bool empty = seen && seen != GM_SHARD_BUSY &&
				     GM_USED(gm_load64(&gm_slab_of(heap, seen - 1)->state)) == 0;
			from += gm_popc(mask);
			if (gm_ballot(mask, empty)) {
				*sweep =
					(struct gm_granule_sweep){c, from, empty ? s : GM_NO_SHARD};
				return true;
			}
		}
	}
	return false;
}

/* By all lanes of `mask`: take all empty granules out of the shards of all classes. */
GM_DEVICE_SLOW void gm_granule_strip(struct gm_heap *heap, uint32_t mask)
{
	struct gm_granule_sweep sweep = {0, 0, GM_NO_SHARD};
	bool any = false;
	while (gm_granule_sweep(heap, mask, &sweep))
		any |= sweep.s != GM_NO_SHARD && gm_granule_strip_one(heap, sweep.c, sweep.s);
	if (gm_ballot(mask, any) && gm_lane() == gm_leader(mask))
		gm_add32(&heap->epoch, 1);
}

/* By one lane: an active granule that was empty, found without a search; or GM_NO_GRANULE. */
GM_DEVICE uint32_t gm_granule_draw_hollow(struct gm_heap *heap, uint32_t seed)
{
	for (;;) {
		uint32_t granule =
			gm_bits_take(&gm_granules_of(heap)->hollow, gm_span_reach(heap), seed);
		if (granule == GM_NO_GRANULE)
			return granule;
		uint64_t state = gm_load64(&gm_slab_of(heap, granule)->state);
		if (GM_CLASS(state) - 1 < GM_CLASSES && state & GM_ACTIVE && GM_USED(state) == 0)
			return granule;
	}
}

/* By one lane: take such a granule out of its shard. False: it is in use again. */
GM_DEVICE bool gm_granule_strip_found(struct gm_heap *heap, uint32_t granule)
{
	const struct gm_slab *slab = gm_slab_of(heap, granule);
	uint32_t c = GM_CLASS(gm_load64(&slab->state)) - 1;
	if (c >= GM_CLASSES || !gm_granule_strip_one(heap, c, gm_load32(&slab->shard)))
		return false;
	gm_add32(&heap->epoch, 1);
	return true;
}

/* Return all empty granules to the heap; false: there were none. */
GM_DEVICE_SLOW bool gm_granule_retire_all(struct gm_heap *heap)
{
	bool any = false;
	uint32_t granule;
	while ((granule = gm_bits_take(&gm_granules_of(heap)->empty, heap->summaries, 0)) !=
	       GM_NO_GRANULE)
		if (gm_slab_retire(heap, granule)) {
			gm_span_give(heap, granule, 1);
			any = true;
		}
	return any;
}

/* By all lanes of `mask`: a shard of the class with a free slot, or a busy one; or GM_NO_SHARD. */
GM_DEVICE_SLOW uint32_t gm_granule_find_shard(struct gm_heap *heap, uint32_t c, uint32_t turn,
					      uint32_t mask)
{
	struct gm_granules *all = gm_granules_of(heap);
	struct gm_granule_class *class_ = &all->class_[c];
	uint32_t slots = class_->slots;
	uint32_t shards = gm_shfl32(mask, gm_granule_shards(class_), gm_leader(mask));
	for (uint32_t from = 0; from < shards; from += gm_popc(mask)) {
		uint32_t s = from + gm_rank(mask), seen = 0;
		bool has = false;
		if (s < shards)
			seen = gm_load32(gm_shard_of(class_, s));
		if (seen == GM_SHARD_BUSY)
			has = turn < GM_CLASS_PATIENCE;
		else if (seen)
			has = GM_USED(gm_load64(&gm_slab_of(heap, seen - 1)->state)) < slots;
		uint32_t found = gm_ballot(mask, has);
		if (found)
			return gm_shfl32(mask, s, gm_ctz(found));
	}
	return GM_NO_SHARD;
}

/* By one lane: may a set hold a granule for the class? */
GM_DEVICE bool gm_granule_in_sets(struct gm_heap *heap, uint32_t c)
{
	const struct gm_granules *all = gm_granules_of(heap);
	const struct gm_granule_class *class_ = &all->class_[c];
	uint32_t n = gm_span_reach(heap);
	return gm_bits_any(&heap->free, n) || gm_bits_any(&all->empty, n) ||
	       gm_bits_any(&class_->roomy, n) || gm_bits_any(&class_->ragged, n);
}

/* Granules that all lanes waiting for the class could use. */
GM_DEVICE uint32_t gm_granule_wish(struct gm_heap *heap, uint32_t c)
{
	const struct gm_granule_class *class_ = &gm_granules_of(heap)->class_[c];
	uint32_t waiting = gm_load32(&class_->waiting);
	return (int32_t)waiting < 0 ? 1 : waiting / class_->slots + 1;
}

/* By one lane: lanes that are not served for some turns use slots that others free, as those of a
 * churn do. They may never find the heap empty, so they ask for granules without waiting. */
GM_DEVICE_SLOW void gm_granule_ask(struct gm_heap *heap, uint32_t c)
{
	if (heap->low == 0)
		return;
	gm_span_wish(heap, gm_granule_wish(heap, c));
	gm_span_ask_ahead(heap);
}

/* By one lane: put the granule, with GM_FRESH if it is, into the shard.
 * False: a lane that waited for long has put another there. */
GM_DEVICE_SLOW bool gm_granule_publish(struct gm_heap *heap, uint32_t c, uint32_t s,
				       uint32_t granule)
{
	struct gm_granules *all = gm_granules_of(heap);
	struct gm_granule_class *class_ = &all->class_[c];
	struct gm_slab *slab = gm_slab_of(heap, granule & ~GM_FRESH);
	gm_store32(&slab->shard, s);
	if (granule & GM_FRESH) {
		gm_slab_become(slab, GM_CLASS_IS(c + 1) | GM_ACTIVE);
		if (!(gm_load64(&all->known[c >> 6]) >> (c & 63) & 1))
			gm_or64(&all->known[c >> 6], 1ull << (c & 63));
		granule &= ~GM_FRESH;
	}
	if (gm_cas32(gm_shard_of(class_, s), GM_SHARD_BUSY, granule + 1) != GM_SHARD_BUSY)
		return false;
	gm_room_put(class_, s);
	return true;
}

#endif
