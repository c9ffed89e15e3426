/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `kma` (Spliet, "A comprehensive study of Dynamic Memory Management in OpenCL kernels", TU
 * Delft 2013, 5.1): superblocks of equal blocks, one active superblock a size class.
 *
 *   superblock  16 KiB of a granule: head, blocks, and at its end a bit a block, set while in use
 *   credit      of a superblock: the number of its free blocks, and its class, in one word
 *   active      the superblock that a class allocates from. Without credit it becomes inactive.
 *               A superblock whose blocks are all free is put on the free list, active or not
 *
 * An inactive superblock is not allocated from until all its blocks are free (5.1.1), so that a
 * heap can be full of half-empty ones. Block sizes are powers of two up to 128 bytes, and a bit
 * less above that, so that the superblock has no rest (5.1.1, block size heuristics).
 *
 * The paper has compare-and-swap in a loop, at which a thousand warps fail again and again. Here
 * lanes add: a leader subtracts credit for its whole warp, and adds back the missing part. The free
 * list is an index queue instead of Michael and Scott's. The warp that takes the last credit makes
 * the next superblock active, and makes another one ready. A warp that needs all blocks of a
 * superblock takes one without making it active. Credit is added after the block's bit is cleared:
 * a lane with credit finds a clear bit.
 */
#ifndef GM_HEAP_POLICIES_KMA_H
#define GM_HEAP_POLICIES_KMA_H

#include "heap/policies/stock.h"

enum {
	GM_KMA_SHIFT = 14,
	GM_KMA_SUPERBLOCK = 1 << GM_KMA_SHIFT,
	GM_KMA_SUPERBLOCKS = 1 << (GM_GRANULE_SHIFT - GM_KMA_SHIFT), /* of a granule */
	GM_KMA_CLASSES = 11,					     /* 16 bytes to 16 KiB */
	GM_KMA_HEAD = 32,
	GM_KMA_PATIENCE = 64, /* turns of waiting for a lane that brings a superblock */
};

/*
 * Credit: free blocks (32 bits, biased, because lanes subtract too much and add it back), class + 1
 * or 0. It is stored once in a superblock's life, and afterwards only added to.
 */
#define GM_KMA_EMPTY (1ull << 30) /* no class, no blocks */
#define GM_KMA_FREE(credit) ((int32_t)((uint32_t)(credit) - (uint32_t)GM_KMA_EMPTY))
#define GM_KMA_CLASS(credit) ((uint32_t)((credit) >> 32))
#define GM_KMA_OF(c) ((uint64_t)((c) + 1) << 32)

struct gm_kma_head {
	uint64_t credit;
	uint64_t pad[3];
};

struct gm_kma {
	struct gm_stock free; /* superblocks whose blocks are all free; the first member */
	uint64_t pad[5];
	uint32_t size[GM_KMA_CLASSES]; /* of a block */
	uint32_t blocks[GM_KMA_CLASSES];
	uint32_t pad1[10];
	struct {
		uint64_t active;   /* tag << 32 | superblock, or 0 */
		uint32_t bringing; /* a lane is making one active, because there is none */
		uint32_t ready;	   /* the next superblock, with full credit, or 0 */
		uint32_t pad[12];
	} class_[GM_KMA_CLASSES];
};

GM_DEVICE struct gm_kma *gm_kma_of(const struct gm_heap *heap)
{
	return (struct gm_kma *)heap->policy;
}

/* Superblocks are numbered from 1 on. */
GM_DEVICE struct gm_kma_head *gm_kma_head(const struct gm_heap *heap, uint32_t superblock)
{
	return (struct gm_kma_head *)(uintptr_t)(heap->base +
						 ((uint64_t)(superblock - 1) << GM_KMA_SHIFT));
}

GM_DEVICE uint32_t *gm_kma_bits(struct gm_kma_head *head, uint32_t blocks)
{
	return (uint32_t *)((char *)head + GM_KMA_SUPERBLOCK) - ((blocks + 31) >> 5);
}

GM_DEVICE void *gm_kma_address(const struct gm_kma *kma, struct gm_kma_head *head, uint32_t c,
			       uint32_t block)
{
	return (char *)head + GM_KMA_HEAD + block * gm_load32_cached(&kma->size[c]);
}

/* --- superblocks --- */

/* Begin a superblock from the stock, for class c, with all bits set to `bits`, and credit for
 * `free` blocks; 0: the stock gave none. */
GM_DEVICE uint32_t gm_kma_begin(struct gm_heap *heap, uint64_t piece, uint32_t c, uint32_t bits,
				uint32_t free)
{
	uint32_t superblock = (uint32_t)piece + 1;
	uint32_t blocks = gm_load32_cached(&gm_kma_of(heap)->blocks[c]);
	struct gm_kma_head *head = gm_kma_head(heap, superblock);
	if (piece == GM_STOCK_NONE)
		return 0;
	if (piece & GM_RING_NEW)
		gm_store64(&head->credit, GM_KMA_EMPTY);
	for (uint32_t w = 0; w < (blocks + 31) >> 5; w++)
		gm_store32(&gm_kma_bits(head, blocks)[w], bits);
	gm_add64_sync(&head->credit, GM_KMA_OF(c) + free);
	return superblock;
}

/* Take a free superblock for class c, with all blocks free; 0: there is none. `wait`: for the
 * host. */
GM_DEVICE_SLOW uint32_t gm_kma_take(struct gm_heap *heap, uint32_t c, bool wait)
{
	return gm_kma_begin(heap, gm_stock_get_one(heap, wait), c, 0, gm_kma_of(heap)->blocks[c]);
}

/* Make `superblock`, or none (0), active in the place of `seen`. The tag changes each time, so that
 * a superblock that is active again differs from `seen`. */
GM_DEVICE bool gm_kma_swap(struct gm_kma *kma, uint32_t c, uint64_t seen, uint32_t superblock)
{
	return gm_cas64(&kma->class_[c].active, seen, ((seen >> 32) + 1) << 32 | superblock) ==
	       seen;
}

/* Add to the credit. A superblock whose blocks are then all free is put on the free list. */
GM_DEVICE_SLOW void gm_kma_add(struct gm_heap *heap, uint32_t superblock, uint32_t n)
{
	struct gm_kma *kma = gm_kma_of(heap);
	struct gm_kma_head *head = gm_kma_head(heap, superblock);
	uint64_t credit = gm_add64_sync(&head->credit, n) + n;
	uint32_t c = GM_KMA_CLASS(credit) - 1;
	if (c >= GM_KMA_CLASSES ||
	    GM_KMA_FREE(credit) != (int32_t)gm_load32_cached(&kma->blocks[c]))
		return;
	if (gm_cas64(&head->credit, credit, GM_KMA_EMPTY) != credit)
		return;
	uint64_t active = gm_load64(&kma->class_[c].active);
	if ((uint32_t)active == superblock)
		gm_kma_swap(kma, c, active, 0);
	gm_stock_put(heap, superblock - 1);
}

/* Take the superblock that is ready, or a free one; 0: there is none. */
GM_DEVICE uint32_t gm_kma_take_ready(struct gm_heap *heap, uint32_t c)
{
	struct gm_kma *kma = gm_kma_of(heap);
	uint32_t *ready = &kma->class_[c].ready, superblock = gm_load32(ready);
	if (superblock && gm_cas32(ready, superblock, 0) == superblock)
		return superblock;
	return gm_kma_take(heap, c, true);
}

/* Make another superblock active in the place of `seen`. False: there is none. */
GM_DEVICE_SLOW bool gm_kma_bring(struct gm_heap *heap, uint32_t c, uint64_t seen)
{
	struct gm_kma *kma = gm_kma_of(heap);
	uint32_t blocks = kma->blocks[c], *ready = &kma->class_[c].ready, superblock;
	if (gm_load64(&kma->class_[c].active) != seen)
		return true;
	superblock = gm_kma_take_ready(heap, c);
	if (!superblock) {
		if ((uint32_t)seen)
			gm_kma_swap(kma, c, seen, 0);
		return gm_load64(&kma->class_[c].active) != seen;
	}
	/* Make one ready for the next time, without waiting for the host. */
	if (gm_kma_swap(kma, c, seen, superblock))
		superblock = blocks == 1 || gm_load32(ready) != 0 ? 0 : gm_kma_take(heap, c, false);
	if (superblock && (gm_load32(ready) != 0 || gm_cas32(ready, 0, superblock) != 0)) {
		gm_add64_sync(&gm_kma_head(heap, superblock)->credit, 0 - GM_KMA_OF(c) - blocks);
		gm_stock_put(heap, superblock - 1);
	}
	return true;
}

/*
 * The class has no active superblock with credit: bring one, or wait for a lane that does; `turn`
 * counts the calls. False: there is none.
 */
GM_DEVICE_SLOW bool gm_kma_activate(struct gm_heap *heap, uint32_t c, uint64_t seen, uint32_t turn)
{
	struct gm_kma *kma = gm_kma_of(heap);
	uint32_t *bringing = &kma->class_[c].bringing;
	bool overdue = turn % GM_KMA_PATIENCE == GM_KMA_PATIENCE - 1, first = false;
	if ((uint32_t)seen == 0)
		first = gm_load32(bringing) == 0 && gm_cas32(bringing, 0, 1) == 0;
	if (!first && !overdue) {
		gm_pause(100u << (turn < 5 ? turn : 5));
		return true;
	}
	bool more = gm_kma_bring(heap, c, seen);
	if (first)
		gm_store32_release(bringing, 0);
	return more;
}

/* Take a block for which the caller has credit, searched from `at` on. */
GM_DEVICE_SLOW void *gm_kma_block(struct gm_kma *kma, struct gm_kma_head *head, uint32_t c,
				  uint32_t at)
{
	uint32_t blocks = kma->blocks[c], words = (blocks + 31) >> 5;
	uint32_t *bits = gm_kma_bits(head, blocks);
	for (uint32_t w = at >> 5, from = at & 31;; w = w + 1 == words ? 0 : w + 1) {
		uint32_t free = ~gm_load32(&bits[w]);
		if (w == words - 1 && blocks & 31)
			free &= (1u << (blocks & 31)) - 1;
		while (free) {
			uint32_t above = free >> from << from, some = above ? above : free;
			uint32_t bit = some & (~some + 1);
			uint32_t old = gm_or32_sync(&bits[w], bit);
			if (!(old & bit))
				return gm_kma_address(kma, head, c, w << 5 | gm_ctz(bit));
			free &= ~old & ~bit;
		}
	}
}

/* The class whose blocks hold `size` bytes, or GM_KMA_CLASSES. */
GM_DEVICE uint32_t gm_kma_class_of(const struct gm_kma *kma, size_t size)
{
	uint32_t c = size <= 16 ? 0 : gm_log2(size - 1) - 3;
	if (size > GM_KMA_SUPERBLOCK)
		return GM_KMA_CLASSES;
	return size > gm_load32_cached(&kma->size[c]) ? c + 1 : c; /* 16 KiB: c is the last one */
}

#define GM_KMA_NONE (~0ull)

/*
 * Take credit for up to `wanted` blocks of the superblock of `active`. Returns free blocks << 8 |
 * blocks with credit. Without any credit the upper part is the excess that other lanes subtracted:
 * the number of blocks wanted before the caller's.
 */
GM_DEVICE_SLOW uint64_t gm_kma_credit(struct gm_heap *heap, uint32_t c, uint64_t active,
				      uint32_t wanted)
{
	struct gm_kma *kma = gm_kma_of(heap);
	uint32_t superblock = (uint32_t)active, n;
	struct gm_kma_head *head = gm_kma_head(heap, superblock);
	int32_t free = 0;
	if (superblock) {
		uint64_t credit = gm_load64(&head->credit);
		if (GM_KMA_CLASS(credit) == c + 1 && GM_KMA_FREE(credit) > 0) {
			credit = gm_add64_sync(&head->credit, 0ull - wanted);
			free = GM_KMA_CLASS(credit) == c + 1 ? GM_KMA_FREE(credit) : 0;
			if (free < (int32_t)wanted)
				gm_kma_add(heap, superblock,
					   free > 0 ? wanted - (uint32_t)free : wanted);
		} else if (GM_KMA_CLASS(credit) != c + 1) {
			gm_kma_swap(kma, c, active, 0); /* of another class by now */
		} else {
			free = GM_KMA_FREE(credit);
		}
	}
	n = free <= 0 ? 0 : free < (int32_t)wanted ? (uint32_t)free : wanted;
	return (uint64_t)(uint32_t)(free < 0 ? -free : free) << 8 | n;
}

/*
 * By a leader: superblock << 32 | free blocks << 8 | those of the `wanted` blocks with credit. 0:
 * try again; GM_KMA_NONE: there is none. `turn` counts the calls. A warp waits for the superblock
 * that will have credit for it to become active: *when is its tag.
 */
GM_DEVICE uint64_t gm_kma_lead(struct gm_heap *heap, uint32_t c, uint32_t wanted, uint32_t turn,
			       uint32_t *when)
{
	struct gm_kma *kma = gm_kma_of(heap);
	uint64_t active = gm_load64_acquire(&kma->class_[c].active), credit;
	int32_t before = (int32_t)(*when - (uint32_t)(active >> 32));
	if ((uint32_t)active && turn && before > 0 &&
	    turn % GM_KMA_PATIENCE != GM_KMA_PATIENCE - 1) {
		gm_pause(200u * (before < 32 ? (uint32_t)before : 32));
		return 0;
	}
	credit = gm_kma_credit(heap, c, active, wanted);
	uint32_t n = (uint32_t)credit & 255, free = (uint32_t)(credit >> 8);
	if (n && n == free)
		gm_kma_bring(heap, c, active);
	if (n)
		return active << 32 | (uint32_t)credit;
	*when = (uint32_t)(active >> 32) + 1 + free / gm_load32_cached(&kma->blocks[c]);
	return gm_kma_activate(heap, c, active, turn) ? 0 : GM_KMA_NONE;
}

/* Allocate from active superblocks, for the lanes of `mask`. */
GM_DEVICE_SLOW void *gm_kma_malloc_some(struct gm_heap *heap, uint32_t c, uint32_t mask)
{
	uint32_t when = 0;
	for (uint32_t turn = 0;; turn++) {
		uint64_t got = 0;
		if (gm_lane() == gm_leader(mask))
			got = gm_kma_lead(heap, c, gm_popc(mask), turn, &when);
		gm_syncwarp(mask); /* all see the memory like the leader */
		got = gm_shfl(mask, got, gm_leader(mask));
		if (got == GM_KMA_NONE)
			return NULL;
		uint32_t served = gm_first(mask, (uint32_t)got & 255);
		if (served >> gm_lane() & 1)
			return gm_kma_block(gm_kma_of(heap),
					    gm_kma_head(heap, (uint32_t)(got >> 32)), c,
					    ((uint32_t)got >> 8) - 1 - gm_rank(mask));
		mask &= ~served;
	}
}

/* Allocate whole superblocks for the lanes of `mask`, a block for each. NULL: there was none. */
GM_DEVICE_SLOW void *gm_kma_malloc_full(struct gm_heap *heap, uint32_t c, uint32_t mask)
{
	struct gm_kma *kma = gm_kma_of(heap);
	uint32_t blocks = kma->blocks[c], rank = gm_rank(mask), superblock = 0;
	uint32_t takers = gm_first(mask, gm_popc(mask) / blocks);
	if (takers >> gm_lane() & 1)
		superblock = gm_kma_begin(heap, gm_stock_get(heap, takers), c, ~0u, 0);
	gm_syncwarp(mask);
	superblock = gm_shfl32(mask, superblock, gm_nth(mask, rank / blocks));
	return superblock ? gm_kma_address(kma, gm_kma_head(heap, superblock), c, rank % blocks)
			  : NULL;
}

/* Active lanes of the same class take their blocks together. */
GM_DEVICE void *gm_kma_malloc(struct gm_heap *heap, size_t size)
{
	struct gm_kma *kma = gm_kma_of(heap);
	uint32_t c = gm_kma_class_of(kma, size);
	if (c >= GM_KMA_CLASSES)
		return gm_run_malloc(heap, size);
	uint32_t mask = gm_match(gm_active(), c), wanted = gm_popc(mask);
	uint32_t full = gm_first(mask, wanted - wanted % gm_load32_cached(&kma->blocks[c]));
	void *block = NULL;
	if (full >> gm_lane() & 1) {
		block = gm_kma_malloc_full(heap, c, full);
		mask = gm_ballot(full, block == NULL);
	} else {
		mask &= ~full;
	}
	if (block == NULL)
		block = gm_kma_malloc_some(heap, c, mask);
	if (block == NULL)
		gm_add64(&heap->refusals, 1);
	return block;
}

/* --- free --- */

/*
 * The bit, in *word, of the block that begins at an address in a granule of the policy; *c: its
 * class. 0: no block begins there.
 */
GM_DEVICE uint32_t gm_kma_find(const struct gm_heap *heap, const void *address, uint32_t *c,
			       uint32_t **word)
{
	const struct gm_kma *kma = gm_kma_of(heap);
	uint64_t offset = (uint64_t)(uintptr_t)address - heap->base;
	uint32_t superblock = (uint32_t)(offset >> GM_KMA_SHIFT);
	struct gm_kma_head *head = gm_kma_head(heap, superblock + 1);
	/* For an address in the head this wraps beyond the last block. */
	uint32_t at = ((uint32_t)offset & (GM_KMA_SUPERBLOCK - 1)) - GM_KMA_HEAD;
	if (!gm_cut_has(heap, superblock / GM_KMA_SUPERBLOCKS, superblock % GM_KMA_SUPERBLOCKS))
		return 0;
	*c = GM_KMA_CLASS(gm_load64(&head->credit)) - 1;
	if (*c >= GM_KMA_CLASSES)
		return 0;
	uint32_t size = gm_load32_cached(&kma->size[*c]), block = at / size;
	uint32_t blocks = gm_load32_cached(&kma->blocks[*c]);
	if (block >= blocks || block * size != at)
		return 0;
	*word = gm_kma_bits(head, blocks) + (block >> 5);
	return 1u << (block & 31);
}

GM_DEVICE void gm_kma_free(struct gm_heap *heap, void *address)
{
	uint64_t offset = (uint64_t)(uintptr_t)address - heap->base;
	uint32_t granule, c, *word = NULL;
	if (!gm_run_is_cut(heap, address, &granule)) {
		gm_run_free(heap, address);
		return;
	}
	uint32_t bit = gm_kma_find(heap, address, &c, &word);
	if (bit && gm_and32_sync(word, ~bit) & bit)
		gm_kma_add(heap, (uint32_t)(offset >> GM_KMA_SHIFT) + 1, 1);
	else
		gm_add64(&heap->foreign_frees, 1);
}

GM_DEVICE size_t gm_kma_usable(struct gm_heap *heap, const void *address)
{
	uint32_t granule, c = 0, *word = NULL;
	if (!gm_run_is_cut(heap, address, &granule))
		return gm_run_usable(heap, address);
	uint32_t bit = gm_kma_find(heap, address, &c, &word);
	return bit && gm_load32(word) & bit ? gm_kma_of(heap)->size[c] : 0;
}

/* --- setting up, and between kernels --- */

GM_DEVICE_HOST size_t gm_kma_bytes(uint32_t capacity)
{
	return sizeof(struct gm_kma) + (size_t)capacity * GM_KMA_SUPERBLOCKS * sizeof(uint64_t);
}

GM_DEVICE void gm_kma_init(struct gm_heap *heap, uint32_t thread, uint32_t threads)
{
	struct gm_kma *kma = gm_kma_of(heap);
	uint32_t room = GM_KMA_SUPERBLOCK - GM_KMA_HEAD;
	(void)threads;
	if (thread != 0)
		return;
	gm_cut_init(heap, 0, GM_KMA_SUPERBLOCKS);
	kma->free.back.slot = (uint64_t *)(kma + 1);
	kma->free.back.size = (uint64_t)heap->capacity * GM_KMA_SUPERBLOCKS;
	for (uint32_t c = 0; c < GM_KMA_CLASSES; c++) {
		uint32_t size = 16u << c, blocks = GM_KMA_SUPERBLOCK / size;
		uint32_t bits = (blocks + 31) / 32 * 4;
		if (size * size <= GM_KMA_SUPERBLOCK)
			blocks = room / size - (bits + size - 1) / size;
		else
			size = (room - bits) / blocks & ~15u;
		kma->size[c] = size;
		kma->blocks[c] = blocks;
	}
}

GM_DEVICE void gm_kma_trim(struct gm_heap *heap)
{
	(void)heap;
}

/* Blocks in use of one superblock. */
GM_DEVICE uint64_t gm_kma_live(const struct gm_heap *heap, uint32_t superblock)
{
	uint64_t credit = gm_load64(&gm_kma_head(heap, superblock)->credit);
	uint32_t c = GM_KMA_CLASS(credit) - 1;
	if (c >= GM_KMA_CLASSES)
		return 0;
	return (uint64_t)(gm_kma_of(heap)->blocks[c] - (uint32_t)GM_KMA_FREE(credit)) *
	       gm_kma_of(heap)->size[c];
}

GM_DEVICE void gm_kma_stats(struct gm_heap *heap, struct gm_heap_stats *stats)
{
	uint64_t next = gm_load64(&gm_cut_of(heap)->next);
	gm_run_stats(heap, stats);
	for (uint32_t g = 0; g < heap->capacity; g++) {
		if (gm_load32(&heap->run[g]) != GM_RUN_CUT)
			continue;
		/* Of the last granule, only the superblocks that were cut off. */
		uint32_t n = g + 1 == next >> 32 ? (uint32_t)next : GM_KMA_SUPERBLOCKS;
		for (uint32_t k = 0; k < n && k < GM_KMA_SUPERBLOCKS; k++)
			stats->live_bytes += gm_kma_live(heap, g * GM_KMA_SUPERBLOCKS + k + 1);
	}
}

#endif
