/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Policy `kma` (Spliet, "A comprehensive study of Dynamic Memory Management in OpenCL kernels", TU
 * Delft 2013, 5.1): superblocks of equal blocks, one active superblock a size class.
 *
 *   superblock  16 KiB of a granule: head, blocks, and at its end a bit a block, set while in use
 *   credit      of a superblock: its blocks that are free, and its class; one word
 *   active      the class allocates from it; without credit it becomes inactive, and when all its
 *               blocks are free it goes to the free list, whatever it was
 *
 * An inactive superblock is not allocated from before all of it is free (5.1.1), so a heap can be
 * full of half-empty ones. Block sizes are powers of two up to 128 bytes, and a bit less above
 * that, so that the superblock has no rest (5.1.1, block size heuristics).
 *
 * The free list is the queue of Michael and Scott with tagged references, which needs one element
 * that stays: the paper gives up a superblock for it, here it is the one in struct gm_kma. Credit
 * comes back after the block's bit is clear, not before: who has credit finds a clear bit.
 */
#ifndef GM_HEAP_DEVICE_KMA_H
#define GM_HEAP_DEVICE_KMA_H

#include "heap/device/run.h"

enum {
	GM_KMA_SHIFT = 14,
	GM_KMA_SUPERBLOCK = 1 << GM_KMA_SHIFT,
	GM_KMA_SUPERBLOCKS = 1 << (GM_GRANULE_SHIFT - GM_KMA_SHIFT), /* of a granule */
	GM_KMA_CLASSES = 11,					     /* 16 bytes to 16 KiB */
	GM_KMA_HEAD = 32,
	GM_KMA_PATIENCE = 64, /* turns of waiting for a superblock that another lane brings */
	GM_KMA_STAYS = 1,     /* the free list's own element; superblock n is n + 2 */
};

#define GM_KMA_NONE (~0ull)

/* Credit: free blocks (16 bits), class + 1 or 0. */
#define GM_KMA_FREE(credit) ((credit)&0xffff)
#define GM_KMA_CLASS(credit) ((credit) >> 16)
#define GM_KMA_OF(c) (((c) + 1) << 16)

struct gm_kma_head {
	uint64_t next; /* tag << 32 | the next element of the free list, or 0 */
	uint32_t credit;
	uint32_t pad[5];
};

struct gm_kma {
	struct gm_cut cut;
	uint64_t head; /* tag << 32 | element */
	uint64_t tail;
	struct gm_kma_head stays;
	uint32_t size[GM_KMA_CLASSES]; /* of a block */
	uint32_t blocks[GM_KMA_CLASSES];
	struct {
		uint64_t active;   /* tag << 32 | element, or 0 */
		uint32_t bringing; /* a lane is about to make one active */
		uint32_t pad[13];
	} class_[GM_KMA_CLASSES];
};

GM_DEVICE struct gm_kma *gm_kma_of(const struct gm_heap *heap)
{
	return (struct gm_kma *)heap->policy;
}

GM_DEVICE struct gm_kma_head *gm_kma_head(const struct gm_heap *heap, uint32_t element)
{
	if (element == GM_KMA_STAYS)
		return &gm_kma_of(heap)->stays;
	return (struct gm_kma_head *)(uintptr_t)(heap->base +
						 ((uint64_t)(element - 2) << GM_KMA_SHIFT));
}

GM_DEVICE uint32_t *gm_kma_bits(struct gm_kma_head *head, uint32_t blocks)
{
	return (uint32_t *)((char *)head + GM_KMA_SUPERBLOCK) - ((blocks + 31) >> 5);
}

/* --- the free list --- */

GM_DEVICE_SLOW void gm_kma_enqueue(struct gm_heap *heap, uint32_t element)
{
	struct gm_kma *kma = gm_kma_of(heap);
	struct gm_kma_head *head = gm_kma_head(heap, element);
	gm_store64(&head->next, ((gm_load64(&head->next) >> 32) + 1) << 32);
	for (;;) {
		uint64_t tail = gm_load64_acquire(&kma->tail);
		uint64_t *last = &gm_kma_head(heap, (uint32_t)tail)->next;
		uint64_t next = gm_load64_acquire(last);
		uint64_t moved = ((tail >> 32) + 1) << 32;
		if (tail != gm_load64(&kma->tail))
			continue;
		if ((uint32_t)next) {
			gm_cas64(&kma->tail, tail, moved | (uint32_t)next);
		} else if (gm_cas64(last, next, ((next >> 32) + 1) << 32 | element) == next) {
			gm_cas64(&kma->tail, tail, moved | element);
			return;
		}
	}
}

/* The first element; 0: it is the only one, and stays. */
GM_DEVICE uint32_t gm_kma_dequeue_any(struct gm_heap *heap)
{
	struct gm_kma *kma = gm_kma_of(heap);
	for (;;) {
		uint64_t first = gm_load64_acquire(&kma->head), tail = gm_load64(&kma->tail);
		uint64_t next = gm_load64_acquire(&gm_kma_head(heap, (uint32_t)first)->next);
		if (first != gm_load64(&kma->head))
			continue;
		if ((uint32_t)next == 0)
			return 0;
		if ((uint32_t)first == (uint32_t)tail)
			gm_cas64(&kma->tail, tail, ((tail >> 32) + 1) << 32 | (uint32_t)next);
		else if (gm_cas64(&kma->head, first, ((first >> 32) + 1) << 32 | (uint32_t)next) ==
			 first)
			return (uint32_t)first;
	}
}

/* A free superblock, or 0. */
GM_DEVICE_SLOW uint32_t gm_kma_dequeue(struct gm_heap *heap)
{
	uint32_t element;
	while ((element = gm_kma_dequeue_any(heap)) == GM_KMA_STAYS)
		gm_kma_enqueue(heap, GM_KMA_STAYS);
	if (element)
		return element;
	uint64_t at = gm_cut_take(heap, &gm_kma_of(heap)->cut, 1, true);
	if (at == GM_CUT_NONE)
		return 0;
	element = (uint32_t)(at >> 32) * GM_KMA_SUPERBLOCKS + (uint32_t)at + 2;
	gm_store64(&gm_kma_head(heap, element)->next, 0);
	return element;
}

/* --- superblocks --- */

/* `seen` is active in the class: another one, or 0. The tag tells apart two lives of a superblock.
 */
GM_DEVICE bool gm_kma_swap(struct gm_kma *kma, uint32_t c, uint64_t seen, uint32_t element)
{
	return gm_cas64(&kma->class_[c].active, seen, ((seen >> 32) + 1) << 32 | element) == seen;
}

/* Another superblock in the place of `seen`. False: there is none. */
GM_DEVICE_SLOW bool gm_kma_bring(struct gm_heap *heap, uint32_t c, uint64_t seen)
{
	struct gm_kma *kma = gm_kma_of(heap);
	uint32_t element = gm_kma_dequeue(heap), blocks = kma->blocks[c];
	if (!element)
		return gm_load64(&kma->class_[c].active) != seen;
	struct gm_kma_head *head = gm_kma_head(heap, element);
	for (uint32_t w = 0; w < (blocks + 31) >> 5; w++)
		gm_store32(&gm_kma_bits(head, blocks)[w], 0);
	gm_store32_release(&head->credit, GM_KMA_OF(c) | blocks);
	if (!gm_kma_swap(kma, c, seen, element)) {
		gm_store32(&head->credit, 0);
		gm_kma_enqueue(heap, element);
	}
	return true;
}

/*
 * The class has no active superblock: bring one, or wait for a lane that does; `turn` counts the
 * calls. False: there is none.
 */
GM_DEVICE_SLOW bool gm_kma_activate(struct gm_heap *heap, uint32_t c, uint64_t seen, uint32_t turn)
{
	struct gm_kma *kma = gm_kma_of(heap);
	uint32_t *bringing = &kma->class_[c].bringing;
	bool first = gm_load32(bringing) == 0 && gm_cas32(bringing, 0, 1) == 0;
	if (!first && turn % GM_KMA_PATIENCE != GM_KMA_PATIENCE - 1) {
		gm_pause(200u << (turn < 6 ? turn : 6));
		return true;
	}
	bool more = gm_load64(&kma->class_[c].active) != seen || gm_kma_bring(heap, c, seen);
	if (first)
		gm_store32_release(bringing, 0);
	return more;
}

/* A block for which the caller has credit; it looks from `at` on. */
GM_DEVICE_SLOW void *gm_kma_block(struct gm_kma *kma, struct gm_kma_head *head, uint32_t c,
				  uint32_t at)
{
	uint32_t blocks = kma->blocks[c], words = (blocks + 31) >> 5;
	uint32_t *bits = gm_kma_bits(head, blocks);
	for (uint32_t w = at >> 5;; w = w + 1 == words ? 0 : w + 1) {
		uint32_t free = ~gm_load32(&bits[w]);
		if (w == words - 1 && blocks & 31)
			free &= (1u << (blocks & 31)) - 1;
		while (free) {
			uint32_t bit = free & (~free + 1);
			uint32_t old = gm_or32_sync(&bits[w], bit);
			if (!(old & bit))
				return (char *)head + GM_KMA_HEAD +
				       (w << 5 | gm_ctz(bit)) * kma->size[c];
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

/*
 * Credit for up to `wanted` blocks of the active superblock, all at once: the superblock << 32 |
 * how many were free << 8 | for how many. 0: not yet; GM_KMA_NONE: there is none. `turn` counts the
 * calls.
 */
GM_DEVICE_SLOW uint64_t gm_kma_credit(struct gm_heap *heap, uint32_t c, uint32_t wanted,
				      uint32_t turn)
{
	struct gm_kma *kma = gm_kma_of(heap);
	uint64_t active = gm_load64_acquire(&kma->class_[c].active);
	if ((uint32_t)active == 0)
		return gm_kma_activate(heap, c, active, turn) ? 0 : GM_KMA_NONE;
	struct gm_kma_head *head = gm_kma_head(heap, (uint32_t)active);
	uint32_t credit = gm_load32(&head->credit), free = GM_KMA_FREE(credit);
	uint32_t n = free < wanted ? free : wanted;
	if (GM_KMA_CLASS(credit) != c + 1)
		n = free = 0;
	if (n && gm_cas32(&head->credit, credit, credit - n) != credit) {
		/* Thousands of warps want the same word. */
		gm_pause(500u << (turn < 7 ? turn : 7));
		return 0;
	}
	/* Without credit, or somebody else's by now: it is not active any more. */
	if (n == free)
		gm_kma_swap(kma, c, active, 0);
	return n ? active << 32 | free << 8 | n : 0;
}

/* The lanes that are here for the same class take their credit together. */
GM_DEVICE void *gm_kma_malloc(struct gm_heap *heap, size_t size)
{
	struct gm_kma *kma = gm_kma_of(heap);
	uint32_t c = gm_kma_class_of(kma, size);
	if (c >= GM_KMA_CLASSES)
		return gm_run_malloc(heap, size);
	uint32_t mask = gm_match(gm_active(), c);
	for (uint32_t turn = 0;; turn++) {
		uint64_t got = 0;
		if (gm_lane() == gm_leader(mask))
			got = gm_kma_credit(heap, c, gm_popc(mask), turn);
		gm_syncwarp(mask); /* what the leader saw with the credit, all see now */
		got = gm_shfl(mask, got, gm_leader(mask));
		if (got == GM_KMA_NONE)
			break;
		uint32_t served = gm_first(mask, (uint32_t)got & 255);
		if (served >> gm_lane() & 1)
			return gm_kma_block(kma, gm_kma_head(heap, (uint32_t)(got >> 32)), c,
					    ((uint32_t)got >> 8) - 1 - gm_rank(mask));
		mask &= ~served;
	}
	gm_add64(&heap->refusals, 1);
	return NULL;
}

/* --- free --- */

GM_DEVICE void gm_kma_free(struct gm_heap *heap, void *address)
{
	struct gm_kma *kma = gm_kma_of(heap);
	uint64_t offset = (uint64_t)(uintptr_t)address - heap->base;
	uint32_t granule, element = (uint32_t)(offset >> GM_KMA_SHIFT) + 2;
	if (!gm_run_is_cut(heap, address, &granule)) {
		gm_run_free(heap, address);
		return;
	}
	struct gm_kma_head *head = gm_kma_head(heap, element);
	uint32_t credit = gm_load32(&head->credit), c = GM_KMA_CLASS(credit) - 1, seen, now;
	if (c >= GM_KMA_CLASSES) {
		gm_add64(&heap->foreign_frees, 1);
		return;
	}
	uint32_t blocks = gm_load32_cached(&kma->blocks[c]);
	uint32_t block = ((uint32_t)(offset & (GM_KMA_SUPERBLOCK - 1)) - GM_KMA_HEAD) /
			 gm_load32_cached(&kma->size[c]);
	gm_and32_sync(&gm_kma_bits(head, blocks)[block >> 5], ~(1u << (block & 31)));
	for (;; credit = seen) {
		now = GM_KMA_FREE(credit) + 1 == blocks ? 0 : credit + 1;
		if ((seen = gm_cas32(&head->credit, credit, now)) == credit)
			break;
	}
	if (now == 0) {
		uint64_t active = gm_load64(&kma->class_[c].active);
		if ((uint32_t)active == element)
			gm_kma_swap(kma, c, active, 0);
		gm_kma_enqueue(heap, element);
	}
}

GM_DEVICE size_t gm_kma_usable(struct gm_heap *heap, const void *address)
{
	uint64_t offset = (uint64_t)(uintptr_t)address - heap->base;
	uint32_t granule;
	if (!gm_run_is_cut(heap, address, &granule))
		return gm_run_usable(heap, address);
	uint32_t credit =
		gm_load32(&gm_kma_head(heap, (uint32_t)(offset >> GM_KMA_SHIFT) + 2)->credit);
	return credit ? gm_kma_of(heap)->size[GM_KMA_CLASS(credit) - 1] : 0;
}

/* --- setting up, and at rest --- */

GM_DEVICE_HOST size_t gm_kma_bytes(uint32_t capacity)
{
	(void)capacity;
	return sizeof(struct gm_kma);
}

GM_DEVICE void gm_kma_init(struct gm_heap *heap, uint32_t thread, uint32_t threads)
{
	struct gm_kma *kma = gm_kma_of(heap);
	uint32_t room = GM_KMA_SUPERBLOCK - GM_KMA_HEAD;
	(void)threads;
	if (thread != 0)
		return;
	gm_cut_init(&kma->cut, 0, GM_KMA_SUPERBLOCKS);
	kma->head = kma->tail = GM_KMA_STAYS;
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
GM_DEVICE uint64_t gm_kma_live(const struct gm_heap *heap, uint32_t element)
{
	uint32_t credit = gm_load32(&gm_kma_head(heap, element)->credit);
	uint32_t c = GM_KMA_CLASS(credit) - 1;
	if (credit == 0)
		return 0;
	return (uint64_t)(gm_kma_of(heap)->blocks[c] - GM_KMA_FREE(credit)) *
	       gm_kma_of(heap)->size[c];
}

GM_DEVICE void gm_kma_stats(struct gm_heap *heap, struct gm_heap_stats *stats)
{
	uint64_t next = gm_load64(&gm_kma_of(heap)->cut.next);
	gm_run_stats(heap, stats);
	stats->static_bytes += gm_kma_bytes(heap->capacity);
	for (uint32_t g = 0; g < heap->capacity; g++) {
		if (gm_load32(&heap->run[g]) != GM_RUN_CUT)
			continue;
		/* Of the granule that is being cut, only what was cut off. */
		uint32_t n = g + 1 == next >> 32 ? (uint32_t)next : GM_KMA_SUPERBLOCKS;
		for (uint32_t k = 0; k < n && k < GM_KMA_SUPERBLOCKS; k++)
			stats->live_bytes += gm_kma_live(heap, g * GM_KMA_SUPERBLOCKS + k + 2);
	}
}

#endif
