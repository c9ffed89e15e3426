/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `granule`: every granule is cut into slots of one size class, or is part of a run.
 *
 *   class   multiples of 16 B to 256 B, then eight sizes a doubling, to 1 MiB; above: runs. All are
 *           multiples of 16 B, as blocks are 16-byte aligned; powers of two are among them
 *   slot    one allocation; a bit of the granule's bitmap, set while in use. The bitmap lies in
 *           the granule's first slots, or, if at most GM_SLAB_BITS fit, in its slab record
 *   shard   a place of a class that holds one granule to allocate from; lanes spread over the
 *           shards of their class by their warp's place in the grid. The first `own` shards, as
 *           many as the waiting lanes need, bring new granules to the class. A granule outside
 *           of all shards that got free slots is put into a further shard
 *   active  a granule in a shard
 *   roomy   not active, at least 1/8 free; ragged: not active, not full; empty: no slot in
 *           use. An empty granule remains in its class until another class, or the host, needs it
 *
 * The lanes of a warp that need the same class reserve their slots together, by one addition to the
 * granule's count and cursor. A reserved slot exists, so each lane finds a clear bit, usually at
 * the cursor. The cursor makes a fresh granule a bump allocator (Gallatin: McCoy, Pandey, PPoPP
 * 2024). The count lies in the same word, and shows when a granule is empty and may change its
 * class. Bits are reused one by one (chunk masks of Ouroboros: Winter et al., ICS 2020; slabs of
 * LLVM's GPU allocator).
 */
#ifndef GM_HEAP_DEVICE_GRANULE_H
#define GM_HEAP_DEVICE_GRANULE_H

#include "heap/device/granule_shard.h"

/* --- allocation --- */

/* The granule in shard `s` has no slot left: `got` were reserved, and `more` were missing. */
GM_DEVICE_SLOW void gm_granule_drained(struct gm_heap *heap, uint32_t c, uint32_t s,
				       uint32_t granule, uint32_t got, uint32_t more)
{
	if (got)
		gm_room_remove(gm_granules_of(heap), c, s);
	if (more)
		gm_slab_drop(heap, granule, more);
}

/*
 * Reserve `count` slots of the granule in shard `s`, which may have fewer. Returns the granule's
 * state before, and GM_RESERVED; 0: none was reserved. `*seen`: the shard's word, with the granule.
 * `check`: read first whether there are any, as many lanes may try.
 */
GM_DEVICE uint64_t gm_granule_reserve(struct gm_heap *heap, uint32_t c, uint32_t s, uint32_t count,
				      bool check, uint32_t *seen)
{
	struct gm_granules *all = gm_granules_of(heap);
	*seen = s == GM_NO_SHARD ? 0 : gm_load32_address(&all->class_[c].shard[s]);
	if (*seen == 0 || *seen == GM_SHARD_BUSY) {
		if (check && s != GM_NO_SHARD)
			gm_room_missed(all, c, s);
		return 0;
	}
	uint64_t *state = &all->slab[*seen - 1].state;
	if (check && GM_USED(gm_load64(state)) >= gm_load32_cached(&all->class_[c].slots)) {
		gm_room_missed(all, c, s);
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
	uint32_t *bits =
		gm_granule_bits(heap, &gm_granules_of(heap)->slab[granule], granule, header);
	uint32_t slot = gm_granule_slot(class_, bits, cursor, mask);
	return gm_span_address(heap, granule) + (header + slot * gm_load32_cached(&class_->size));
}

/* Return all empty granules to the heap; false: there were none. */
GM_DEVICE bool gm_granule_retire_all(struct gm_heap *heap)
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

/* `count` granules were not found: wait for the host, which gets the number that all lanes waiting
 * for runs need. False: it has no more. */
GM_DEVICE_SLOW bool gm_granule_grow_run(struct gm_heap *heap, uint32_t count, uint32_t epoch)
{
	uint32_t *waiting = &gm_granules_of(heap)->run_granules;
	bool more = gm_span_grow(heap, count, gm_add32(waiting, count) + count, epoch);
	gm_add32(waiting, 0u - count);
	return more;
}

GM_DEVICE_SLOW void *gm_granule_malloc_run(struct gm_heap *heap, size_t size)
{
	uint64_t count = (size + GM_GRANULE - 1) >> GM_GRANULE_SHIFT;
	uint32_t granule = GM_NO_GRANULE;
	/* Empty granules may be in shards: first take those that are known, at last all. */
	for (bool all = false; size <= (uint64_t)heap->capacity << GM_GRANULE_SHIFT;) {
		uint32_t epoch = gm_load32(&heap->epoch);
		granule = gm_span_take_run(heap, (uint32_t)count);
		if (granule == GM_NO_GRANULE && all)
			gm_granule_strip(heap, 1u << gm_lane(), ~0u);
		while (granule == GM_NO_GRANULE && gm_granule_strip_hollow(heap, gm_sm()))
			;
		if (granule == GM_NO_GRANULE && gm_granule_retire_all(heap))
			granule = gm_span_take_run(heap, (uint32_t)count);
		if (granule != GM_NO_GRANULE)
			break;
		if (!gm_granule_grow_run(heap, (uint32_t)count, epoch)) {
			if (all)
				break;
			all = true;
		}
	}
	if (granule == GM_NO_GRANULE) {
		gm_add64(&heap->refusals, 1);
		return NULL;
	}
	struct gm_slab *slab = &gm_granules_of(heap)->slab[granule];
	gm_store32(&slab->run, (uint32_t)count);
	gm_slab_become(slab, GM_CLASS_IS(GM_RUN));
	return gm_span_address(heap, granule);
}

/* The slots that the lanes of a mask reserved in shard `s` of a class. */
struct gm_granule_try {
	uint32_t s, seen, cursor;
	uint32_t got; /* number of slots, for the first lanes of the mask */
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
	uint32_t slots = gm_load32_cached(&gm_granules_of(heap)->class_[c].slots);
	if (GM_CLASS(old) == c + 1 && GM_USED(old) < slots)
		t->got = slots - GM_USED(old) < count ? slots - GM_USED(old) : count;
	if (old & GM_RESERVED && (t->got < count || GM_USED(old) + count >= slots) &&
	    gm_lane() == leader)
		gm_granule_drained(heap, c, t->s, t->seen - 1, t->got, count - t->got);
}

/* The lanes of `mask` found no slot in their shard: try some shards with room, then one that may
 * bring granules. */
GM_DEVICE_SLOW void *gm_granule_malloc_slow(struct gm_heap *heap, uint32_t c, uint32_t mask)
{
	uint32_t next = GM_ANY_SHARD, rooms = 0;
	/* An acquire, so that gm_granule_malloc reads the present number of shards. */
	if (c < GM_CLASSES)
		gm_load32_acquire(&gm_granules_of(heap)->class_[c].shards);
	for (uint32_t turn = 0; c < GM_CLASSES; turn++) {
		struct gm_granule_class *class_ = &gm_granules_of(heap)->class_[c];
		struct gm_granule_try t;
		bool first = gm_lane() == gm_leader(mask);
		if (turn == 1 && first)
			gm_granule_wanted(heap, c, gm_popc(mask));
		if (next == GM_ANY_SHARD)
			next = gm_granule_near(turn ? gm_load32(&class_->own)
						    : gm_granule_shards(class_));
		if (turn == 0 && first)
			next = gm_room_find(class_, next);
		gm_granule_try(heap, c, next, mask, true, &t);
		uint32_t served = gm_first(mask, t.got);
		if (served && turn && first)
			gm_granule_served(heap, c, gm_popc(served));
		if (served >> gm_lane() & 1)
			return gm_granule_take(heap, c, t.seen - 1, t.cursor, served);
		mask &= ~served;
		next = GM_ANY_SHARD;
		if (turn == 0 && t.s != GM_NO_SHARD && ++rooms < GM_ROOM_TRIES)
			turn = ~0u; /* the same turn again */
		else if (turn && gm_ballot(mask, t.s < gm_load32(&class_->own)))
			next = gm_granule_replace(heap, c, t.s, t.seen, mask, turn);
		if (next - GM_SHARDS < GM_SHARDS) { /* gm_granule_exhausted */
			next -= GM_SHARDS;
			if (turn >= GM_ASK_TURNS && gm_lane() == gm_leader(mask))
				gm_granule_ask(heap, c);
		}
		if (next == GM_NO_SHARD)
			next = gm_granule_search_all(heap, c, turn, mask);
		if (next != GM_NO_SHARD)
			continue;
		if (gm_lane() == gm_leader(mask))
			gm_granule_served(heap, c, gm_popc(mask));
		c = gm_granule_larger(c); /* with at least the same alignment */
		next = GM_ANY_SHARD;
		turn = ~0u;
		rooms = 0;
	}
	gm_add64(&heap->refusals, 1);
	return NULL;
}

/*
 * `size` bytes, or NULL when the heap is full and cannot grow. Any lanes of a warp may call it,
 * with any sizes, converged or not.
 */
GM_DEVICE void *gm_granule_malloc(struct gm_heap *heap, size_t size)
{
	struct gm_granule_try t;
	if (size > 1024 * 1024)
		return gm_granule_malloc_run(heap, size);
	uint32_t c = gm_granule_class_of(size), mask = gm_match32(gm_active(), c);
	/* gm_granule_malloc_slow makes the multiprocessor drop an old number. */
	uint32_t shards = gm_load32_cached(&gm_granules_of(heap)->class_[c].shards);
	shards = shards < GM_SHARDS ? shards : GM_SHARDS;
	gm_granule_try(heap, c, gm_granule_near(shards), mask, false, &t);
	uint32_t served = gm_first(mask, t.got);
	return served >> gm_lane() & 1 ? gm_granule_take(heap, c, t.seen - 1, t.cursor, served)
				       : gm_granule_malloc_slow(heap, c, mask & ~served);
}

/* --- free --- */

/* Free the run that begins at `offset`; if none begins there, it is an invalid free. */
GM_DEVICE_SLOW void gm_granule_free_run(struct gm_heap *heap, uint64_t offset)
{
	uint32_t granule = (uint32_t)(offset >> GM_GRANULE_SHIFT);
	struct gm_slab *slab = &gm_granules_of(heap)->slab[granule];
	uint64_t state = 0, seen;
	if (offset < (uint64_t)heap->capacity << GM_GRANULE_SHIFT && !(offset & (GM_GRANULE - 1)))
		state = gm_load64(&slab->state);
	for (; GM_CLASS(state) == GM_RUN; state = seen) {
		seen = gm_cas64(&slab->state, state, state & 0xfffff);
		if (seen == state) {
			gm_span_give(heap, granule, slab->run);
			return;
		}
	}
	gm_add64(&heap->foreign_frees, 1);
}

#define GM_NO_SLOT 0xffffffffu

/*
 * The slot of a class that begins at `offset`, or GM_NO_SLOT; *header of the class. The quotient is
 * exact if a slot begins there. For an address in the header `part` wraps beyond the last slot.
 */
GM_DEVICE uint32_t gm_granule_slot_at(const struct gm_granule_class *class_, uint64_t offset,
				      uint32_t *header)
{
	*header = gm_load32_cached(&class_->header);
	uint32_t part = ((uint32_t)offset & (uint32_t)(GM_GRANULE - 1)) - *header;
	uint32_t slot = gm_high32(part, gm_load32_cached(&class_->per_size));
	bool begins = slot * gm_load32_cached(&class_->size) == part;
	return begins && slot < gm_load32_cached(&class_->slots) ? slot : GM_NO_SLOT;
}

/*
 * Free an allocation; NULL is ignored. Any kernel, stream, block or lane may call it. Any other
 * address, even one inside of an allocation, is an invalid free: counted, and without effect.
 */
GM_DEVICE void gm_granule_free(struct gm_heap *heap, void *address)
{
	uint64_t offset = (uint64_t)(uintptr_t)address - heap->base;
	uint32_t granule = (uint32_t)(offset >> GM_GRANULE_SHIFT);
	uint32_t c = GM_CLASSES, slot = GM_NO_SLOT, header = 0;
	if (address == NULL)
		return;
	struct gm_granules *all = gm_granules_of(heap);
	if (offset < (uint64_t)heap->capacity << GM_GRANULE_SHIFT)
		c = GM_CLASS(gm_load64(&all->slab[granule].state)) - 1;
	if (c < GM_CLASSES)
		slot = gm_granule_slot_at(&all->class_[c], offset, &header);
	if (slot == GM_NO_SLOT) {
		gm_granule_free_run(heap, offset);
		return;
	}
	uint32_t *bits = gm_granule_bits(heap, &all->slab[granule], granule, header);
	/* A granule has 2^12 words at most, and a heap 2^19 granules. */
	uint32_t mask = gm_match32(gm_active(), granule << 12 | slot >> 5);
	uint32_t mine = gm_union(mask, 1u << (slot & 31));
	gm_syncwarp(mask); /* all lanes have finished with their slots */
	if (gm_lane() != gm_leader(mask))
		return;
	uint32_t old = gm_and32(&bits[slot >> 5], ~mine);
	uint32_t freed = gm_popc(old & mine), wrong = gm_popc(mask) - freed;
	if (wrong)
		gm_add64(&heap->foreign_frees, wrong);
	if (freed)
		gm_slab_drop(heap, granule, freed);
}

/* Usable bytes of an allocation; 0: none begins there. */
GM_DEVICE size_t gm_granule_usable(struct gm_heap *heap, const void *address)
{
	uint64_t offset = (uint64_t)(uintptr_t)address - heap->base;
	uint32_t granule = (uint32_t)(offset >> GM_GRANULE_SHIFT), slot = GM_NO_SLOT, header = 0;
	if (address == NULL || offset >= (uint64_t)heap->capacity << GM_GRANULE_SHIFT)
		return 0;
	struct gm_granules *all = gm_granules_of(heap);
	struct gm_slab *slab = &all->slab[granule];
	uint32_t c = GM_CLASS(gm_load64(&slab->state)) - 1;
	if (c == GM_RUN - 1 && !(offset & (GM_GRANULE - 1)))
		return (size_t)slab->run << GM_GRANULE_SHIFT;
	if (c < GM_CLASSES)
		slot = gm_granule_slot_at(&all->class_[c], offset, &header);
	if (slot == GM_NO_SLOT)
		return 0;
	const uint32_t *bits = gm_granule_bits(heap, slab, granule, header);
	return gm_load32(&bits[slot >> 5]) >> (slot & 31) & 1 ? gm_granule_size(c) : 0;
}

/* --- setting up, and between kernels --- */

/* Bytes of the policy's memory, for a heap of `capacity` granules. */
GM_DEVICE_HOST size_t gm_granule_bytes(uint32_t capacity)
{
	size_t words = (capacity + 63) / 64, summaries = (words + 63) / 64;
	return sizeof(struct gm_granules) + capacity * sizeof(struct gm_slab) +
	       (GM_CLASSES * 2 + 2) * (words + summaries) * sizeof(uint64_t);
}

/* `threads` threads call it, of which this is `thread`, on zeroed memory. */
GM_DEVICE void gm_granule_init(struct gm_heap *heap, uint32_t thread, uint32_t threads)
{
	struct gm_granules *all = gm_granules_of(heap);
	uint32_t words = (heap->capacity + 63) / 64, summaries = heap->summaries;
	uint64_t *bits = (uint64_t *)(all->slab + heap->capacity);
	uint64_t *last = bits + (size_t)GM_CLASSES * 2 * (words + summaries);
	if (thread == 0) {
		all->empty.word = last;
		all->empty.summary = last + words;
		all->hollow.word = last + words + summaries;
		all->hollow.summary = last + 2 * words + summaries;
	}
	for (uint32_t c = thread; c < GM_CLASSES; c += threads) {
		struct gm_granule_class *class_ = &all->class_[c];
		uint32_t size = gm_granule_size(c), slots = (uint32_t)GM_GRANULE / size;
		uint32_t header = slots > GM_SLAB_BITS ? (slots / 8 + size - 1) / size : 0;
		class_->slots = slots - header;
		class_->header = header * size;
		class_->size = size;
		class_->per_size = (uint32_t)(((1ull << 32) + size - 1) / size);
		class_->per_slot = (uint32_t)((1ull << 32) / class_->slots);
		class_->shards = class_->own = 1;
		uint64_t *mine = bits + (size_t)c * 2 * (words + summaries);
		class_->roomy.word = mine;
		class_->roomy.summary = mine + words;
		class_->ragged.word = mine + words + summaries;
		class_->ragged.summary = mine + 2 * words + summaries;
	}
}

/* Take empty granules out of the shards, and return all empty ones. */
GM_DEVICE void gm_granule_trim(struct gm_heap *heap)
{
	gm_granule_strip(heap, 1u << gm_lane(), ~0u);
	gm_granule_retire_all(heap);
	for (uint32_t c = 0; c < GM_CLASSES; c++) {
		struct gm_granule_class *class_ = &gm_granules_of(heap)->class_[c];
		if (!(gm_granules_of(heap)->known[c >> 6] >> (c & 63) & 1))
			continue;
		class_->shards = gm_granule_shards(class_);
		while (class_->shards > 1 && class_->shard[class_->shards - 1] == 0)
			class_->shards--;
		class_->own = class_->own < class_->shards ? class_->own : class_->shards;
	}
}

GM_DEVICE void gm_granule_stats(struct gm_heap *heap, struct gm_heap_stats *stats)
{
	stats->granules += gm_load64(&heap->granted) - gm_load64(&heap->available);
	uint32_t end = stats->end ? stats->end : heap->capacity;
	for (uint32_t g = 0; g < end; g++) {
		const struct gm_slab *slab = &gm_granules_of(heap)->slab[g];
		uint64_t state = gm_load64(&slab->state), size = 0, used = 1;
		uint32_t class_ = GM_CLASS(state), bin = GM_SIZES - 1;
		if (class_ == 0)
			continue;
		if (class_ == GM_RUN) {
			size = (uint64_t)gm_load32(&slab->run) << GM_GRANULE_SHIFT;
		} else {
			size = gm_granule_size(class_ - 1);
			bin = gm_granule_bin(class_ - 1);
			used = GM_USED(state);
		}
		stats->live[bin] += used;
		stats->live_bytes += used * size;
	}
}

#endif
