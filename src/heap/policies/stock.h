/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stock of numbered pieces of granules: freed ones first, from an index queue, and then new ones,
 * cut off a granule. The lanes of a mask get theirs together.
 */
#ifndef GM_HEAP_POLICIES_STOCK_H
#define GM_HEAP_POLICIES_STOCK_H

#include "heap/policies/run.h"

/*
 * The index queue (Winter's thesis, 5.2.3, algorithm 5): a ring of numbers that are not 0. A lane
 * gets a place by adding to a counter, and never has to retry. The ring has room for all numbers
 * that are ever put into it.
 */
struct gm_ring {
	uint64_t *slot;
	uint64_t size;
	uint64_t count;
	uint64_t front;
	uint64_t back;
	uint64_t pad[3];
};

GM_DEVICE_SLOW void gm_ring_put(struct gm_ring *ring, uint64_t value)
{
	uint64_t at = gm_add64(&ring->back, 1) % ring->size;
	while (gm_cas64(&ring->slot[at], 0, value) != 0)
		gm_pause(100);
	gm_add64(&ring->count, 1);
}

/*
 * A claim in one word: number of places << 56 | GM_RING_NEW | the first place. A variable of the
 * caller instead would be in its stack frame.
 */
#define GM_RING_N(claim) ((uint32_t)((claim) >> 56))
#define GM_RING_CLAIM(n, at) ((uint64_t)(n) << 56 | (at))
#define GM_RING_NEW (1ull << 55) /* not in the ring: numbers that were not in use before */
#define GM_RING_AT(claim) ((claim) & (GM_RING_NEW - 1))

/* Claim the places of up to `wanted` numbers, fewer than 256; 0: there are none. */
GM_DEVICE uint64_t gm_ring_claim(struct gm_ring *ring, uint32_t wanted)
{
	if ((int64_t)gm_load64(&ring->count) <= 0)
		return 0;
	int64_t count = (int64_t)gm_add64(&ring->count, 0ull - wanted);
	uint32_t n = count <= 0 ? 0 : count < (int64_t)wanted ? (uint32_t)count : wanted;
	if (n < wanted)
		gm_add64(&ring->count, wanted - n);
	return n ? GM_RING_CLAIM(n, gm_add64(&ring->front, n)) : 0;
}

/* The number at a claimed place. */
GM_DEVICE_SLOW uint64_t gm_ring_read(struct gm_ring *ring, uint64_t at)
{
	uint64_t value;
	while ((value = gm_exch64(&ring->slot[at % ring->size], 0)) == 0)
		gm_pause(100);
	return value;
}

/* The first part of a policy's memory, heap->policy. */
struct gm_stock {
	struct gm_cut cut;   /* the first member */
	struct gm_ring back; /* number + 1 */
};

#define GM_STOCK_NONE (~0ull)

GM_DEVICE struct gm_stock *gm_stock_of(const struct gm_heap *heap)
{
	return (struct gm_stock *)heap->policy;
}

GM_DEVICE void gm_stock_put(struct gm_heap *heap, uint32_t piece)
{
	gm_ring_put(&gm_stock_of(heap)->back, (uint64_t)piece + 1);
}

/* By one lane: claim up to `wanted` pieces, those of the ring first; 0: there are none. `wait`: for
 * the host. */
GM_DEVICE_SLOW uint64_t gm_stock_claim(struct gm_heap *heap, uint32_t wanted, bool wait)
{
	struct gm_stock *stock = gm_stock_of(heap);
	uint64_t claim = gm_ring_claim(&stock->back, wanted), at;
	uint32_t n;
	if (claim)
		return claim;
	at = gm_cut_some(heap, wanted, wait, &n);
	if (at == GM_CUT_NONE)
		return gm_ring_claim(&stock->back, wanted);
	return GM_RING_CLAIM(n, GM_RING_NEW | ((at >> 32) * stock->cut.steps + (uint32_t)at));
}

/* The piece of the lane of rank `rank` among the lanes that a claim serves; with GM_RING_NEW if it
 * was cut off a granule. */
GM_DEVICE uint64_t gm_stock_piece(struct gm_heap *heap, uint64_t claim, uint32_t rank)
{
	uint64_t at = GM_RING_AT(claim) + rank;
	if (claim & GM_RING_NEW)
		return GM_RING_NEW | at;
	return gm_ring_read(&gm_stock_of(heap)->back, at) - 1;
}

/* By one lane: a piece, or GM_STOCK_NONE. */
GM_DEVICE uint64_t gm_stock_get_one(struct gm_heap *heap, bool wait)
{
	uint64_t claim = gm_stock_claim(heap, 1, wait);
	return claim ? gm_stock_piece(heap, claim, 0) : GM_STOCK_NONE;
}

/* By all lanes of `mask`: a piece for each of them, or GM_STOCK_NONE; waits for the host if there
 * is none. */
GM_DEVICE_SLOW uint64_t gm_stock_get(struct gm_heap *heap, uint32_t mask)
{
	uint64_t claim = 0;
	uint32_t served = 0;
	do {
		mask &= ~served;
		if (gm_lane() == gm_leader(mask))
			claim = gm_stock_claim(heap, gm_popc(mask), true);
		claim = gm_shfl(mask, claim, gm_leader(mask));
		if (claim == 0)
			return GM_STOCK_NONE;
		served = gm_first(mask, GM_RING_N(claim));
	} while (!(served >> gm_lane() & 1));
	return gm_stock_piece(heap, claim, gm_rank(served));
}

#endif
