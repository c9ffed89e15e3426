/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ouroboros with queues of pages (thesis, 5.3.1, algorithm 7), for each kind of queue: fast, but a
 * chunk keeps its page size for ever. A page is in the queue, parked, or in use.
 */
#ifndef GM_HEAP_POLICIES_OURO_PAGE_H
#define GM_HEAP_POLICIES_OURO_PAGE_H

#include "heap/policies/ouro_queue.h"

/* Park a page that the queue has no room for: set its bit in the chunk's mask. */
GM_DEVICE_SLOW void gm_ouro_park_page(struct gm_heap *heap, struct gm_ouro_queue *queue,
				      uint64_t page)
{
	struct gm_ouro_chunk *head = gm_ouro_head(heap, (uint32_t)(page >> 9));
	gm_or32_sync(&head->mask[(page & 511) >> 5], 1u << (page & 31));
	if (GM_OURO_COUNT(gm_add64_sync(&head->state, 1)) == 0)
		gm_ouro_park(heap, queue, (uint32_t)(page >> 9));
}

/* The leader's result: a claim (stock.h) of positions, or of pages in the mask of a chunk. */
#define GM_OURO_BEGIN GM_RING_CLAIM(64, 0) /* a claim of none: the lanes bring chunks */
#define GM_OURO_MASK GM_RING_NEW

/* By the leader: parked pages for up to `wanted` lanes. */
GM_DEVICE_SLOW uint64_t gm_ouro_page_unpark(struct gm_heap *heap, struct gm_ouro_queue *queue,
					    uint32_t wanted)
{
	uint32_t chunk = gm_ouro_unpark(heap, queue);
	if (!chunk)
		return 0;
	/* The chunk belongs to the caller until it is parked again: no other lane takes pages from
	 * it. */
	struct gm_ouro_chunk *head = gm_ouro_head(heap, chunk);
	uint32_t count = (uint32_t)GM_OURO_COUNT(gm_load64_acquire(&head->state));
	uint32_t n = count < wanted ? count : wanted;
	if (GM_OURO_COUNT(gm_add64_sync(&head->state, 0ull - n)) > (int32_t)n)
		gm_ouro_park(heap, queue, chunk);
	return GM_RING_CLAIM(n, GM_OURO_MASK | chunk);
}

GM_DEVICE uint64_t gm_ouro_page_find(struct gm_heap *heap, struct gm_ouro_queue *queue,
				     uint32_t wanted)
{
	uint64_t from = 0;
	if ((uint32_t)gm_load64(&queue->parked))
		from = gm_ouro_page_unpark(heap, queue, wanted);
	if (from)
		return from;
	if (!gm_ouro_wait(&queue->sem, wanted, 9 - queue->q))
		return GM_OURO_BEGIN;
	return GM_RING_CLAIM(wanted, gm_add64(&queue->front, wanted));
}

/* There was no memory for a chunk: use pages that were freed meanwhile; 0: there are none. */
GM_DEVICE_SLOW uint64_t gm_ouro_page_retry(struct gm_heap *heap, struct gm_ouro_queue *queue,
					   uint32_t wanted)
{
	uint32_t n = gm_ouro_reduce_some(&queue->sem, wanted);
	return n ? GM_RING_CLAIM(n, gm_add64(&queue->front, n))
		 : gm_ouro_page_unpark(heap, queue, wanted);
}

/* By the lanes `served`: a page for each of them. */
GM_DEVICE_SLOW uint64_t gm_ouro_page_fetch(struct gm_heap *heap, struct gm_ouro_queue *queue,
					   enum gm_ouro_kind kind, uint32_t served, uint64_t from)
{
	uint64_t at = GM_RING_AT(from);
	if (from & GM_OURO_MASK)
		return at << 9 |
		       gm_ouro_pick(gm_ouro_head(heap, (uint32_t)at), gm_ouro_pages(queue->q));
	uint64_t page = gm_ouro_dequeue(heap, queue, kind, at + gm_rank(served));
	gm_syncwarp(served);
	if (gm_lane() == gm_leader(served))
		gm_ouro_report(heap, queue, kind, at, gm_popc(served), GM_OURO_EMPTIED);
	return page;
}

/*
 * By all lanes of `mask`, which have brought chunks: put the pages of the last chunk that are
 * behind `mine`, the page of the last lane, into the queue. 0: there was no memory for that chunk.
 */
GM_DEVICE_SLOW void gm_ouro_page_fill(struct gm_heap *heap, struct gm_ouro_queue *queue,
				      enum gm_ouro_kind kind, uint32_t mask, uint64_t mine)
{
	uint64_t last = gm_shfl(mask, mine, gm_log2(mask)), at = 0;
	uint32_t pages = gm_ouro_pages(queue->q);
	uint32_t rest = last ? pages - 1 - ((uint32_t)last & (pages - 1)) : 0;
	uint32_t room = rest ? gm_ouro_room(heap, queue, kind, mask, rest) : 0;
	if (gm_lane() == gm_leader(mask)) {
		at = gm_add64(&queue->back, room);
		gm_ouro_brought(&queue->sem, gm_popc(mask), room, last == 0 || room < rest);
	}
	at = gm_shfl(mask, at, gm_leader(mask));
	for (uint32_t i = gm_rank(mask); i < rest; i += gm_popc(mask))
		if (i < room)
			gm_ouro_enqueue(heap, queue, kind, at + i, last + 1 + i);
		else
			gm_ouro_park_page(heap, queue, last + 1 + i);
	gm_syncwarp(mask);
	if (gm_lane() == gm_leader(mask))
		gm_ouro_report(heap, queue, kind, at, room, GM_OURO_WRITTEN);
}

/* By all lanes of `mask`: bring chunks, with a page for each lane; 0: no memory. */
GM_DEVICE_SLOW uint64_t gm_ouro_page_begin(struct gm_heap *heap, struct gm_ouro_queue *queue,
					   uint32_t mask)
{
	uint32_t q = queue->q, pages = gm_ouro_pages(q), rank = gm_rank(mask), chunk = 0;
	uint32_t chunks = (gm_popc(mask) + pages - 1) >> (9 - q);
	if (rank < chunks) {
		uint64_t piece = gm_stock_get(heap, gm_first(mask, chunks));
		chunk = gm_ouro_chunk_begin(heap, piece, q, pages, 0);
	}
	uint32_t made = gm_popc(gm_ballot(mask, chunk != 0));
	if (rank == 0)
		gm_add64(&queue->owned, made * pages);
	gm_syncwarp(mask); /* heads are written before other lanes use them */
	uint64_t mine = gm_shfl32(mask, chunk, gm_nth(mask, rank >> (9 - q)));
	return mine ? mine << 9 | (rank & (pages - 1)) : 0;
}

/* A page for each of the lanes of `mask`; 0: there is no memory. */
GM_DEVICE_SLOW uint64_t gm_ouro_page_get(struct gm_heap *heap, struct gm_ouro_queue *queue,
					 enum gm_ouro_kind kind, uint32_t mask)
{
	uint64_t from = 0;
	for (bool began = false;;) {
		if (gm_lane() == gm_leader(mask))
			from = began ? gm_ouro_page_retry(heap, queue, gm_popc(mask))
				     : gm_ouro_page_find(heap, queue, gm_popc(mask));
		gm_syncwarp(mask);
		from = gm_shfl(mask, from, gm_leader(mask));
		if (from == GM_OURO_BEGIN) {
			uint64_t page = gm_ouro_page_begin(heap, queue, mask);
			gm_ouro_page_fill(heap, queue, kind, mask, page);
			mask = gm_ballot(mask, page == 0);
			if (page)
				return page;
			began = true;
			continue;
		}
		uint32_t served = gm_first(mask, GM_RING_N(from));
		if (from == 0)
			return 0;
		if (served >> gm_lane() & 1)
			return gm_ouro_page_fetch(heap, queue, kind, served, from);
		mask &= ~served;
	}
}

GM_DEVICE void *gm_ouro_page_malloc(struct gm_heap *heap, enum gm_ouro_kind kind, size_t size)
{
	if (size > GM_OURO_CHUNK)
		return gm_run_malloc(heap, size);
	uint32_t q = gm_ouro_queue_of(size);
	struct gm_ouro_queue *queue = &gm_ouro_of(heap)->queue[q];
	uint64_t page = gm_ouro_page_get(heap, queue, kind, gm_ouro_group(q));
	if (page == 0) {
		gm_add64(&heap->refusals, 1);
		return NULL;
	}
	uint32_t chunk = (uint32_t)(page >> 9);
	gm_or32(&gm_ouro_head(heap, chunk)->used[(page & 511) >> 5], 1u << (page & 31));
	return gm_ouro_address(heap, chunk) + ((page & 511) << (q + 4));
}

/* Put a freed page into its queue, together with all active lanes of the same queue. */
GM_DEVICE_SLOW void gm_ouro_page_put(struct gm_heap *heap, struct gm_ouro_queue *queue,
				     enum gm_ouro_kind kind, uint64_t page)
{
	uint32_t mask = gm_match(gm_active(), queue->q), rank = gm_rank(mask);
	uint32_t got = gm_ouro_room(heap, queue, kind, mask, gm_popc(mask));
	uint64_t at = rank == 0 ? gm_add64(&queue->back, got) : 0;
	at = gm_shfl(mask, at, gm_leader(mask));
	if (rank < got)
		gm_ouro_enqueue(heap, queue, kind, at + rank, page);
	else
		gm_ouro_park_page(heap, queue, page);
	gm_syncwarp(mask);
	if (rank == 0) {
		gm_ouro_report(heap, queue, kind, at, got, GM_OURO_WRITTEN);
		gm_ouro_signal(&queue->sem, got);
	}
}

GM_DEVICE void gm_ouro_page_free(struct gm_heap *heap, enum gm_ouro_kind kind, void *address)
{
	uint32_t chunk, page, q = gm_ouro_find(heap, address, &chunk, &page);
	if (q == GM_OURO_QUEUES) {
		gm_run_free(heap, address);
		return;
	}
	uint32_t *word = &gm_ouro_head(heap, chunk)->used[page >> 5], bit = 1u << (page & 31);
	if (!(gm_and32(word, ~bit) & bit)) {
		gm_add64(&heap->foreign_frees, 1);
		return;
	}
	gm_ouro_page_put(heap, &gm_ouro_of(heap)->queue[q], kind, (uint64_t)chunk << 9 | page);
}

GM_DEVICE size_t gm_ouro_page_usable(const struct gm_heap *heap, const void *address)
{
	uint32_t chunk, page, q = gm_ouro_find(heap, address, &chunk, &page);
	if (q == GM_OURO_QUEUES)
		return gm_run_usable(heap, address);
	uint32_t used = gm_load32(&gm_ouro_head(heap, chunk)->used[page >> 5]);
	return used >> (page & 31) & 1 ? (size_t)16 << q : 0;
}

/* Bytes in use: pages of all chunks, less those queued and parked. */
GM_DEVICE void gm_ouro_page_stats(struct gm_heap *heap, struct gm_heap_stats *stats)
{
	gm_ouro_stats(heap, stats);
	for (uint32_t q = 0; q < GM_OURO_QUEUES; q++) {
		struct gm_ouro_queue *queue = &gm_ouro_of(heap)->queue[q];
		uint64_t live = gm_load64(&queue->owned) - GM_OURO_A(gm_load64(&queue->sem.word));
		uint32_t chunk = (uint32_t)gm_load64(&queue->parked);
		for (; chunk; chunk = (uint32_t)gm_load64(&gm_ouro_head(heap, chunk)->next))
			live -= GM_OURO_COUNT(gm_load64(&gm_ouro_head(heap, chunk)->state));
		stats->live_bytes += live << (q + 4);
	}
}

#endif
