/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stock of numbered pieces of granules: freed ones first, from an index queue, and then new ones,
 * cut off a granule. The lanes of a mask get theirs together.
 */
#ifndef GM_HEAP_DEVICE_STOCK_H
#define GM_HEAP_DEVICE_STOCK_H

#include "heap/device/run.h"

/*
 * The index queue (Winter's thesis, 5.2.3, algorithm 5): a ring of numbers that are not 0. A lane
 * gets a place by adding to a counter, and never has to try again. The ring has room for all
 * numbers that are ever put there.
 */
struct gm_ring {
	uint64_t *slot;
	uint64_t size;
	uint64_t count;
	uint64_t front;
	uint64_t back;
	uint64_t pad[3];
};

GM_DEVICE void gm_ring_put(struct gm_ring *ring, uint64_t value)
{
	uint64_t at = gm_add64(&ring->back, 1) % ring->size;
	while (gm_cas64(&ring->slot[at], 0, value) != 0)
		gm_pause(100);
	gm_add64(&ring->count, 1);
}

/* Claim the places of up to `wanted` numbers, from *at on: how many. */
GM_DEVICE uint32_t gm_ring_claim(struct gm_ring *ring, uint32_t wanted, uint64_t *at)
{
	if ((int64_t)gm_load64(&ring->count) <= 0)
		return 0;
	int64_t count = (int64_t)gm_add64(&ring->count, 0ull - wanted);
	uint32_t n = count <= 0 ? 0 : count < (int64_t)wanted ? (uint32_t)count : wanted;
	if (n < wanted)
		gm_add64(&ring->count, wanted - n);
	*at = n ? gm_add64(&ring->front, n) : 0;
	return n;
}

/* The number at a place that was claimed. */
GM_DEVICE uint64_t gm_ring_read(struct gm_ring *ring, uint64_t at)
{
	uint64_t value;
	while ((value = gm_exch64(&ring->slot[at % ring->size], 0)) == 0)
		gm_pause(100);
	return value;
}

struct gm_stock {
	struct gm_cut cut;
	struct gm_ring back; /* number + 1 */
};

#define GM_STOCK_NONE (~0u)
#define GM_STOCK_CUT (1ull << 63) /* the pieces are new: cut off a granule */

GM_DEVICE void gm_stock_put(struct gm_stock *stock, uint32_t piece)
{
	gm_ring_put(&stock->back, (uint64_t)piece + 1);
}

/* By the leader: get up to `wanted` pieces. *from: their places in the ring, or GM_STOCK_CUT and
 * the first number. */
GM_DEVICE_SLOW uint32_t gm_stock_claim(struct gm_heap *heap, struct gm_stock *stock,
				       uint32_t wanted, bool wait, uint64_t *from)
{
	uint32_t n = gm_ring_claim(&stock->back, wanted, from);
	if (n)
		return n;
	uint64_t at = gm_cut_some(heap, &stock->cut, wanted, wait, &n);
	if (at == GM_CUT_NONE)
		return gm_ring_claim(&stock->back, wanted, from);
	*from = GM_STOCK_CUT | ((at >> 32) * stock->cut.steps + (uint32_t)at);
	return n;
}

/*
 * By all lanes of `mask`: a piece for each of them, or GM_STOCK_NONE; *cut: the piece is new.
 * `wait` for the host if there is none.
 */
GM_DEVICE_SLOW uint32_t gm_stock_get(struct gm_heap *heap, struct gm_stock *stock, uint32_t mask,
				     bool wait, bool *cut)
{
	uint64_t from = 0;
	uint32_t n = 0, rank, served = 0;
	*cut = false;
	do {
		mask &= ~served;
		if (gm_lane() == gm_leader(mask))
			n = gm_stock_claim(heap, stock, gm_popc(mask), wait, &from);
		n = gm_shfl32(mask, n, gm_leader(mask));
		from = gm_shfl(mask, from, gm_leader(mask));
		if (n == 0)
			return GM_STOCK_NONE;
		served = gm_first(mask, n);
	} while (!(served >> gm_lane() & 1));
	rank = gm_rank(served);
	*cut = (from & GM_STOCK_CUT) != 0;
	if (*cut)
		return (uint32_t)from + rank;
	return (uint32_t)gm_ring_read(&stock->back, from + rank) - 1;
}

#endif
