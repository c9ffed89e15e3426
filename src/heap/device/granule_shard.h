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
	uint64_t state = gm_load64(&all->slab[granule].state);
	uint32_t c = GM_CLASS(state) - 1;
	if (c >= GM_CLASSES || GM_USED(state) != 0 || state & GM_ACTIVE ||
	    gm_cas64(&all->slab[granule].state, state, 0) != state)
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
	uint64_t *word = &gm_granules_of(heap)->slab[granule].state, state = gm_load64(word), seen;
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
	if (gm_cas32_relaxed(&class_->shard[s], 0, granule + 1) != 0)
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
	uint32_t slots = class_->slots, roomy = slots - (slots >> 3);
	if (before > roomy && now <= roomy) {
		if (gm_slab_activate(heap, granule, c)) {
			if (gm_slab_place(class_, &all->slab[granule], granule)) {
				gm_granule_doubt(class_);
				return;
			}
			/* Lanes that freed meanwhile took it for active, and did not offer it. */
			now = GM_USED(gm_and64(&all->slab[granule].state, ~GM_ACTIVE));
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

/* Slots of an active granule became free: it has room again, or it is empty. */
GM_DEVICE void gm_slab_lighter(const struct gm_granules *all, struct gm_granule_class *class_,
			       uint32_t granule, bool room, bool empty)
{
	if (room) {
		gm_room_put(class_, gm_load32(&all->slab[granule].shard));
		gm_granule_doubt(class_);
	}
	if (empty && !(gm_load64(&all->hollow.word[granule >> 6]) >> (granule & 63) & 1))
		gm_bits_put(&all->hollow, granule);
}

/* Subtract `count` from the slots in use or reserved; the bits are clear already. All frees call
 * this, so it reads words of the class only if a granule has room again, or is empty. */
GM_DEVICE void gm_slab_drop(struct gm_heap *heap, uint32_t granule, uint32_t count)
{
	struct gm_granules *all = gm_granules_of(heap);
	uint64_t old = gm_add64_freed(&all->slab[granule].state, 0ull - count);
	uint32_t c = GM_CLASS(old) - 1, used = GM_USED(old), now = used - count;
	if (c >= GM_CLASSES)
		return;
	struct gm_granule_class *class_ = &all->class_[c];
	uint32_t slots = gm_load32_cached(&class_->slots), roomy = slots - (slots >> 3);
	if (!(old & GM_ACTIVE) &&
	    (now == 0 || (used > roomy && now <= roomy) || (used >= slots && now < slots)))
		gm_slab_offer(heap, granule, c, used, now);
	if (old & GM_ACTIVE)
		gm_slab_lighter(all, class_, granule, used >= slots && now < slots, now == 0);
	if (now == 0)
		gm_granule_announce(heap);
}

/* --- another granule for a shard --- */

GM_DEVICE void gm_granule_deactivate(struct gm_heap *heap, uint32_t granule, uint32_t c)
{
	struct gm_granules *all = gm_granules_of(heap);
	uint64_t old = gm_and64(&all->slab[granule].state, ~GM_ACTIVE);
	if (GM_USED(old) < all->class_[c].slots)
		gm_slab_offer(heap, granule, c, ~0u, GM_USED(old));
}

/* Take a granule from a set of the class, and make it active; GM_NO_GRANULE: there is none. */
GM_DEVICE uint32_t gm_granule_claim(struct gm_heap *heap, const struct gm_bits *set, uint32_t c,
				    uint32_t seed)
{
	for (;;) {
		uint32_t granule = gm_bits_take(set, gm_span_reach(heap), seed);
		/* The bit may be stale: a granule that has left the class is dropped. */
		if (granule == GM_NO_GRANULE || gm_slab_activate(heap, granule, c))
			return granule;
	}
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
 * By one lane: `lanes` more found no slot in the class. As many shards bring granules as all
 * waiting lanes need, so that granules arrive at once and not one by one. Small blocks of very many
 * lanes would fit into one granule, and all mallocs and frees would share its one word. So there is
 * a shard for each GM_SHARD_LANES of these lanes, as far as free granules last.
 */
GM_DEVICE void gm_granule_wanted(struct gm_heap *heap, uint32_t c, uint32_t lanes)
{
	struct gm_granule_class *class_ = &gm_granules_of(heap)->class_[c];
	uint32_t waiting = gm_add32(&class_->waiting, lanes) + lanes;
	uint32_t wanted = waiting / class_->slots + 1, spread = waiting / GM_SHARD_LANES;
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

/* Take a free granule, or an empty one of any class. */
GM_DEVICE uint32_t gm_granule_take_fresh(struct gm_heap *heap, uint32_t seed)
{
	uint32_t granule = gm_span_take_one(heap, seed);
	while (granule == GM_NO_GRANULE) {
		uint32_t empty =
			gm_bits_take(&gm_granules_of(heap)->empty, gm_span_reach(heap), seed);
		if (empty == GM_NO_GRANULE)
			return empty;
		if (gm_slab_retire(heap, empty))
			granule = empty;
	}
	return granule;
}

/* By the lane that has marked the shard busy: find a granule for it. Returns it, with GM_FRESH if
 * it was free; or GM_NO_GRANULE. */
GM_DEVICE_SLOW uint32_t gm_granule_find(struct gm_heap *heap, uint32_t c, uint32_t seed)
{
	struct gm_granule_class *class_ = &gm_granules_of(heap)->class_[c];
	uint32_t granule = gm_granule_claim(heap, &class_->roomy, c, seed);
	if (granule != GM_NO_GRANULE)
		return granule;
	granule = gm_granule_take_fresh(heap, seed);
	if (granule != GM_NO_GRANULE)
		return granule | GM_FRESH;
	return gm_granule_claim(heap, &class_->ragged, c, seed);
}

/* By all lanes of `mask`: clear the bitmap of a fresh granule. */
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

/* By one lane: take the granule out of shard `s` of class `c`, if it is empty. */
GM_DEVICE bool gm_granule_strip_one(struct gm_heap *heap, uint32_t c, uint32_t s)
{
	struct gm_granules *all = gm_granules_of(heap);
	uint32_t *shard = &all->class_[c].shard[s], seen = gm_load32(shard);
	if (seen == 0 || seen == GM_SHARD_BUSY ||
	    GM_USED(gm_load64(&all->slab[seen - 1].state)) != 0 || gm_cas32(shard, seen, 0) != seen)
		return false;
	/* Not gm_granule_deactivate: it would put the granule into a shard of the class again. */
	uint64_t old = gm_and64(&all->slab[seen - 1].state, ~GM_ACTIVE);
	if (GM_USED(old) == 0)
		gm_bits_put(&all->empty, seen - 1);
	else if (GM_USED(old) < all->class_[c].slots)
		gm_slab_offer(heap, seen - 1, c, ~0u, GM_USED(old));
	return true;
}

/*
 * By all lanes of `mask`: take empty granules out of shards of any class, in at most `most` rounds
 * that find one. False: there were none.
 */
GM_DEVICE_SLOW bool gm_granule_strip(struct gm_heap *heap, uint32_t mask, uint32_t most)
{
	struct gm_granules *all = gm_granules_of(heap);
	uint32_t any = 0;
	for (uint32_t c = 0; c < GM_CLASSES && any < most; c++) {
		/* The number of shards in use; 0: the class never had a granule. */
		bool known = gm_load64(&all->known[c >> 6]) >> (c & 63) & 1;
		uint32_t shards = known ? gm_granule_shards(&all->class_[c]) : 0;
		shards = gm_shfl32(mask, shards, gm_leader(mask));
		for (uint32_t from = 0; from < shards && any < most; from += gm_popc(mask)) {
			uint32_t s = from + gm_rank(mask);
			any += gm_ballot(mask, s < shards && gm_granule_strip_one(heap, c, s)) != 0;
		}
	}
	if (any && gm_lane() == gm_leader(mask))
		gm_add32(&heap->epoch, 1);
	return any;
}

/* By one lane: take an empty granule out of its shard, found without a search. False: none is
 * known. */
GM_DEVICE_SLOW bool gm_granule_strip_hollow(struct gm_heap *heap, uint32_t seed)
{
	struct gm_granules *all = gm_granules_of(heap);
	for (;;) {
		uint32_t granule = gm_bits_take(&all->hollow, gm_span_reach(heap), seed);
		if (granule == GM_NO_GRANULE)
			return false;
		uint64_t state = gm_load64(&all->slab[granule].state);
		if (GM_CLASS(state) - 1 < GM_CLASSES && state & GM_ACTIVE && GM_USED(state) == 0 &&
		    gm_granule_strip_one(heap, GM_CLASS(state) - 1,
					 gm_load32(&all->slab[granule].shard))) {
			gm_add32(&heap->epoch, 1);
			return true;
		}
	}
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
			seen = gm_load32(&class_->shard[s]);
		if (seen == GM_SHARD_BUSY)
			has = turn < GM_CLASS_PATIENCE;
		else if (seen)
			has = GM_USED(gm_load64(&all->slab[seen - 1].state)) < slots;
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

/*
 * By one lane: mark the shard busy, and find a granule for it. Returns it, as gm_granule_find;
 * GM_ANY_SHARD: another lane is bringing one; GM_NO_SHARD: none was found.
 */
GM_DEVICE_SLOW uint32_t gm_granule_begin(struct gm_heap *heap, uint32_t c, uint32_t s,
					 uint32_t seen, uint32_t turn)
{
	struct gm_granule_class *class_ = &gm_granules_of(heap)->class_[c];
	uint32_t *shard = &class_->shard[s], granule;
	bool wait = seen == GM_SHARD_BUSY && turn < GM_SHARD_PATIENCE;
	if (gm_load32(&class_->dry) == GM_DRY(gm_load32(&heap->epoch)))
		return GM_NO_SHARD;
	/* A busy shard means that a lane is bringing a granule: wait for it. */
	if (!wait && !gm_granule_in_sets(heap, c))
		return GM_NO_SHARD;
	if (wait || (seen != GM_SHARD_BUSY && gm_cas32(shard, seen, GM_SHARD_BUSY) != seen)) {
		gm_pause(50);
		return GM_ANY_SHARD;
	}
	granule = gm_granule_find(heap, c, s);
	if (granule == GM_NO_GRANULE && seen != GM_SHARD_BUSY &&
	    gm_cas32(shard, GM_SHARD_BUSY, seen) != GM_SHARD_BUSY && seen)
		gm_granule_deactivate(heap, seen - 1, c);
	return granule;
}

/* By all lanes of `mask`: search everything for class `c`. Returns the shard to try, or
 * GM_NO_SHARD. */
GM_DEVICE_SLOW uint32_t gm_granule_scan(struct gm_heap *heap, uint32_t c, uint32_t turn,
					uint32_t mask)
{
	uint32_t leader = gm_leader(mask), epoch = gm_load32(&heap->epoch), again = 0, other;
	if (gm_lane() == leader) {
		gm_store32(&gm_granules_of(heap)->dry, 1);
		again = gm_granule_in_sets(heap, c);
	}
	if (gm_shfl32(mask, again, leader))
		return GM_ANY_SHARD;
	other = gm_granule_find_shard(heap, c, turn, mask);
	if (other == GM_NO_SHARD && gm_granule_strip(heap, mask, 1))
		return GM_ANY_SHARD;
	/* A granule moved between places, and the search may have missed it in both. */
	if (other == GM_NO_SHARD && gm_ballot(mask, gm_load32(&heap->epoch) != epoch))
		return GM_ANY_SHARD;
	return other;
}

/* By one lane: the place of a slot for class `c` by the summaries: a shard, GM_ANY_SHARD, or
 * GM_NO_SHARD. */
GM_DEVICE_SLOW uint32_t gm_granule_hint(struct gm_heap *heap, uint32_t c)
{
	struct gm_granule_class *class_ = &gm_granules_of(heap)->class_[c];
	uint32_t near = gm_granule_near(GM_SHARDS), s;
	if (gm_load32(&class_->dry) == GM_DRY(gm_load32(&heap->epoch)))
		return GM_NO_SHARD;
	if (gm_granule_in_sets(heap, c))
		return GM_ANY_SHARD;
	s = gm_room_find(class_, near);
	if (s == GM_NO_SHARD && gm_granule_strip_hollow(heap, near))
		return GM_ANY_SHARD;
	return s;
}

/* By all lanes of `mask`: search everything for class `c`, unless that was done since a slot became
 * free. Returns the shard to try next, or GM_NO_SHARD. Only when the heap cannot grow: else lanes
 * would search a heap in which slots become free all the time. */
GM_DEVICE_SLOW uint32_t gm_granule_search_all(struct gm_heap *heap, uint32_t c, uint32_t turn,
					      uint32_t mask)
{
	struct gm_granule_class *class_ = &gm_granules_of(heap)->class_[c];
	uint32_t leader = gm_leader(mask), dry = 0, epoch = 0, next = GM_NO_SHARD;
	uint32_t search = (uint32_t)gm_nanoseconds() << 1 | 2;
	bool searches = false;
	if (gm_lane() == leader) {
		epoch = gm_load32(&heap->epoch);
		dry = gm_load32(&class_->dry);
		searches = (dry == 0 || dry & 1) && dry != GM_DRY(epoch) &&
			   gm_cas32(&class_->dry, dry, search) == dry;
	}
	if (!gm_ballot(mask, gm_lane() == leader && dry == GM_DRY(epoch)))
		next = gm_granule_scan(heap, c, turn, mask);
	if (searches)
		gm_cas32(&class_->dry, search, next == GM_NO_SHARD ? GM_DRY(epoch) : 0);
	return next;
}

/* Granules that all lanes waiting for the class could use. */
GM_DEVICE uint32_t gm_granule_wish(struct gm_heap *heap, uint32_t c)
{
	const struct gm_granule_class *class_ = &gm_granules_of(heap)->class_[c];
	uint32_t waiting = gm_load32(&class_->waiting);
	return (int32_t)waiting < 0 ? 1 : waiting / class_->slots + 1;
}

/*
 * By all lanes of `mask`: no granule was found for class `c`. Returns the shard to try next; plus
 * GM_SHARDS if only slots that others freed were found; or GM_NO_SHARD: summaries show none, and
 * the host grants no more.
 */
GM_DEVICE_SLOW uint32_t gm_granule_exhausted(struct gm_heap *heap, uint32_t c, uint32_t mask)
{
	uint32_t leader = gm_leader(mask), next = GM_NO_SHARD, epoch = gm_load32(&heap->epoch);
	if (gm_lane() == leader)
		next = gm_granule_hint(heap, c);
	next += next < GM_SHARDS ? GM_SHARDS : 0;
	next = gm_shfl32(mask, next, leader);
	if (next != GM_NO_SHARD)
		return next;
	bool more = gm_lane() == leader && gm_span_grow(heap, 1, gm_granule_wish(heap, c), epoch);
	return gm_ballot(mask, more) ? GM_ANY_SHARD : GM_NO_SHARD;
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

/* By one lane: put the granule that was found into the shard, in the place of `seen`. */
GM_DEVICE_SLOW void gm_granule_publish(struct gm_heap *heap, uint32_t c, uint32_t s, uint32_t seen,
				       uint32_t granule, bool fresh)
{
	struct gm_granules *all = gm_granules_of(heap);
	struct gm_granule_class *class_ = &all->class_[c];
	gm_store32(&all->slab[granule].shard, s);
	if (fresh) {
		gm_slab_become(&all->slab[granule], GM_CLASS_IS(c + 1) | GM_ACTIVE);
		if (!(gm_load64(&all->known[c >> 6]) >> (c & 63) & 1))
			gm_or64(&all->known[c >> 6], 1ull << (c & 63));
	}
	if (gm_cas32(&class_->shard[s], GM_SHARD_BUSY, granule + 1) != GM_SHARD_BUSY)
		gm_granule_deactivate(heap, granule, c);
	else
		gm_room_put(class_, s);
	if (seen && seen != GM_SHARD_BUSY)
		gm_granule_deactivate(heap, seen - 1, c);
}

/*
 * By all lanes of `mask`, with the same arguments, for the `turn`th time: the granule `seen` of
 * shard `s` is full, so bring another. Returns the shard to try next, as gm_granule_exhausted;
 * GM_ANY_SHARD; or GM_NO_SHARD: the heap cannot grow, and gm_granule_search_all may find a slot.
 */
GM_DEVICE_SLOW uint32_t gm_granule_replace(struct gm_heap *heap, uint32_t c, uint32_t s,
					   uint32_t seen, uint32_t mask, uint32_t turn)
{
	uint32_t granule = GM_NO_GRANULE;
	if (gm_lane() == gm_leader(mask))
		granule = gm_granule_begin(heap, c, s, seen, turn);
	granule = gm_shfl32(mask, granule, gm_leader(mask));
	if (granule == GM_NO_SHARD)
		return gm_granule_exhausted(heap, c, mask);
	if (granule == GM_ANY_SHARD)
		return granule;
	bool fresh = granule & GM_FRESH;
	granule &= ~GM_FRESH;
	if (fresh)
		gm_granule_clear(heap, c, granule, mask);
	if (gm_lane() == gm_leader(mask))
		gm_granule_publish(heap, c, s, seen, granule, fresh);
	return s;
}

#endif
