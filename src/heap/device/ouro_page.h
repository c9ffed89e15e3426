/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ouroboros with queues of pages (thesis, 5.3.1, algorithm 7), for each kind of queue: fast, but a
 * chunk stays with its size. A page is in the queue, parked, or in use.
 */
#ifndef GM_HEAP_DEVICE_OURO_PAGE_H
#define GM_HEAP_DEVICE_OURO_PAGE_H

#include "heap/device/ouro_queue.h"

/* A page that no queue has room for: a bit of its chunk's mask. */
GM_DEVICE_SLOW void gm_ouro_park_page(struct gm_heap *heap, struct gm_ouro_queue *queue,
				      uint64_t page)
{
	struct gm_ouro_chunk *head = gm_ouro_head(heap, (uint32_t)(page >> 9));
	gm_or32_sync(&head->mask[(page & 511) >> 5], 1u << (page & 31));
	if (GM_OURO_COUNT(gm_add32_sync(&head->state, 1)) == 0)
		gm_ouro_park(heap, queue, (uint32_t)(page >> 9));
}

/* A parked page, or 0. */
GM_DEVICE_SLOW uint64_t gm_ouro_unpark_page(struct gm_heap *heap, struct gm_ouro_queue *queue)
{
	uint32_t chunk = gm_ouro_unpark(heap, queue);
	if (!chunk)
		return 0;
	/* The chunk is ours until we park it again: nobody else takes pages from it. */
	struct gm_ouro_chunk *head = gm_ouro_head(heap, chunk);
	uint32_t page = gm_ouro_pick(head, gm_ouro_pages(queue->q));
	if (GM_OURO_COUNT(gm_add32_sync(&head->state, ~0u)) > 1)
		gm_ouro_park(heap, queue, chunk);
	return (uint64_t)chunk << 9 | page;
}

/* A new chunk's pages: answers how many are in the queue; the others are parked. */
GM_DEVICE_SLOW uint32_t gm_ouro_page_begin(struct gm_heap *heap, struct gm_ouro_queue *queue,
					   enum gm_ouro_kind kind)
{
	uint32_t pages = gm_ouro_pages(queue->q), queued = 0;
	uint64_t chunk = gm_ouro_chunk_begin(heap, queue->q, GM_OURO_OF(queue->q));
	if (!chunk)
		return 0;
	while (queued < pages) {
		uint32_t got = gm_ouro_room(heap, queue, kind, pages - queued);
		if (!got)
			break;
		uint64_t at = gm_add64(&queue->back, got);
		for (uint32_t i = 0; i < got; i++, queued++)
			gm_ouro_enqueue(heap, queue, kind, at + i, chunk << 9 | queued);
	}
	for (uint32_t i = queued; i < pages; i++)
		gm_ouro_park_page(heap, queue, chunk << 9 | i);
	return queued;
}

/* Pages for `wanted` lanes of which the caller is the first: how many there are in the queue. */
GM_DEVICE_SLOW uint32_t gm_ouro_page_wait(struct gm_heap *heap, struct gm_ouro_queue *queue,
					  enum gm_ouro_kind kind, uint32_t wanted)
{
	uint32_t got;
	while ((got = gm_ouro_wait(queue, wanted)) == GM_OURO_BEGIN) {
		uint32_t made = gm_ouro_page_begin(heap, queue, kind);
		gm_ouro_begun(queue, made);
		if (!made)
			return gm_ouro_reduce(queue, wanted, false);
	}
	return got;
}

/* A page for each of the lanes that are here, from the queue; 0: there is no memory. */
GM_DEVICE_SLOW uint64_t gm_ouro_page_get(struct gm_heap *heap, struct gm_ouro_queue *queue,
					 enum gm_ouro_kind kind)
{
	uint32_t mask = gm_ouro_group(queue->q), got = 0, rank = gm_rank(mask);
	uint64_t at = 0;
	if (rank == 0) {
		got = gm_ouro_page_wait(heap, queue, kind, gm_popc(mask));
		at = gm_add64(&queue->front, got);
	}
	got = gm_shfl32(mask, got, gm_leader(mask));
	at = gm_shfl(mask, at, gm_leader(mask));
	return rank < got ? gm_ouro_dequeue(heap, queue, kind, at + rank) : 0;
}

GM_DEVICE void *gm_ouro_page_malloc(struct gm_heap *heap, enum gm_ouro_kind kind, size_t size)
{
	if (size > GM_OURO_CHUNK)
		return gm_run_malloc(heap, size);
	uint32_t q = gm_ouro_queue_of(size);
	struct gm_ouro_queue *queue = &gm_ouro_of(heap)->queue[q];
	uint64_t page = 0;
	if ((uint32_t)gm_load64(&queue->parked))
		page = gm_ouro_unpark_page(heap, queue);
	if (page == 0)
		page = gm_ouro_page_get(heap, queue, kind);
	if (page == 0)
		page = gm_ouro_unpark_page(heap, queue);
	if (page == 0) {
		gm_add64(&heap->refusals, 1);
		return NULL;
	}
	return gm_ouro_address(heap, (uint32_t)(page >> 9)) + ((page & 511) << (q + 4));
}

/* The lanes that are here with pages of one queue put them there together. */
GM_DEVICE_SLOW void gm_ouro_page_put(struct gm_heap *heap, struct gm_ouro_queue *queue,
				     enum gm_ouro_kind kind, uint64_t page)
{
	uint32_t mask = gm_match(gm_active(), queue->q), got = 0, rank = gm_rank(mask);
	uint64_t at = 0;
	if (rank == 0) {
		got = gm_ouro_room(heap, queue, kind, gm_popc(mask));
		at = gm_add64(&queue->back, got);
	}
	got = gm_shfl32(mask, got, gm_leader(mask));
	at = gm_shfl(mask, at, gm_leader(mask));
	if (rank < got)
		gm_ouro_enqueue(heap, queue, kind, at + rank, page);
	else
		gm_ouro_park_page(heap, queue, page);
	gm_syncwarp(mask);
	if (rank == 0)
		gm_ouro_signal(queue, got);
}

GM_DEVICE void gm_ouro_page_free(struct gm_heap *heap, enum gm_ouro_kind kind, void *address)
{
	uint32_t chunk;
	struct gm_ouro_chunk *head = gm_ouro_find(heap, address, &chunk);
	uint32_t q = head ? GM_OURO_Q(gm_load32(&head->state)) - 1 : GM_OURO_QUEUES;
	if (q >= GM_OURO_QUEUES) {
		gm_run_free(heap, address);
		return;
	}
	uint64_t page = ((uint64_t)(uintptr_t)address - heap->base) >> (q + 4);
	page = (uint64_t)chunk << 9 | (page & (gm_ouro_pages(q) - 1));
	gm_ouro_page_put(heap, &gm_ouro_of(heap)->queue[q], kind, page);
}

/* Bytes in use: the pages of all chunks, less those in the queues and those that are parked. */
GM_DEVICE void gm_ouro_page_stats(struct gm_heap *heap, enum gm_ouro_kind kind,
				  struct gm_heap_stats *stats)
{
	gm_ouro_stats(heap, kind, stats);
	for (uint32_t q = 0; q < GM_OURO_QUEUES; q++) {
		struct gm_ouro_queue *queue = &gm_ouro_of(heap)->queue[q];
		uint64_t live = gm_load64(&queue->owned) - GM_OURO_C(gm_load64(&queue->sem));
		uint32_t chunk = (uint32_t)gm_load64(&queue->parked);
		for (; chunk; chunk = gm_load32(&gm_ouro_head(heap, chunk)->below))
			live -= GM_OURO_COUNT(gm_load32(&gm_ouro_head(heap, chunk)->state));
		stats->live_bytes += live << (q + 4);
	}
}

#endif
