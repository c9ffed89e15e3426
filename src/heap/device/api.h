/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of gpumem_device(3), on a heap of policy `granule`. In the common language of C11
 * and CUDA C++, like the rest, so that the emulation runs them, too.
 */
#ifndef GM_HEAP_DEVICE_API_H
#define GM_HEAP_DEVICE_API_H

#include "heap/device/aligned.h"
#include "heap/device/granule.h"

/* --- as in <stdlib.h> --- */

/* Not inlined: a kernel with many calls has one copy of each. */
GM_DEVICE_SLOW void *gpumem_malloc(struct gm_heap *heap, size_t size)
{
	return gm_granule_malloc(heap, size);
}

GM_DEVICE_SLOW void gpumem_free(struct gm_heap *heap, void *block)
{
	gm_granule_free(heap, block);
}

GM_DEVICE size_t gpumem_usable_size(struct gm_heap *heap, const void *block)
{
	return gm_granule_usable(heap, block);
}

/* Copies whole words: both are 16-byte aligned, and the last word is allocated in full. */
GM_DEVICE void gm_api_copy(void *to, const void *from, size_t size)
{
	for (size_t i = 0; i < (size + 7) / 8; i++)
		((uint64_t *)to)[i] = ((const uint64_t *)from)[i];
}

GM_DEVICE void *gpumem_calloc(struct gm_heap *heap, size_t count, size_t size)
{
	size_t bytes = count * size;
	if (size && bytes / size != count)
		return NULL;
	uint64_t *block = (uint64_t *)gpumem_malloc(heap, bytes);
	for (size_t i = 0; block && i < (bytes + 7) / 8; i++)
		block[i] = 0;
	return block;
}

GM_DEVICE void *gpumem_realloc(struct gm_heap *heap, void *block, size_t size)
{
	size_t usable = gpumem_usable_size(heap, block);
	if (block && size <= usable && size >= usable / 4)
		return block;
	void *moved = gpumem_malloc(heap, size);
	if (moved && block) {
		gm_api_copy(moved, block, size < usable ? size : usable);
		gpumem_free(heap, block);
	}
	return moved;
}

/* `alignment`: a power of two, up to a granule. */
GM_DEVICE void *gpumem_aligned_alloc(struct gm_heap *heap, size_t alignment, size_t size)
{
	uint64_t least = gm_aligned_size(GM_ALIGNED_WIDE, alignment, size);
	return least ? gpumem_malloc(heap, least) : NULL;
}

/* --- one allocation for a warp, or for a block --- */

/* The sum of the sizes of the lanes of `mask` below the caller's; *all: of all lanes. */
GM_DEVICE uint64_t gm_api_scan(uint32_t mask, uint64_t size, uint64_t *all)
{
	uint64_t before = 0, sum = 0;
	for (uint32_t rest = mask; rest; rest &= rest - 1) {
		uint64_t other = gm_shfl(mask, size, gm_ctz(rest));
		before += gm_ctz(rest) < gm_lane() ? other : 0;
		sum += other;
	}
	*all = sum;
	return before;
}

GM_DEVICE uint64_t gm_api_round(size_t size)
{
	return ((uint64_t)size + 15) & ~15ull;
}

/* All lanes of `mask` call it, each with its own size: each gets its part of one allocation. */
GM_DEVICE void *gpumem_warp_malloc(struct gm_heap *heap, uint32_t mask, size_t size)
{
	mask = gm_mask_hide(mask, mask);
	uint64_t all, before = gm_api_scan(mask, gm_api_round(size), &all), base = 0;
	if (gm_lane() == gm_leader(mask))
		base = (uint64_t)(uintptr_t)gpumem_malloc(heap, all);
	base = gm_shfl(mask, base, gm_leader(mask));
	gm_syncwarp(mask);
	return base ? (void *)(uintptr_t)(base + before) : NULL;
}

/* All lanes of the same mask call it, each with its part. */
GM_DEVICE void gpumem_warp_free(struct gm_heap *heap, uint32_t mask, void *part)
{
	mask = gm_mask_hide(mask, mask);
	gm_syncwarp(mask);
	if (gm_lane() == gm_leader(mask))
		gpumem_free(heap, part);
}

/* In shared memory, one for each collective call in progress. */
struct gpumem_block {
	uint64_t warp[GM_WARP]; /* bytes that the warps before it need */
	uint64_t base;
};

/* The whole block, of whole warps, calls it: each thread gets its part of one allocation. */
GM_DEVICE void *gpumem_block_malloc(struct gm_heap *heap, struct gpumem_block *block, size_t size)
{
	uint64_t all, before = gm_api_scan(~0u, gm_api_round(size), &all);
	if (gm_lane() == 0)
		block->warp[gm_block_warp()] = all;
	gm_block_sync();
	if (gm_block_warp() == 0 && gm_lane() == 0) {
		uint64_t sum = 0;
		for (uint32_t w = 0; w < gm_block_warps(); w++) {
			uint64_t needs = block->warp[w];
			block->warp[w] = sum;
			sum += needs;
		}
		block->base = (uint64_t)(uintptr_t)gpumem_malloc(heap, sum);
	}
	gm_block_sync();
	uint64_t base = block->base;
	return base ? (void *)(uintptr_t)(base + block->warp[gm_block_warp()] + before) : NULL;
}

GM_DEVICE void gpumem_block_free(struct gm_heap *heap, struct gpumem_block *block)
{
	gm_block_sync();
	if (gm_block_warp() == 0 && gm_lane() == 0)
		gpumem_free(heap, (void *)(uintptr_t)block->base);
}

/* --- arenas: many allocations, one free --- */

#define GPUMEM_ARENA_PIECE 65536u

/* A part of an arena; allocations follow. */
struct gm_arena_piece {
	struct gm_arena_piece *next;
	uint64_t used; /* bytes; may exceed GPUMEM_ARENA_PIECE */
};

/* Empty when zero. In memory that all its users can access. */
struct gpumem_arena {
	uint64_t top;	/* the piece to allocate from */
	uint64_t large; /* list of pieces that hold one allocation each */
};

GM_DEVICE struct gm_arena_piece *gm_arena_piece(uint64_t address)
{
	return (struct gm_arena_piece *)(uintptr_t)address;
}

/* A large allocation has a piece of its own. */
GM_DEVICE_SLOW void *gm_arena_large(struct gm_heap *heap, struct gpumem_arena *arena, uint64_t size)
{
	struct gm_arena_piece *piece =
		(struct gm_arena_piece *)gpumem_malloc(heap, size + sizeof *piece);
	if (piece == NULL)
		return NULL;
	uint64_t seen = gm_any_load64(&arena->large), next;
	do {
		next = seen;
		piece->next = gm_arena_piece(next);
		seen = gm_any_cas64(&arena->large, next, (uint64_t)(uintptr_t)piece);
	} while (seen != next);
	return piece + 1;
}

/* Put a new piece on `top`, which is full, and allocate `size` bytes of it. NULL: another lane has
 * put one there; or, with *full, there is no memory. */
GM_DEVICE_SLOW void *gm_arena_more(struct gm_heap *heap, struct gpumem_arena *arena, uint64_t top,
				   uint64_t size, bool *full)
{
	if (gm_any_load64(&arena->top) != top)
		return NULL;
	struct gm_arena_piece *piece =
		(struct gm_arena_piece *)gpumem_malloc(heap, GPUMEM_ARENA_PIECE);
	*full = piece == NULL;
	if (*full)
		return NULL;
	piece->next = gm_arena_piece(top);
	piece->used = sizeof *piece + size;
	if (gm_any_cas64(&arena->top, top, (uint64_t)(uintptr_t)piece) == top)
		return piece + 1;
	gpumem_free(heap, piece);
	return NULL;
}

/* Any lanes, with one arena or several. */
GM_DEVICE void *gpumem_arena_malloc(struct gm_heap *heap, struct gpumem_arena *arena, size_t bytes)
{
	uint64_t size = bytes ? gm_api_round(bytes) : 16;
	bool full = false;
	void *block = NULL;
	if (size > GPUMEM_ARENA_PIECE / 4)
		return gm_arena_large(heap, arena, size);
	while (block == NULL && !full) {
		uint64_t top = gm_any_load64_acquire(&arena->top), at = GPUMEM_ARENA_PIECE;
		if (top && gm_load64(&gm_arena_piece(top)->used) + size <= GPUMEM_ARENA_PIECE)
			at = gm_add64(&gm_arena_piece(top)->used, size);
		if (at + size <= GPUMEM_ARENA_PIECE)
			return (char *)(uintptr_t)top + at;
		block = gm_arena_more(heap, arena, top, size, &full);
	}
	return block;
}

GM_DEVICE void gm_arena_drop(struct gm_heap *heap, uint64_t list)
{
	for (struct gm_arena_piece *piece = gm_arena_piece(list), *next; piece; piece = next) {
		next = piece->next;
		gpumem_free(heap, piece);
	}
}

/* One lane calls it, while no other lane uses the arena. The arena is empty afterwards. */
GM_DEVICE void gpumem_arena_free(struct gm_heap *heap, struct gpumem_arena *arena)
{
	gm_arena_drop(heap, gm_any_exch64(&arena->top, 0));
	gm_arena_drop(heap, gm_any_exch64(&arena->large, 0));
}

#endif
