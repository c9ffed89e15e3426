/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The index queue (Winter's thesis, 5.2.3, algorithm 5): a ring of numbers that are not 0, in which
 * a place is had by adding to a counter, and nobody tries twice. There is room for all the numbers
 * that are put there.
 */
#ifndef GM_HEAP_DEVICE_RING_H
#define GM_HEAP_DEVICE_RING_H

#include "heap/device/heap.h"

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
	gm_add64(&ring->count, 1);
	uint64_t at = gm_add64(&ring->back, 1) % ring->size;
	while (gm_cas64(&ring->slot[at], 0, value) != 0)
		gm_pause(100);
}

/* 0: it is empty. */
GM_DEVICE uint64_t gm_ring_get(struct gm_ring *ring)
{
	if ((int64_t)gm_load64(&ring->count) <= 0)
		return 0;
	if ((int64_t)gm_add64(&ring->count, ~0ull) <= 0) {
		gm_add64(&ring->count, 1);
		return 0;
	}
	uint64_t at = gm_add64(&ring->front, 1) % ring->size, value;
	while ((value = gm_exch64(&ring->slot[at], 0)) == 0)
		gm_pause(100);
	return value;
}

#endif
