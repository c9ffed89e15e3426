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
 *   room    at least 1/8 free. Lanes are told of granules with room, not of each free slot
 *   roomy   not active, with room; ragged: not active, not full; empty: no slot in use. An empty
 *           granule remains in its class until another class, or the host, needs it
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

#include "heap/device/granule_hunt.h"

/* --- allocation --- */

/* The granules of a run of `size` bytes; more than the heap can have, if it is too large. */
GM_DEVICE uint32_t gm_granule_run_of(const struct gm_heap *heap, size_t size)
{
	uint64_t count = (size >> GM_GRANULE_SHIFT) + (size % GM_GRANULE != 0);
	return count <= heap->capacity ? (uint32_t)count : heap->capacity + 1;
}

/* A function of its own: few lanes call it. */
GM_DEVICE_SLOW void gm_granule_drained(struct gm_heap *heap, uint32_t c, struct gm_granule_try t)
{
	gm_granule_drain(heap, c, &t);
}

/*
 * `size` bytes, or NULL when the heap is full and cannot grow. Any lanes of a warp may call it,
 * with any sizes, converged or not.
 */
GM_DEVICE void *gm_granule_malloc(struct gm_heap *heap, size_t size)
{
	struct gm_granule_try t;
	uint32_t c = GM_CLASSES, mask = 1u << gm_lane(), count = 0, served = 0;
	if (size <= 1024 * 1024) {
		c = gm_granule_class_of(size);
		mask = gm_match32(gm_active(), c);
		/* gm_granule_malloc_slow makes the multiprocessor drop an old number. */
		uint32_t shards = gm_load32_cached(&gm_granules_of(heap)->class_[c].shards);
		shards = shards < GM_SHARDS ? shards : GM_SHARDS;
		gm_granule_try(heap, c, gm_granule_near(shards), mask, false, &t);
		if (t.drained && gm_lane() == gm_leader(mask))
			gm_granule_drained(heap, c, t);
		served = gm_first(mask, t.got);
	} else {
		count = gm_granule_run_of(heap, size);
	}
	return served >> gm_lane() & 1 ? gm_granule_take(heap, c, t.seen - 1, t.cursor, served)
				       : gm_granule_malloc_slow(heap, c, mask & ~served, count);
}

/* --- free --- */

/* Free the run that begins at `offset`; if none begins there, it is an invalid free. Returns their
 * number. */
GM_DEVICE_SLOW uint32_t gm_granule_free_run(struct gm_heap *heap, uint64_t offset)
{
	uint32_t granule = (uint32_t)(offset >> GM_GRANULE_SHIFT);
	struct gm_slab *slab = gm_slab_of(heap, granule);
	uint64_t state = 0, seen;
	if (offset < (uint64_t)heap->capacity << GM_GRANULE_SHIFT && !(offset & (GM_GRANULE - 1)))
		state = gm_load64(&slab->state);
	for (; GM_CLASS(state) == GM_RUN; state = seen) {
		seen = gm_cas64(&slab->state, state, state & 0xfffff);
		if (seen == state) {
			gm_span_give(heap, granule, slab->run);
			return 0;
		}
	}
	gm_add64(&heap->foreign_frees, 1);
	return 1;
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

/* gm_granule_free. Returns the number of invalid frees of this lane and those that it freed for. */
GM_DEVICE uint32_t gm_granule_release(struct gm_heap *heap, void *address)
{
	uint64_t offset = (uint64_t)(uintptr_t)address - heap->base;
	uint32_t granule = (uint32_t)(offset >> GM_GRANULE_SHIFT);
	uint32_t c = GM_CLASSES, slot = GM_NO_SLOT, header = 0;
	if (address == NULL)
		return 0;
	struct gm_granules *all = gm_granules_of(heap);
	if (offset < (uint64_t)heap->capacity << GM_GRANULE_SHIFT)
		c = GM_CLASS(gm_load64(&gm_slab_of(heap, granule)->state)) - 1;
	if (c < GM_CLASSES)
		slot = gm_granule_slot_at(&all->class_[c], offset, &header);
	if (slot == GM_NO_SLOT)
		return gm_granule_free_run(heap, offset);
	uint32_t *bits = gm_granule_bits(heap, gm_slab_of(heap, granule), granule, header);
	/* A granule has 2^12 words at most, and a heap 2^19 granules. */
	uint32_t mask = gm_match32(gm_active(), granule << 12 | slot >> 5);
	uint32_t mine = gm_union(mask, 1u << (slot & 31));
	gm_syncwarp(mask); /* all lanes have finished with their slots */
	if (gm_lane() != gm_leader(mask))
		return 0;
	uint32_t old = gm_and32(&bits[slot >> 5], ~mine);
	uint32_t freed = gm_popc(old & mine), wrong = gm_popc(mask) - freed;
	if (wrong)
		gm_add64(&heap->foreign_frees, wrong);
	if (freed)
		gm_slab_drop(heap, granule, freed);
	return wrong;
}

/*
 * Free an allocation; NULL is ignored. Any kernel, stream, block or lane may call it. Any other
 * address, even one inside of an allocation, is an invalid free: counted, and without effect.
 */
GM_DEVICE void gm_granule_free(struct gm_heap *heap, void *address)
{
	gm_granule_release(heap, address);
}

/* Bytes of the allocation, or of the free slot, that begins at `address`; 0: none. *live: it is an
 * allocation. */
GM_DEVICE size_t gm_granule_begins(struct gm_heap *heap, const void *address, bool *live)
{
	uint64_t offset = (uint64_t)(uintptr_t)address - heap->base;
	uint32_t granule = (uint32_t)(offset >> GM_GRANULE_SHIFT), slot = GM_NO_SLOT, header = 0;
	*live = false;
	if (address == NULL || offset >= (uint64_t)heap->capacity << GM_GRANULE_SHIFT)
		return 0;
	struct gm_granules *all = gm_granules_of(heap);
	struct gm_slab *slab = gm_slab_of(heap, granule);
	uint32_t c = GM_CLASS(gm_load64(&slab->state)) - 1;
	if (c == GM_RUN - 1 && !(offset & (GM_GRANULE - 1))) {
		*live = true;
		return (size_t)slab->run << GM_GRANULE_SHIFT;
	}
	if (c < GM_CLASSES)
		slot = gm_granule_slot_at(&all->class_[c], offset, &header);
	if (slot == GM_NO_SLOT)
		return 0;
	const uint32_t *bits = gm_granule_bits(heap, slab, granule, header);
	*live = gm_load32(&bits[slot >> 5]) >> (slot & 31) & 1;
	return gm_granule_size(c);
}

/* Usable bytes of an allocation; 0: none begins there. */
GM_DEVICE size_t gm_granule_usable(struct gm_heap *heap, const void *address)
{
	bool live;
	size_t size = gm_granule_begins(heap, address, &live);
	return live ? size : 0;
}

/* --- setting up, and between kernels --- */

/* Bytes of the policy's memory, for a heap of `capacity` granules. */
GM_DEVICE_HOST size_t gm_granule_bytes(uint32_t capacity)
{
	size_t words = (capacity + 63) / 64, summaries = (words + 63) / 64;
	return sizeof(struct gm_granules) + gm_slab_records(capacity) * sizeof(struct gm_slab) +
	       (GM_CLASSES * 2 + 2) * (words + summaries) * sizeof(uint64_t);
}

/* `threads` threads call it, of which this is `thread`, on zeroed memory. */
GM_DEVICE void gm_granule_init(struct gm_heap *heap, uint32_t thread, uint32_t threads)
{
	struct gm_granules *all = gm_granules_of(heap);
	uint32_t words = (heap->capacity + 63) / 64, summaries = heap->summaries;
	uint64_t *bits = (uint64_t *)(all->slab + gm_slab_records(heap->capacity));
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
	gm_granule_strip(heap, 1u << gm_lane());
	gm_granule_retire_all(heap);
	for (uint32_t c = 0; c < GM_CLASSES; c++) {
		struct gm_granule_class *class_ = &gm_granules_of(heap)->class_[c];
		if (!(gm_granules_of(heap)->known[c >> 6] >> (c & 63) & 1))
			continue;
		class_->shards = gm_granule_shards(class_);
		while (class_->shards > 1 && *gm_shard_of(class_, class_->shards - 1) == 0)
			class_->shards--;
		class_->own = class_->own < class_->shards ? class_->own : class_->shards;
	}
}

GM_DEVICE void gm_granule_stats(struct gm_heap *heap, struct gm_heap_stats *stats)
{
	stats->granules += gm_load64(&heap->granted) - gm_load64(&heap->available);
	uint32_t end = stats->end ? stats->end : heap->capacity;
	for (uint32_t g = 0; g < end; g++) {
		const struct gm_slab *slab = gm_slab_of(heap, g);
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
