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
 * A lane takes pages by subtracting from the count, and adds back what was not there (algorithm 9);
 * the state names the queue, so that a lane with an outdated entry sees that it has to add all of
 * it back. Whoever adds sees whether the chunk has to be queued now. Who takes an entry out of its
 * slot, by compare-and-swap, decides what becomes of the chunk; so a chunk has one entry. The front
 * moves over entries that were taken out, and over no others.
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

#define GM_OURO_SWEEP 16 /* slots looked at together */

/* How many entries from a position on were taken out, as far as one look goes; and the slots. */
GM_DEVICE_SLOW uint32_t gm_ouro_gone(const struct gm_heap *heap, struct gm_ouro_queue *queue,
				     enum gm_ouro_kind kind, uint64_t at, uint64_t **slot)
{
	uint32_t chunk, size = kind == GM_OURO_S ? queue->slots : GM_OURO_SPOTS, gone = 0;
	uint32_t left = size - (uint32_t)(at & (size - 1));
	*slot = gm_ouro_peek(heap, queue, kind, at, &chunk);
	if (!*slot)
		return 0;
	for (uint32_t i = 0; i < GM_OURO_SWEEP; i++) {
		uint32_t next = i < left ? i : left - 1;
		gone |= (uint32_t)(gm_load64(*slot + next) == GM_OURO_REMOVED) << i;
	}
	uint32_t n = gm_ctz(~gone);
	return n < left ? n : left;
}

/* Move the front over entries that were taken out. */
GM_DEVICE_SLOW void gm_ouro_advance(struct gm_heap *heap, struct gm_ouro_queue *queue,
				    enum gm_ouro_kind kind)
{
	uint64_t *slot, front;
	uint32_t n;
	/* One lane at a time; who comes meanwhile leaves it to that one. */
	while (gm_load32(&queue->advancing) == 0 &&
	       gm_ouro_gone(heap, queue, kind, gm_load64(&queue->front), &slot) &&
	       gm_cas32(&queue->advancing, 0, 1) == 0) {
		front = gm_load64(&queue->front);
		while ((n = gm_ouro_gone(heap, queue, kind, front, &slot)) != 0) {
			gm_store64(&queue->front, front + n);
			for (uint32_t i = 0; i < n; i++)
				gm_store64(slot + i, 0);
			gm_ouro_done(heap, queue, kind, front, n, GM_OURO_EMPTIED);
			front += n;
		}
		gm_store32_release(&queue->advancing, 0);
	}
}

/* A chunk that is marked as queued. */
GM_DEVICE_SLOW void gm_ouro_chunk_queue(struct gm_heap *heap, struct gm_ouro_queue *queue,
					enum gm_ouro_kind kind, uint32_t chunk)
{
	struct gm_ouro_chunk *head = gm_ouro_head(heap, chunk);
	gm_store64(&head->place, 0);
	if (!gm_ouro_room(heap, queue, kind, 1u << gm_lane(), 1)) {
		gm_ouro_park(heap, queue, chunk);
		return;
	}
	uint64_t at = gm_add64(&queue->back, 1);
	gm_store64(&head->place, (uintptr_t)gm_ouro_slot(heap, queue, kind, at));
	gm_ouro_enqueue(heap, queue, kind, at, gm_ouro_entry(queue, chunk));
	gm_ouro_done(heap, queue, kind, at, 1, GM_OURO_WRITTEN);
}

/* The entry was taken out by the caller: the chunk is out of the queue, or enters it again. */
GM_DEVICE_SLOW void gm_ouro_chunk_settle(struct gm_heap *heap, struct gm_ouro_queue *queue,
					 enum gm_ouro_kind kind, uint32_t chunk)
{
	struct gm_ouro_chunk *head = gm_ouro_head(heap, chunk);
	uint64_t state = gm_load64(&head->state), seen;
	for (; GM_OURO_COUNT(state) <= 0; state = seen)
		if ((seen = gm_cas64(&head->state, state, state & ~GM_OURO_QUEUED)) == state)
			return;
	gm_ouro_chunk_queue(heap, queue, kind, chunk);
}

/*
 * The pages are free, or not taken after all; the chunk is queued if it was not. True: all of them
 * are free now.
 */
GM_DEVICE bool gm_ouro_chunk_add(struct gm_heap *heap, enum gm_ouro_kind kind, uint32_t chunk,
				 uint32_t n)
{
	struct gm_ouro_chunk *head = gm_ouro_head(heap, chunk);
	uint64_t state = gm_add64_sync(&head->state, n) + n, seen;
	uint32_t q = GM_OURO_Q(state) - 1;
	if (q >= GM_OURO_QUEUES)
		return false;
	bool all = GM_OURO_COUNT(state) == (int32_t)gm_ouro_pages(q);
	while (!(state & GM_OURO_QUEUED) && GM_OURO_COUNT(state) > 0 && GM_OURO_Q(state) == q + 1) {
		seen = gm_cas64(&head->state, state, state | GM_OURO_QUEUED);
		if (seen == state) {
			gm_ouro_chunk_queue(heap, &gm_ouro_of(heap)->queue[q], kind, chunk);
			break;
		}
		state = seen;
	}
	return all;
}

/* Put a chunk that is no queue's any more where it is had for any. */
GM_DEVICE_SLOW void gm_ouro_chunk_give(struct gm_heap *heap, struct gm_ouro_queue *queue,
				       uint32_t chunk)
{
	gm_add64(&queue->owned, 0ull - gm_ouro_pages(queue->q));
	gm_add64(&gm_ouro_of(heap)->chunks_recycled, 1);
	gm_stock_put(&gm_ouro_of(heap)->chunks, chunk);
}

/* All pages of the chunk were free: make it any size's again, if they still are. */
GM_DEVICE_SLOW void gm_ouro_chunk_end(struct gm_heap *heap, struct gm_ouro_queue *queue,
				      enum gm_ouro_kind kind, uint32_t chunk)
{
	struct gm_ouro_chunk *head = gm_ouro_head(heap, chunk);
	uint32_t pages = gm_ouro_pages(queue->q);
	uint64_t empty = GM_OURO_EMPTY + GM_OURO_OF(queue->q) + GM_OURO_QUEUED + pages;
	uint64_t entry = gm_ouro_entry(queue, chunk);
	if (!gm_ouro_reduce(&queue->sem, pages))
		return;
	uint64_t *slot = (uint64_t *)(uintptr_t)gm_load64(&head->place);
	if (gm_load64(&head->state) != empty || !slot ||
	    gm_cas64(slot, entry, GM_OURO_REMOVED) != entry) {
		gm_ouro_signal(&queue->sem, pages);
		return;
	}
	if (gm_cas64(&head->state, empty, GM_OURO_EMPTY) == empty) {
		gm_ouro_chunk_give(heap, queue, chunk);
	} else {
		gm_ouro_chunk_settle(heap, queue, kind, chunk);
		gm_ouro_signal(&queue->sem, pages);
	}
	gm_ouro_advance(heap, queue, kind);
}

/* Up to `wanted` pages of the chunk, if it is the queue's: how many; *last: none are left. */
GM_DEVICE uint32_t gm_ouro_chunk_pop(struct gm_heap *heap, struct gm_ouro_queue *queue,
				     enum gm_ouro_kind kind, uint32_t chunk, uint32_t wanted,
				     bool *last)
{
	struct gm_ouro_chunk *head = gm_ouro_head(heap, chunk);
	uint64_t state = gm_load64(&head->state);
	uint32_t n = 0;
	*last = false;
	if (GM_OURO_Q(state) != queue->q + 1 || GM_OURO_COUNT(state) <= 0)
		return 0;
	state = gm_add64_sync(&head->state, 0ull - wanted);
	if (GM_OURO_Q(state) == queue->q + 1 && GM_OURO_COUNT(state) > 0) {
		uint32_t count = (uint32_t)GM_OURO_COUNT(state);
		n = count < wanted ? count : wanted;
		*last = n == count;
	}
	if (n < wanted && gm_ouro_chunk_add(heap, kind, chunk, wanted - n))
		gm_ouro_chunk_end(heap, queue, kind, chunk);
	return n;
}

/* The chunk of this entry has no pages: take it out, if it is still there. */
GM_DEVICE_SLOW void gm_ouro_chunk_remove(struct gm_heap *heap, struct gm_ouro_queue *queue,
					 enum gm_ouro_kind kind, uint64_t *slot, uint64_t entry)
{
	if (gm_cas64(slot, entry, GM_OURO_REMOVED) != entry)
		return;
	gm_ouro_chunk_settle(heap, queue, kind, (uint32_t)(entry >> 4));
	gm_ouro_advance(heap, queue, kind);
}

/*
 * Look at position `*at`, and move it on: pages of the chunk there, up to `wanted`: chunk << 32 |
 * how many; or 0. `tidy`: take the entry out if its chunk has no pages.
 */
GM_DEVICE_SLOW uint64_t gm_ouro_chunk_visit(struct gm_heap *heap, struct gm_ouro_queue *queue,
					    enum gm_ouro_kind kind, uint64_t *at, uint32_t wanted,
					    bool tidy)
{
	uint32_t in, n, chunk;
	uint64_t *slot = gm_ouro_peek(heap, queue, kind, *at, &in);
	uint64_t entry = slot ? gm_load64_acquire(slot) : 0;
	bool last;
	if (entry == GM_OURO_REMOVED) {
		n = gm_ouro_gone(heap, queue, kind, *at, &slot);
		*at += n ? n : 1;
		return 0;
	}
	*at += 1;
	if (entry == 0 || (entry & 15) != queue->q)
		return 0;
	chunk = (uint32_t)(entry >> 4);
	n = gm_ouro_chunk_pop(heap, queue, kind, chunk, wanted, &last);
	if (last || (n == 0 && tidy))
		gm_ouro_chunk_remove(heap, queue, kind, slot, entry);
	return n ? (uint64_t)chunk << 32 | n : 0;
}

/* Pages of a parked chunk, likewise; that one is then queued, if there is room now. */
GM_DEVICE_SLOW uint64_t gm_ouro_chunk_unpark(struct gm_heap *heap, struct gm_ouro_queue *queue,
					     enum gm_ouro_kind kind, uint32_t wanted)
{
	uint32_t chunk = gm_ouro_unpark(heap, queue), n;
	bool last;
	if (!chunk)
		return 0;
	n = gm_ouro_chunk_pop(heap, queue, kind, chunk, wanted, &last);
	gm_ouro_chunk_settle(heap, queue, kind, chunk);
	return n ? (uint64_t)chunk << 32 | n : 0;
}

#define GM_OURO_SPREAD 1024 /* warps begin to look at so many places */

/*
 * By one lane: a chunk with some of the `wanted` pages that the access primitive promised. Warps
 * begin in different places near the front, and then at the front itself.
 */
GM_DEVICE_SLOW uint64_t gm_ouro_chunk_find(struct gm_heap *heap, struct gm_ouro_queue *queue,
					   enum gm_ouro_kind kind, uint32_t wanted)
{
	uint64_t found;
	for (uint32_t turn = 0;; turn++) {
		uint64_t at = gm_load64(&queue->front), back = gm_load64_acquire(&queue->back);
		uint32_t spread =
			back - at < GM_OURO_SPREAD ? (uint32_t)(back - at) : GM_OURO_SPREAD;
		if (turn == 0 && spread > 1)
			at += (gm_sm() * 61 + gm_warp()) % spread;
		while (at < back)
			if ((found = gm_ouro_chunk_visit(heap, queue, kind, &at, wanted,
							 turn != 0)) != 0)
				return found;
		if (turn == 0)
			continue;
		if ((found = gm_ouro_chunk_unpark(heap, queue, kind, wanted)) != 0)
			return found;
		gm_ouro_advance(heap, queue, kind);
		gm_pause(50u << (turn < 5 ? turn : 5));
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

/* By all lanes of `mask`: bring chunks, a page of which is for each of them; 0: no memory. */
GM_DEVICE_SLOW uint64_t gm_ouro_chunk_bring(struct gm_heap *heap, struct gm_ouro_queue *queue,
					    enum gm_ouro_kind kind, uint32_t mask)
{
	uint32_t q = queue->q, pages = gm_ouro_pages(q), wanted = gm_popc(mask), chunk = 0;
	uint32_t chunks = (wanted + pages - 1) >> (9 - q), rank = gm_rank(mask);
	uint32_t rest = rank + 1 == chunks ? chunks * pages - wanted : 0;
	if (rank < chunks)
		chunk = gm_ouro_chunk_begin(heap, gm_first(mask, chunks), q, pages - rest,
					    rest ? GM_OURO_QUEUED : 0);
	uint32_t made = gm_popc(gm_ballot(mask, chunk != 0));
	if (rank == 0)
		gm_add64(&queue->owned, made * pages);
	gm_syncwarp(mask); /* who freed the chunk's pages is before all of the lanes */
	uint32_t mine = gm_shfl32(mask, chunk, gm_nth(mask, rank >> (9 - q)));
	if (rank + 1 == chunks) {
		gm_ouro_brought(&queue->sem, wanted, chunk ? rest : 0, !chunk);
		if (chunk && rest)
			gm_ouro_chunk_queue(heap, queue, kind, chunk);
	}
	return mine ? (uint64_t)mine << 9 | (rank & (pages - 1)) : 0;
}

/* A page for each of the lanes of `mask`; 0: there is no memory. */
GM_DEVICE_SLOW uint64_t gm_ouro_chunk_get(struct gm_heap *heap, struct gm_ouro_queue *queue,
					  enum gm_ouro_kind kind, uint32_t mask)
{
	uint64_t page = 0;
	uint32_t n = 0;
	if (gm_lane() == gm_leader(mask))
		n = gm_ouro_wait(&queue->sem, gm_popc(mask), 9 - queue->q);
	if (gm_shfl32(mask, n, gm_leader(mask)))
		return gm_ouro_chunk_walk(heap, queue, kind, mask);
	page = gm_ouro_chunk_bring(heap, queue, kind, mask);
	mask = gm_ballot(mask, page == 0);
	if (page)
		return page;
	if (gm_lane() == gm_leader(mask))
		n = gm_ouro_rest(&queue->sem, gm_popc(mask));
	mask = gm_first(mask, gm_shfl32(mask, n, gm_leader(mask)));
	return mask >> gm_lane() & 1 ? gm_ouro_chunk_walk(heap, queue, kind, mask) : 0;
}

GM_DEVICE void *gm_ouro_chunk_malloc(struct gm_heap *heap, enum gm_ouro_kind kind, size_t size)
{
	if (size > GM_OURO_CHUNK)
		return gm_run_malloc(heap, size);
	uint32_t q = gm_ouro_queue_of(size);
	struct gm_ouro_queue *queue = &gm_ouro_of(heap)->queue[q];
	uint64_t page = gm_ouro_chunk_get(heap, queue, kind, gm_ouro_group(q));
	if (page == 0) {
		gm_add64(&heap->refusals, 1);
		return NULL;
	}
	return gm_ouro_address(heap, (uint32_t)(page >> 9)) + ((page & 511) << (q + 4));
}

/* The lanes that are here with pages of one queue say so together. */
GM_DEVICE_SLOW void gm_ouro_chunk_put(struct gm_heap *heap, struct gm_ouro_queue *queue,
				      enum gm_ouro_kind kind, uint32_t chunk)
{
	uint32_t mask = gm_match(gm_active(), queue->q), q = queue->q;
	uint64_t alone = GM_OURO_EMPTY + GM_OURO_OF(q), *state = &gm_ouro_head(heap, chunk)->state;
	/* The only page of a chunk need not be queued. */
	bool gone = q == GM_OURO_QUEUES - 1 && gm_cas64(state, alone, GM_OURO_EMPTY) == alone,
	     all = false;
	if (gone)
		gm_ouro_chunk_give(heap, queue, chunk);
	else
		all = gm_ouro_chunk_add(heap, kind, chunk, 1);
	uint32_t put = gm_ballot(mask, !gone);
	if (gm_lane() == gm_leader(mask))
		gm_ouro_signal(&queue->sem, gm_popc(put));
	if (all)
		gm_ouro_chunk_end(heap, queue, kind, chunk);
}

GM_DEVICE void gm_ouro_chunk_free(struct gm_heap *heap, enum gm_ouro_kind kind, void *address)
{
	uint32_t chunk;
	struct gm_ouro_chunk *head = gm_ouro_find(heap, address, &chunk);
	uint32_t q = head ? GM_OURO_Q(gm_load64(&head->state)) - 1 : GM_OURO_QUEUES;
	if (q >= GM_OURO_QUEUES) {
		gm_run_free(heap, address);
		return;
	}
	uint64_t offset = (uint64_t)(uintptr_t)address - heap->base;
	uint32_t page = (uint32_t)(offset >> (q + 4)) & (gm_ouro_pages(q) - 1);
	if (gm_or32_sync(&head->mask[page >> 5], 1u << (page & 31)) >> (page & 31) & 1) {
		gm_add64(&heap->foreign_frees, 1);
		return;
	}
	gm_ouro_chunk_put(heap, &gm_ouro_of(heap)->queue[q], kind, chunk);
}

GM_DEVICE void gm_ouro_chunk_stats(struct gm_heap *heap, enum gm_ouro_kind kind,
				   struct gm_heap_stats *stats)
{
	gm_ouro_stats(heap, kind, stats);
	for (uint32_t q = 0; q < GM_OURO_QUEUES; q++) {
		struct gm_ouro_queue *queue = &gm_ouro_of(heap)->queue[q];
		uint64_t live = gm_load64(&queue->owned) - GM_OURO_A(gm_load64(&queue->sem.word));
		stats->live_bytes += live << (q + 4);
	}
}

#endif
