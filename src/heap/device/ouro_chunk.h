/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ouroboros with queues of chunks that have free pages (thesis, 5.3.2, algorithms 8 and 9), for
 * each kind of queue: less queue memory, and an empty chunk becomes anything else; slower.
 *
 * Pages are counted by the access primitive; the lanes of a warp that got some walk the queue from
 * its front until a chunk has them: its count goes down, and bits of its mask are then the lanes'.
 * A chunk is queued when its first page is freed, and leaves the queue when a lane finds it used
 * up, or when its last page is freed.
 *
 * The count never falls below 0 (a compare-and-swap on the state, where algorithm 9 subtracts and
 * adds back), and the state names the queue: a lane with an outdated entry cannot take from a chunk
 * that has become something else. Who takes an entry out of its slot, by compare-and-swap, decides
 * what becomes of the chunk; so a chunk has one entry, and nothing is enqueued again in vain. The
 * front moves over entries that were taken out, and over no others.
 */
#ifndef GM_HEAP_DEVICE_OURO_CHUNK_H
#define GM_HEAP_DEVICE_OURO_CHUNK_H

#include "heap/device/ouro_queue.h"

/* What a slot holds: the chunk, and q, so that an entry is never another queue's. */
GM_DEVICE uint64_t gm_ouro_entry(const struct gm_ouro_queue *queue, uint32_t chunk)
{
	return (uint64_t)chunk << 4 | queue->q;
}

/* The slot of a position that is not the caller's: NULL: none. */
GM_DEVICE uint64_t *gm_ouro_peek(const struct gm_heap *heap, struct gm_ouro_queue *queue,
				 enum gm_ouro_kind kind, uint64_t at, uint32_t *chunk)
{
	*chunk = 0;
	if (kind == GM_OURO_S)
		return &queue->slot[at & (queue->slots - 1)];
	*chunk = gm_ouro_seek(heap, queue, kind, at);
	return *chunk ? gm_ouro_spot(heap, *chunk, at) : NULL;
}

/* Move the front over entries that were taken out. */
GM_DEVICE_SLOW void gm_ouro_advance(struct gm_heap *heap, struct gm_ouro_queue *queue,
				    enum gm_ouro_kind kind)
{
	for (;;) {
		uint64_t front = gm_load64(&queue->front);
		uint32_t chunk;
		uint64_t *slot = gm_ouro_peek(heap, queue, kind, front, &chunk);
		if (!slot || gm_load64_acquire(slot) != GM_OURO_REMOVED)
			return;
		if (gm_cas64(&queue->front, front, front + 1) != front)
			continue;
		gm_store64_release(slot, 0);
		gm_ouro_emptied(heap, queue, kind, chunk);
	}
}

/* A chunk that is marked as queued. */
GM_DEVICE_SLOW void gm_ouro_chunk_queue(struct gm_heap *heap, struct gm_ouro_queue *queue,
					enum gm_ouro_kind kind, uint32_t chunk)
{
	struct gm_ouro_chunk *head = gm_ouro_head(heap, chunk);
	uint32_t in;
	gm_store64(&head->place, 0);
	if (!gm_ouro_room(heap, queue, kind, 1)) {
		gm_ouro_park(heap, queue, chunk);
		return;
	}
	uint64_t at = gm_add64(&queue->back, 1);
	gm_store64(&head->place, (uintptr_t)gm_ouro_slot(heap, queue, kind, at, &in));
	gm_ouro_enqueue(heap, queue, kind, at, gm_ouro_entry(queue, chunk));
}

/* The entry was taken out by the caller: the chunk is out of the queue, or enters it again. */
GM_DEVICE_SLOW void gm_ouro_chunk_settle(struct gm_heap *heap, struct gm_ouro_queue *queue,
					 enum gm_ouro_kind kind, uint32_t chunk)
{
	struct gm_ouro_chunk *head = gm_ouro_head(heap, chunk);
	uint32_t state = gm_load32(&head->state), seen;
	for (; GM_OURO_COUNT(state) == 0; state = seen)
		if ((seen = gm_cas32(&head->state, state, state & ~GM_OURO_QUEUED)) == state)
			return;
	gm_ouro_chunk_queue(heap, queue, kind, chunk);
}

/* Up to `wanted` pages of the chunk, if it is the queue's: how many. */
GM_DEVICE uint32_t gm_ouro_chunk_pop(struct gm_heap *heap, const struct gm_ouro_queue *queue,
				     uint32_t chunk, uint32_t wanted)
{
	struct gm_ouro_chunk *head = gm_ouro_head(heap, chunk);
	uint32_t state = gm_load32(&head->state), seen;
	for (;; state = seen) {
		uint32_t count = GM_OURO_COUNT(state), n = count < wanted ? count : wanted;
		if (GM_OURO_Q(state) != queue->q + 1 || n == 0)
			return 0;
		if ((seen = gm_cas32(&head->state, state, state - n)) == state)
			return n;
		gm_pause(20);
	}
}

/* Look at position `at`: pages of the chunk there, up to `wanted`: chunk << 32 | how many; or 0. */
GM_DEVICE_SLOW uint64_t gm_ouro_chunk_visit(struct gm_heap *heap, struct gm_ouro_queue *queue,
					    enum gm_ouro_kind kind, uint64_t at, uint32_t wanted)
{
	uint32_t in, n, chunk;
	uint64_t *slot = gm_ouro_peek(heap, queue, kind, at, &in);
	uint64_t entry = slot ? gm_load64_acquire(slot) : 0;
	if (entry == 0)
		return 0;
	chunk = (uint32_t)(entry >> 4);
	if (entry != GM_OURO_REMOVED && (entry & 15) == queue->q) {
		if ((n = gm_ouro_chunk_pop(heap, queue, chunk, wanted)) != 0)
			return (uint64_t)chunk << 32 | n;
		if (gm_cas64(slot, entry, GM_OURO_REMOVED) == entry)
			gm_ouro_chunk_settle(heap, queue, kind, chunk);
	}
	gm_ouro_advance(heap, queue, kind);
	return 0;
}

/* Pages of a parked chunk, likewise; that one is then queued, if there is room now. */
GM_DEVICE_SLOW uint64_t gm_ouro_chunk_unpark(struct gm_heap *heap, struct gm_ouro_queue *queue,
					     enum gm_ouro_kind kind, uint32_t wanted)
{
	uint32_t chunk = gm_ouro_unpark(heap, queue);
	if (!chunk)
		return 0;
	uint32_t n = gm_ouro_chunk_pop(heap, queue, chunk, wanted);
	gm_ouro_chunk_settle(heap, queue, kind, chunk);
	return n ? (uint64_t)chunk << 32 | n : 0;
}

/* By one lane: a chunk with some of the `wanted` pages that the access primitive promised. */
GM_DEVICE_SLOW uint64_t gm_ouro_chunk_find(struct gm_heap *heap, struct gm_ouro_queue *queue,
					   enum gm_ouro_kind kind, uint32_t wanted)
{
	uint64_t found;
	for (;;) {
		uint64_t at = gm_load64(&queue->front), back = gm_load64_acquire(&queue->back);
		for (; at < back; at++)
			if ((found = gm_ouro_chunk_visit(heap, queue, kind, at, wanted)) != 0)
				return found;
		if ((found = gm_ouro_chunk_unpark(heap, queue, kind, wanted)) != 0)
			return found;
		gm_pause(20);
	}
}

/* By all lanes of `mask`, a page of whom each was promised: the one for this lane. */
GM_DEVICE_SLOW uint64_t gm_ouro_chunk_walk(struct gm_heap *heap, struct gm_ouro_queue *queue,
					   enum gm_ouro_kind kind, uint32_t mask)
{
	uint64_t found = 0;
	uint32_t served = 0;
	while (!(served >> gm_lane() & 1)) {
		mask &= ~served;
		found = 0;
		if (gm_lane() == gm_leader(mask))
			found = gm_ouro_chunk_find(heap, queue, kind, gm_popc(mask));
		gm_syncwarp(mask); /* what the leader saw of the chunk, all see now */
		found = gm_shfl(mask, found, gm_leader(mask));
		served = gm_first(mask, (uint32_t)found);
	}
	struct gm_ouro_chunk *head = gm_ouro_head(heap, (uint32_t)(found >> 32));
	return found >> 32 << 9 | gm_ouro_pick(head, gm_ouro_pages(queue->q));
}

/* For `wanted` lanes of which the caller is the first: how many pages there are. */
GM_DEVICE_SLOW uint32_t gm_ouro_chunk_wait(struct gm_heap *heap, struct gm_ouro_queue *queue,
					   enum gm_ouro_kind kind, uint32_t wanted)
{
	uint32_t got, pages = gm_ouro_pages(queue->q);
	while ((got = gm_ouro_wait(queue, wanted)) == GM_OURO_BEGIN) {
		uint32_t chunk = gm_ouro_chunk_begin(heap, queue->q,
						     GM_OURO_OF(queue->q) | pages | GM_OURO_QUEUED);
		if (chunk)
			gm_ouro_chunk_queue(heap, queue, kind, chunk);
		gm_ouro_begun(queue, chunk ? pages : 0);
		if (!chunk)
			return gm_ouro_reduce(queue, wanted, false);
	}
	return got;
}

GM_DEVICE void *gm_ouro_chunk_malloc(struct gm_heap *heap, enum gm_ouro_kind kind, size_t size)
{
	if (size > GM_OURO_CHUNK)
		return gm_run_malloc(heap, size);
	uint32_t q = gm_ouro_queue_of(size), mask = gm_ouro_group(q), got = 0;
	struct gm_ouro_queue *queue = &gm_ouro_of(heap)->queue[q];
	if (gm_lane() == gm_leader(mask))
		got = gm_ouro_chunk_wait(heap, queue, kind, gm_popc(mask));
	got = gm_shfl32(mask, got, gm_leader(mask));
	uint32_t promised = gm_first(mask, got);
	if (!(promised >> gm_lane() & 1)) {
		gm_add64(&heap->refusals, 1);
		return NULL;
	}
	uint64_t page = gm_ouro_chunk_walk(heap, queue, kind, promised);
	return gm_ouro_address(heap, (uint32_t)(page >> 9)) + ((page & 511) << (q + 4));
}

/*
 * All pages of the chunk are free, and the caller has not signalled its own: make it any size's
 * again. False: it stays, with nothing changed.
 */
GM_DEVICE_SLOW bool gm_ouro_chunk_end(struct gm_heap *heap, struct gm_ouro_queue *queue,
				      enum gm_ouro_kind kind, uint32_t chunk)
{
	struct gm_ouro_chunk *head = gm_ouro_head(heap, chunk);
	uint32_t pages = gm_ouro_pages(queue->q);
	uint32_t empty = GM_OURO_OF(queue->q) | GM_OURO_QUEUED | pages;
	uint64_t entry = gm_ouro_entry(queue, chunk);
	if (pages > 1 && gm_ouro_reduce(queue, pages - 1, true) == 0)
		return false;
	uint64_t *slot = (uint64_t *)(uintptr_t)gm_load64(&head->place);
	if (!slot || gm_cas64(slot, entry, GM_OURO_REMOVED) != entry) {
		gm_ouro_signal(queue, pages - 1);
		return false;
	}
	bool ended = gm_cas32(&head->state, empty, 0) == empty;
	if (ended) {
		gm_add64(&queue->owned, 0ull - pages);
		gm_add64(&gm_ouro_of(heap)->chunks_recycled, 1);
		gm_ouro_ring_put(&gm_ouro_of(heap)->chunks, chunk);
	} else {
		gm_ouro_chunk_settle(heap, queue, kind, chunk);
		gm_ouro_signal(queue, pages - 1);
	}
	gm_ouro_advance(heap, queue, kind);
	return ended;
}

GM_DEVICE void gm_ouro_chunk_free(struct gm_heap *heap, enum gm_ouro_kind kind, void *address)
{
	uint32_t chunk;
	struct gm_ouro_chunk *head = gm_ouro_find(heap, address, &chunk);
	uint32_t q = head ? GM_OURO_Q(gm_load32(&head->state)) - 1 : GM_OURO_QUEUES;
	if (q >= GM_OURO_QUEUES) {
		gm_run_free(heap, address);
		return;
	}
	struct gm_ouro_queue *queue = &gm_ouro_of(heap)->queue[q];
	uint32_t pages = gm_ouro_pages(q);
	uint64_t offset = (uint64_t)(uintptr_t)address - heap->base;
	uint32_t page = (uint32_t)(offset >> (q + 4)) & (pages - 1);
	if (gm_or32_sync(&head->mask[page >> 5], 1u << (page & 31)) >> (page & 31) & 1) {
		gm_add64(&heap->foreign_frees, 1);
		return;
	}
	uint32_t state = gm_load32(&head->state), seen;
	while ((seen = gm_cas32(&head->state, state, (state + 1) | GM_OURO_QUEUED)) != state)
		state = seen;
	if (!(state & GM_OURO_QUEUED))
		gm_ouro_chunk_queue(heap, queue, kind, chunk);
	if (GM_OURO_COUNT(state) + 1 != pages || !gm_ouro_chunk_end(heap, queue, kind, chunk))
		gm_ouro_signal(queue, 1);
}

GM_DEVICE void gm_ouro_chunk_stats(struct gm_heap *heap, enum gm_ouro_kind kind,
				   struct gm_heap_stats *stats)
{
	gm_ouro_stats(heap, kind, stats);
	for (uint32_t q = 0; q < GM_OURO_QUEUES; q++) {
		struct gm_ouro_queue *queue = &gm_ouro_of(heap)->queue[q];
		uint64_t live = gm_load64(&queue->owned) - GM_OURO_C(gm_load64(&queue->sem));
		stats->live_bytes += live << (q + 4);
	}
}

#endif
