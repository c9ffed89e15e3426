/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The common part of the random search policies (Pham et al., "Dynamic Memory Management in
 * Massively Parallel Systems: A Case on GPUs"; extended in ACM TOPC 12(1), 2025).
 *
 *   unit   256 bytes of a granule that the pool holds (the paper's page)
 *   used   a bit a unit: lanes probe random places until one is clear
 *   more   a bit a unit: the allocation continues in the next unit, so that free finds its end
 *   word   32 used bits, and their `more` bits beside them: one access reads or frees both
 *   group  units side by side in one word: an allocation of up to 8 KiB
 *   lock   a bit a word: a warp of `corw` is using that word
 *
 * The paper's pool has all memory from the beginning, and its searches never end. Here lanes that
 * find no group in a few words bring granules to the pool, several lanes at a time, so that most of
 * its units are free while most of the heap is. When no granule is free, all units are searched in
 * order; if that fails, the result is NULL.
 *
 * A warm malloc is one atomic access, of the word; a warm free is two loads and one atomic access.
 * The number of granules and their table are read from the cache of the multiprocessor: they only
 * grow while lanes are in the heap, and an old value leads to fewer words.
 */
#ifndef GM_HEAP_POLICIES_RW_POOL_H
#define GM_HEAP_POLICIES_RW_POOL_H

#include "heap/policies/run.h"

enum {
	GM_RW_UNIT_SHIFT = 8,
	GM_RW_UNIT = 1 << GM_RW_UNIT_SHIFT,
	GM_RW_WORDS = 1 << (GM_GRANULE_SHIFT - GM_RW_UNIT_SHIFT - 5), /* of a granule's bits */
	GM_RW_UNITS = GM_RW_WORDS * 32,
	GM_RW_LONGEST = GM_RW_UNITS / 2, /* units of an allocation; above: runs of granules */
	GM_RW_CACHED = 8,  /* words that a lane probes before it reads the pool's size anew */
	GM_RW_PROBES = 4,  /* words that it probes afterwards before it brings granules */
	GM_RW_TURNS = 8,   /* number of such rounds before it waits for the host */
	GM_RW_TRIES = 4,   /* groups of one word that it tries: others take some meanwhile */
	GM_RW_ADDERS = 16, /* lanes that bring granules at a time */
	GM_RW_SHARE = 64,  /* each brings 1 / this of the free ones */
	/* Turns of waiting for others' granules: the hardware may not schedule the lane that brings
	 * them, which may be of the same warp. */
	GM_RW_PATIENCE = 4096,
};

struct gm_rw_word {
	uint32_t used, more;
};

struct gm_rw {
	uint32_t *lock;
	uint32_t *granule; /* granule + 1; 0: not there yet */
	uint64_t pad0[6];
	uint32_t held; /* granules in `granule`, at most heap->capacity */
	uint32_t pad1[15];
	uint32_t bringing; /* lanes whose granules may not be in the table yet */
	uint32_t pad2[15];
	uint32_t adding[GM_RW_ADDERS]; /* 1: one of the first bringing lanes has this place */
				       /* words follow, GM_RW_WORDS a granule of the heap */
};

GM_DEVICE struct gm_rw *gm_rw_of(const struct gm_heap *heap)
{
	return (struct gm_rw *)heap->policy;
}

GM_DEVICE struct gm_rw_word *gm_rw_word(const struct gm_rw *rw, uint32_t word)
{
	return (struct gm_rw_word *)(rw + 1) + word;
}

GM_DEVICE_HOST size_t gm_rw_bytes(uint32_t capacity)
{
	size_t bytes = GM_RW_WORDS * sizeof(struct gm_rw_word) + GM_RW_WORDS / 8 + 4;
	return sizeof(struct gm_rw) + capacity * bytes;
}

GM_DEVICE void gm_rw_init(struct gm_heap *heap, uint32_t thread, uint32_t threads)
{
	struct gm_rw *rw = gm_rw_of(heap);
	(void)threads;
	if (thread != 0)
		return;
	rw->lock = (uint32_t *)gm_rw_word(rw, heap->capacity * GM_RW_WORDS);
	rw->granule = rw->lock + (size_t)heap->capacity * GM_RW_WORDS / 32;
}

/* --- random places --- */

/* Differs between lanes, and between calls of a lane. */
GM_DEVICE uint32_t gm_rw_seed(void)
{
	return gm_clock() * 2654435761u ^ (gm_sm() << 16 | gm_warp() << 5 | gm_lane());
}

/* Its upper bits are to be used. */
GM_DEVICE uint32_t gm_rw_random(uint32_t *seed)
{
	uint32_t n = *seed = *seed * 1664525u + 1013904223u;
	n = (n ^ n >> 16) * 0x85ebca6bu;
	return (n ^ n >> 13) * 0xc2b2ae35u;
}

/* A random word of a pool of `held` granules, more than 0, and *bit, a bit of it; or GM_NO_GRANULE,
 * if its granule is not in the table yet. */
GM_DEVICE uint32_t gm_rw_place(const struct gm_rw *rw, uint32_t held, uint32_t *seed, uint32_t *bit)
{
	uint64_t place = (uint64_t)gm_rw_random(seed) * (held * GM_RW_WORDS);
	uint32_t k = (uint32_t)(place >> 32);
	uint32_t granule = gm_load32_cached_address(&rw->granule[k / GM_RW_WORDS]);
	if (granule == 0)
		granule = gm_load32_address(&rw->granule[k / GM_RW_WORDS]);
	*bit = (uint32_t)place >> 27;
	return granule ? (granule - 1) * GM_RW_WORDS + k % GM_RW_WORDS : GM_NO_GRANULE;
}

/* --- groups of units in one word --- */

/* The first `n` bits, 1 to 32. */
GM_DEVICE uint32_t gm_rw_bits(uint32_t n)
{
	return ~0u >> (32 - n);
}

/* The bits at which `n` set bits of `free` begin. */
GM_DEVICE uint32_t gm_rw_fit(uint32_t free, uint32_t n)
{
	for (uint32_t have = 1; have < n;) {
		uint32_t step = have < n - have ? have : n - have;
		free &= free >> step;
		have += step;
	}
	return free;
}

/* A group of `n` units at or before a random bit, on a multiple of the least power of two that is
 * not below `n`: groups of one size leave no gaps. */
GM_DEVICE uint32_t gm_rw_aim(uint32_t bit, uint32_t n)
{
	uint32_t step = n > 1 ? 2u << gm_log2(n - 1) : 1;
	return bit & ~(step - 1);
}

/* Clear `bits` again, which the caller set in vain. They are set, so a subtraction clears them, in
 * any order with changes by others. */
GM_DEVICE void gm_rw_undo(struct gm_rw *rw, uint32_t word, uint32_t bits)
{
	if (bits)
		gm_add32(&gm_rw_word(rw, word)->used, 0u - bits);
}

/*
 * Set the used bits of `n` units of a word: first those from bit `at` on, then, up to `tries` - 1
 * times, any that were clear before. Returns the first unit, or GM_NO_GRANULE.
 */
GM_DEVICE uint32_t gm_rw_take(struct gm_rw *rw, uint32_t word, uint32_t n, uint32_t at,
			      uint32_t tries)
{
	for (;;) {
		uint32_t bits = gm_rw_bits(n) << at,
			 old = gm_or32(&gm_rw_word(rw, word)->used, bits);
		if (!(old & bits))
			return word << 5 | at;
		gm_rw_undo(rw, word, bits & ~old);
		uint32_t free = gm_rw_fit(~old, n), above = free >> at << at;
		if (--tries == 0 || !free)
			return GM_NO_GRANULE;
		at = gm_ctz(above ? above : free);
	}
}

/* --- granules --- */

/* Move up to `want` free granules to the pool. Returns their number. */
GM_DEVICE_SLOW uint32_t gm_rw_bring(struct gm_heap *heap, uint32_t want, uint32_t seed)
{
	struct gm_rw *rw = gm_rw_of(heap);
	uint32_t reach = gm_span_reach(heap), got = 0;
	gm_add32_sync(&rw->bringing, 1);
	for (uint32_t i = 0, s = seed % reach; i < reach && got < want; i++) {
		uint64_t filled = gm_load64(&heap->free.summary[s]);
		while (filled && got < want) {
			uint32_t at = gm_bits_pick(filled, seed >> 8), w = s << 6 | at;
			uint64_t bits = gm_span_take_some(heap, w, want - got);
			uint32_t n = gm_popc((uint32_t)bits) + gm_popc((uint32_t)(bits >> 32));
			uint32_t k = n ? gm_add32(&rw->held, n) : 0;
			for (; bits; bits &= bits - 1) {
				uint32_t granule = w << 6 | gm_log2(bits & (~bits + 1));
				gm_store32(&heap->run[granule], GM_RUN_CUT);
				gm_store32_release(&rw->granule[k++], granule + 1);
			}
			got += n;
			filled &= ~(1ull << at);
		}
		s = s + 1 == reach ? 0 : s + 1;
	}
	gm_add32_sync(&rw->bringing, ~0u);
	return got;
}

/* Bring granules, unless enough lanes do so; after GM_RW_TURNS do not rely on these lanes. */
GM_DEVICE_SLOW bool gm_rw_add(struct gm_heap *heap, uint32_t turn)
{
	uint32_t seed = gm_rw_seed();
	uint64_t adder = (uint64_t)gm_rw_random(&seed) * GM_RW_ADDERS >> 32;
	uint32_t *adding = &gm_rw_of(heap)->adding[adder];
	uint64_t free = gm_load64(&heap->available); /* never less than the free granules */
	bool first = false;
	if (free && turn < GM_RW_TURNS) {
		first = gm_load32(adding) == 0 && gm_cas32(adding, 0, 1) == 0;
		if (!first)
			gm_pause(200);
		free = first ? free : 0;
	}
	bool got = free && gm_rw_bring(heap, (uint32_t)(free / GM_RW_SHARE) + 1, seed);
	if (first)
		gm_store32_release(adding, 0);
	return got;
}

/* The host refused. True: there may be a granule that the caller, which saw `held` of them, has not
 * searched. False: there is none; no granule has left the free ones without being in the table. */
GM_DEVICE_SLOW bool gm_rw_expects(const struct gm_rw *rw, uint32_t held, uint32_t turn)
{
	if (turn < GM_RW_PATIENCE && gm_load32_acquire(&rw->bringing) != 0) {
		gm_pause(200);
		return true;
	}
	return gm_load32(&rw->held) != held;
}

/*
 * The search failed when the pool held `held` granules. True: search again, because it holds more,
 * or a random search may succeed; `turn` counts the calls.
 */
GM_DEVICE_SLOW bool gm_rw_more(struct gm_heap *heap, uint32_t held, uint32_t turn)
{
	uint32_t epoch = gm_load32(&heap->epoch);
	/* An acquire drops the values that the multiprocessor has cached. */
	if (gm_rw_add(heap, turn) || gm_load32(&gm_rw_of(heap)->held) != held)
		return gm_load32_acquire(&gm_rw_of(heap)->held) != 0;
	return turn < GM_RW_TURNS || gm_span_grow(heap, 1, 1, epoch) ||
	       gm_rw_expects(gm_rw_of(heap), held, turn);
}

/* --- addresses --- */

GM_DEVICE void *gm_rw_address(struct gm_heap *heap, uint32_t unit)
{
	if (unit == GM_NO_GRANULE) {
		gm_add64(&heap->refusals, 1);
		return NULL;
	}
	return (char *)(uintptr_t)(heap->base + ((uint64_t)unit << GM_RW_UNIT_SHIFT));
}

/* Of `count` units from `unit` on, the number in the word of the first; *bits: their bits. */
GM_DEVICE uint32_t gm_rw_part(uint32_t unit, uint32_t count, uint32_t *bits)
{
	uint32_t at = unit & 31, n = 32 - at < count ? 32 - at : count;
	*bits = gm_rw_bits(n) << at;
	return n;
}

/* A word, with its `more` bits in the upper half. */
GM_DEVICE uint64_t *gm_rw_both(const struct gm_rw *rw, uint32_t unit)
{
	return (uint64_t *)gm_rw_word(rw, unit >> 5);
}

GM_DEVICE bool gm_rw_continues(const struct gm_rw *rw, uint32_t unit)
{
	return gm_load32(&gm_rw_word(rw, unit >> 5)->more) >> (unit & 31) & 1;
}

/* `both`: the word of the unit. False: the unit is inside of an allocation, because the unit before
 * it continues. The last unit of a granule never continues. */
GM_DEVICE bool gm_rw_begins(const struct gm_rw *rw, uint32_t unit, uint64_t both)
{
	if (unit & 31)
		return !(both >> 31 >> (unit & 31) & 1);
	return unit == 0 || !gm_rw_continues(rw, unit - 1);
}

/* Units of the allocation that begins with `unit`, from the word `both` of it; one more than the
 * word has from there on: it continues in the next word. */
GM_DEVICE uint32_t gm_rw_extent(uint32_t unit, uint64_t both)
{
	uint32_t more = (uint32_t)(both >> 32) >> (unit & 31);
	return ~more ? gm_ctz(~more) + 1 : 33;
}

/* Units of the allocation that begins with `unit`. */
GM_DEVICE uint32_t gm_rw_length(const struct gm_rw *rw, uint32_t unit)
{
	uint32_t count = 1;
	while (gm_rw_continues(rw, unit)) {
		unit++;
		count++;
	}
	return count;
}

/* Free a run that does not end in its first word. Of several lanes, the one that clears its first
 * bit of `more` frees it. False: another lane did. */
GM_DEVICE_SLOW bool gm_rw_free_run(struct gm_rw *rw, uint32_t unit)
{
	uint32_t bit = 1u << (unit & 31), first = 0, bits, n;
	if (!(gm_and32_sync(&gm_rw_word(rw, unit >> 5)->more, ~bit) & bit))
		return false;
	uint32_t count = gm_rw_length(rw, unit + 1) + 1;
	for (uint32_t at = unit + 1, rest = count - 2; rest; at += n, rest -= n) {
		n = gm_rw_part(at, rest, &bits);
		gm_and32_sync(&gm_rw_word(rw, at >> 5)->more, ~bits);
	}
	for (uint32_t at = unit, rest = count; rest; at += n, rest -= n) {
		n = gm_rw_part(at, rest, &bits);
		uint32_t old = gm_and32_sync(&gm_rw_word(rw, at >> 5)->used, ~bits);
		first = at == unit ? old & bit : first;
	}
	return first;
}

/* Does the pool hold the granule of an address? It does so as long as lanes are in the heap. */
GM_DEVICE bool gm_rw_holds(const struct gm_heap *heap, const void *address)
{
	uint64_t offset = (uint64_t)(uintptr_t)address - heap->base;
	uint32_t granule = (uint32_t)(offset >> GM_GRANULE_SHIFT);
	return offset < (uint64_t)heap->capacity << GM_GRANULE_SHIFT &&
	       (gm_load32_cached(&heap->run[granule]) == GM_RUN_CUT ||
		gm_load32(&heap->run[granule]) == GM_RUN_CUT);
}

GM_DEVICE void gm_rw_free(struct gm_heap *heap, void *address)
{
	struct gm_rw *rw = gm_rw_of(heap);
	uint64_t offset = (uint64_t)(uintptr_t)address - heap->base;
	uint32_t unit = (uint32_t)(offset >> GM_RW_UNIT_SHIFT), bit = 1u << (unit & 31);
	if (!gm_rw_holds(heap, address)) {
		gm_run_free(heap, address);
		return;
	}
	uint64_t both = gm_load64(gm_rw_both(rw, unit));
	uint32_t n = gm_rw_extent(unit, both);
	bool valid = !(offset & (GM_RW_UNIT - 1)) && gm_rw_begins(rw, unit, both);
	if (valid && (unit & 31) + n > 32) {
		valid = gm_rw_free_run(rw, unit);
	} else if (valid) {
		uint64_t used = (uint64_t)gm_rw_bits(n) << (unit & 31);
		uint64_t more = (used & ~((uint64_t)bit << (n - 1))) << 32;
		valid = gm_and64_freed(gm_rw_both(rw, unit), ~(used | more)) & bit;
	}
	if (!valid)
		gm_add64(&heap->foreign_frees, 1);
}

GM_DEVICE size_t gm_rw_usable(struct gm_heap *heap, const void *address)
{
	const struct gm_rw *rw = gm_rw_of(heap);
	uint64_t offset = (uint64_t)(uintptr_t)address - heap->base;
	uint32_t unit = (uint32_t)(offset >> GM_RW_UNIT_SHIFT);
	if (!gm_rw_holds(heap, address))
		return gm_run_usable(heap, address);
	uint64_t both = gm_load64(gm_rw_both(rw, unit));
	if (offset & (GM_RW_UNIT - 1) || !gm_rw_begins(rw, unit, both) ||
	    !(both >> (unit & 31) & 1))
		return 0;
	return (size_t)gm_rw_length(rw, unit) << GM_RW_UNIT_SHIFT;
}

/* --- between kernels --- */

/* Units in use of the k-th granule. */
GM_DEVICE uint32_t gm_rw_count(const struct gm_rw *rw, uint32_t k)
{
	uint32_t count = 0;
	const struct gm_rw_word *word = gm_rw_word(rw, (rw->granule[k] - 1) * GM_RW_WORDS);
	for (uint32_t w = 0; w < GM_RW_WORDS; w++)
		count += gm_popc(gm_load32(&word[w].used));
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
	for (uint32_t k = 0; k < rw->held; k++)
		stats->live_bytes += (uint64_t)gm_rw_count(rw, k) << GM_RW_UNIT_SHIFT;
}

#endif
