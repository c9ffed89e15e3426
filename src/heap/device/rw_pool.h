/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The common part of the random search policies (Pham et al., "Dynamic Memory Management in
 * Massively Parallel Systems: A Case on GPUs"; extended in ACM TOPC 12(1), 2025).
 *
 *   unit   256 bytes of a granule that the pool holds (the paper's page)
 *   used   a bit a unit: lanes probe random places until one is clear
 *   more   a bit a unit: the allocation continues in the next unit, so that free finds its end
 *   lock   a bit a word of `used`: a warp of `corw` is at that word
 *
 * The paper's pool has all memory from the beginning, and its searches never end. Here, after
 * GM_RW_PROBES failed probes the pool takes an eighth of all free granules, so that most of its
 * units are free while most of the heap is. When no granule is free, all units are probed in order,
 * and then the answer is NULL.
 */
#ifndef GM_HEAP_DEVICE_RW_POOL_H
#define GM_HEAP_DEVICE_RW_POOL_H

#include "heap/device/run.h"

enum {
	GM_RW_UNIT_SHIFT = 8,
	GM_RW_UNIT = 1 << GM_RW_UNIT_SHIFT,
	GM_RW_WORDS = 1 << (GM_GRANULE_SHIFT - GM_RW_UNIT_SHIFT - 5), /* of a granule's bits */
	GM_RW_UNITS = GM_RW_WORDS * 32,
	GM_RW_LONGEST = GM_RW_UNITS / 2, /* units of an allocation; above: runs of granules */
	GM_RW_PROBES = 32,
	GM_RW_PATIENCE = 16, /* turns of waiting for a lane that brings granules */
	GM_RW_SHARE = 8,     /* the pool takes this part of the free granules */
};

struct gm_rw {
	uint32_t held;	 /* granules in `granule`, at most heap->capacity */
	uint32_t adding; /* a lane is adding some */
	uint32_t pad[14];
	uint32_t *granule; /* granule + 1; 0: not there yet */
	uint32_t *used;	   /* GM_RW_WORDS a granule of the heap */
	uint32_t *more;
	uint32_t *lock;
};

GM_DEVICE struct gm_rw *gm_rw_of(const struct gm_heap *heap)
{
	return (struct gm_rw *)heap->policy;
}

GM_DEVICE_HOST size_t gm_rw_bytes(uint32_t capacity)
{
	size_t words = 1 + 2 * GM_RW_WORDS + GM_RW_WORDS / 32;
	return sizeof(struct gm_rw) + capacity * words * sizeof(uint32_t);
}

GM_DEVICE void gm_rw_init(struct gm_heap *heap, uint32_t thread, uint32_t threads)
{
	struct gm_rw *rw = gm_rw_of(heap);
	(void)threads;
	if (thread != 0)
		return;
	rw->granule = (uint32_t *)(rw + 1);
	rw->used = rw->granule + heap->capacity;
	rw->more = rw->used + (size_t)heap->capacity * GM_RW_WORDS;
	rw->lock = rw->more + (size_t)heap->capacity * GM_RW_WORDS;
}

GM_DEVICE uint32_t gm_rw_seed(void)
{
	uint64_t now = gm_nanoseconds();
	uint32_t seed = (uint32_t)now * 2654435761u ^ (gm_lane() << 16 | gm_sm() << 6 | gm_warp());
	return seed * 2246822519u | 1;
}

GM_DEVICE uint32_t gm_rw_random(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed * 2654435761u;
}

/* A number below `limit`, out of 32 random bits. */
GM_DEVICE uint32_t gm_rw_below(uint32_t random, uint32_t limit)
{
	return (uint32_t)((uint64_t)random * limit >> 32);
}

/* A word of `used`, at random: its number in the heap; or GM_NO_GRANULE. */
GM_DEVICE uint32_t gm_rw_place(struct gm_rw *rw, uint32_t *seed)
{
	uint32_t held = gm_load32(&rw->held);
	uint32_t k = gm_rw_below(gm_rw_random(seed), held);
	uint32_t granule = held ? gm_load32(&rw->granule[k]) : 0;
	if (granule == 0)
		return GM_NO_GRANULE;
	return (granule - 1) * GM_RW_WORDS + gm_rw_below(gm_rw_random(seed), GM_RW_WORDS);
}

/* Set any clear bit of a word: its unit, or GM_NO_GRANULE. */
GM_DEVICE uint32_t gm_rw_take(struct gm_rw *rw, uint32_t word)
{
	uint32_t free = ~gm_load32(&rw->used[word]);
	while (free) {
		uint32_t bit = free & (~free + 1), old = gm_or32_sync(&rw->used[word], bit);
		if (!(old & bit))
			return word << 5 | gm_ctz(bit);
		free &= ~old & ~bit;
	}
	return GM_NO_GRANULE;
}

/* Move granules from the heap to the pool; false: none was free. */
GM_DEVICE_SLOW bool gm_rw_add(struct gm_heap *heap)
{
	struct gm_rw *rw = gm_rw_of(heap);
	uint32_t want = (uint32_t)(gm_load64(&heap->available) / GM_RW_SHARE) + 1, got = 0;
	for (uint32_t w = 0; w < (heap->capacity + 63) >> 6 && got < want; w++) {
		if (gm_load64(&heap->free.word[w]) == 0)
			continue;
		uint64_t bits = gm_span_take_some(heap, w, want - got);
		uint32_t n = gm_popc((uint32_t)bits) + gm_popc((uint32_t)(bits >> 32));
		uint32_t at = n ? gm_add32_sync(&rw->held, n) : 0;
		for (; bits; bits &= bits - 1) {
			uint32_t granule = w << 6 | gm_log2(bits & (~bits + 1));
			gm_store32(&heap->run[granule], GM_RUN_CUT);
			gm_store32_release(&rw->granule[at++], granule + 1);
		}
		got += n;
	}
	return got;
}

/*
 * The search failed when the pool held `held` granules. True: it holds more, or may soon; `turn`
 * counts the calls.
 */
GM_DEVICE_SLOW bool gm_rw_more(struct gm_heap *heap, uint32_t held, uint32_t turn)
{
	struct gm_rw *rw = gm_rw_of(heap);
	uint32_t epoch = gm_load32(&heap->epoch);
	if (gm_load32(&rw->held) != held)
		return true;
	bool first = gm_load32(&rw->adding) == 0 && gm_cas32(&rw->adding, 0, 1) == 0;
	if (!first && turn < GM_RW_PATIENCE) {
		gm_pause(200);
		return true;
	}
	bool more = gm_load32(&rw->held) != held || gm_rw_add(heap);
	if (first)
		gm_store32_release(&rw->adding, 0);
	return more || gm_span_grow(heap, 1, 1, epoch);
}

/* Take the first unit that is free; GM_NO_GRANULE: none is. */
GM_DEVICE_SLOW uint32_t gm_rw_sweep(struct gm_rw *rw)
{
	uint32_t held = gm_load32(&rw->held), unit;
	for (uint32_t k = 0; k < held; k++) {
		uint32_t granule = gm_load32_acquire(&rw->granule[k]);
		for (uint32_t w = 0; w < GM_RW_WORDS && granule; w++) {
			unit = gm_rw_take(rw, (granule - 1) * GM_RW_WORDS + w);
			if (unit != GM_NO_GRANULE)
				return unit;
		}
	}
	return GM_NO_GRANULE;
}

GM_DEVICE void *gm_rw_address(struct gm_heap *heap, uint32_t unit)
{
	if (unit == GM_NO_GRANULE) {
		gm_add64(&heap->refusals, 1);
		return NULL;
	}
	return (char *)(uintptr_t)(heap->base + ((uint64_t)unit << GM_RW_UNIT_SHIFT));
}

/* Of `count` units from `unit` on, those in the word of the first. */
GM_DEVICE uint32_t gm_rw_part(uint32_t unit, uint32_t count, uint32_t *bits)
{
	uint32_t at = unit & 31, n = 32 - at < count ? 32 - at : count;
	*bits = (n == 32 ? ~0u : (1u << n) - 1) << at;
	return n;
}

/* Units of the allocation that begins with `unit`. */
GM_DEVICE uint32_t gm_rw_length(const struct gm_rw *rw, uint32_t unit)
{
	uint32_t count = 1;
	while (gm_load32(&rw->more[unit >> 5]) >> (unit & 31) & 1) {
		unit++;
		count++;
	}
	return count;
}

/* False: the unit is inside of an allocation, as the unit before it continues. The last unit of a
 * granule never continues. */
GM_DEVICE bool gm_rw_begins(const struct gm_rw *rw, uint32_t unit)
{
	uint32_t before = unit - 1;
	return unit == 0 || !(gm_load32(&rw->more[before >> 5]) >> (before & 31) & 1);
}

/* Of lanes that free the same run, the one that clears its first bit of `more` frees it. False:
 * another lane did. */
GM_DEVICE_SLOW bool gm_rw_free_run(struct gm_rw *rw, uint32_t unit)
{
	uint32_t bit = 1u << (unit & 31), first = 0, bits, n;
	if (!(gm_and32_sync(&rw->more[unit >> 5], ~bit) & bit))
		return false;
	uint32_t count = gm_rw_length(rw, unit + 1) + 1;
	for (uint32_t at = unit + 1, rest = count - 2; rest; at += n, rest -= n) {
		n = gm_rw_part(at, rest, &bits);
		gm_and32_sync(&rw->more[at >> 5], ~bits);
	}
	for (uint32_t at = unit, rest = count; rest; at += n, rest -= n) {
		n = gm_rw_part(at, rest, &bits);
		uint32_t old = gm_and32_sync(&rw->used[at >> 5], ~bits);
		first = at == unit ? old & bit : first;
	}
	return first;
}

GM_DEVICE void gm_rw_free(struct gm_heap *heap, void *address)
{
	struct gm_rw *rw = gm_rw_of(heap);
	uint64_t offset = (uint64_t)(uintptr_t)address - heap->base;
	uint32_t granule, unit = (uint32_t)(offset >> GM_RW_UNIT_SHIFT), bit = 1u << (unit & 31);
	if (!gm_run_is_cut(heap, address, &granule)) {
		gm_run_free(heap, address);
		return;
	}
	bool valid = !(offset & (GM_RW_UNIT - 1)) && gm_rw_begins(rw, unit);
	if (valid && gm_load32(&rw->more[unit >> 5]) & bit)
		valid = gm_rw_free_run(rw, unit);
	else if (valid)
		valid = gm_and32_sync(&rw->used[unit >> 5], ~bit) & bit;
	if (!valid)
		gm_add64(&heap->foreign_frees, 1);
}

GM_DEVICE size_t gm_rw_usable(struct gm_heap *heap, const void *address)
{
	const struct gm_rw *rw = gm_rw_of(heap);
	uint64_t offset = (uint64_t)(uintptr_t)address - heap->base;
	uint32_t granule, unit = (uint32_t)(offset >> GM_RW_UNIT_SHIFT);
	if (!gm_run_is_cut(heap, address, &granule))
		return gm_run_usable(heap, address);
	if (offset & (GM_RW_UNIT - 1) || !gm_rw_begins(rw, unit) ||
	    !(gm_load32(&rw->used[unit >> 5]) >> (unit & 31) & 1))
		return 0;
	return (size_t)gm_rw_length(rw, unit) << GM_RW_UNIT_SHIFT;
}

/* Units in use of the k-th granule. */
GM_DEVICE uint32_t gm_rw_count(const struct gm_rw *rw, uint32_t k)
{
	uint32_t count = 0;
	const uint32_t *used = &rw->used[(size_t)(rw->granule[k] - 1) * GM_RW_WORDS];
	for (uint32_t w = 0; w < GM_RW_WORDS; w++)
		count += gm_popc(gm_load32(&used[w]));
	return count;
}

GM_DEVICE void gm_rw_trim(struct gm_heap *heap)
{
	struct gm_rw *rw = gm_rw_of(heap);
	for (uint32_t k = rw->held; k-- > 0;) {
		if (gm_rw_count(rw, k) != 0)
			continue;
		uint32_t granule = rw->granule[k] - 1;
		rw->granule[k] = rw->granule[--rw->held];
		rw->granule[rw->held] = 0;
		gm_run_give_one(heap, granule);
	}
}

GM_DEVICE void gm_rw_stats(struct gm_heap *heap, struct gm_heap_stats *stats)
{
	struct gm_rw *rw = gm_rw_of(heap);
	gm_run_stats(heap, stats);
	stats->static_bytes += gm_rw_bytes(heap->capacity);
	for (uint32_t k = 0; k < rw->held; k++)
		stats->live_bytes += (uint64_t)gm_rw_count(rw, k) << GM_RW_UNIT_SHIFT;
}

#endif
