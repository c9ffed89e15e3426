/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ouroboros with queues of chunks that have free pages (thesis, 5.3.2, algorithms 8 and 9), for
 * each kind of queue: less queue memory, and an empty chunk can get any other use; slower.
 *
 * The access primitive counts pages. The lanes of a warp with promised pages walk the queue from
 * its front until a chunk has pages: they subtract from its count, and take bits of its mask. A
 * chunk is queued when its first page is freed. It is removed when a lane finds it without pages,
 * or when its last page is freed.
 *
 * A lane takes pages by subtracting from the count, and adds back the missing ones (algorithm 9).
 * The state names the queue, so a lane with an outdated entry sees that it has to add back all of
 * them. The lane that adds sees whether the chunk has to be queued now. The lane that removes an
 * entry from its slot, by compare-and-swap, decides about the chunk; so a chunk has at most one
 * entry. The front moves over removed entries, and over no others.
 */
#ifndef GM_HEAP_POLICIES_OURO_CHUNK_H
#define GM_HEAP_POLICIES_OURO_CHUNK_H

#include "heap/policies/ouro_queue.h"

/* The entry in a slot: the chunk, and q, so that no two queues have equal entries. */
GM_DEVICE uint64_t gm_ouro_entry(const struct gm_ouro_queue *queue, uint32_t chunk)
{
	return (uint64_t)chunk << 4 | queue->q;
}

/* The slot of a position that the caller did not take; NULL: the position has none. */
GM_DEVICE uint64_t *gm_ouro_peek(const struct gm_heap *heap, struct gm_ouro_queue *queue,
				 enum gm_ouro_kind kind, uint64_t at, uint32_t *chunk)
{
	*chunk = 0;
	if (kind == GM_OURO_S)
		return &queue->slot[at & (queue->slots - 1)];
	*chunk = gm_ouro_seek(heap, queue, kind, at);
	return *chunk ? gm_ouro_spot(heap, *chunk, at) : NULL;
}

#define GM_OURO_SWEEP 16 /* slots that are read together */

/* The number of removed entries among the `rest` ones from `slot` on, at most GM_OURO_SWEEP. */
GM_DEVICE_SLOW uint32_t gm_ouro_count_removed(const uint64_t *slot, uint32_t rest)
{
	uint32_t gone = 0, n;
	for (uint32_t i = 0; i < GM_OURO_SWEEP; i++) {
		uint32_t next = i < rest ? i : rest - 1;
		gone |= (uint32_t)(gm_load64(slot + next) == GM_OURO_REMOVED) << i;
	}
	n = gm_ctz(~gone);
	return n < rest ? n : rest;
}

/* Likewise, of the entries from position `at` on, whose slot is `slot`; NULL: it has none. */
GM_DEVICE uint32_t gm_ouro_removed(const struct gm_ouro_queue *queue, enum gm_ouro_kind kind,
				   uint64_t at, const uint64_t *slot)
{
	uint32_t size = kind == GM_OURO_S ? queue->slots : GM_OURO_SPOTS;
	return slot ? gm_ouro_count_removed(slot, size - (uint32_t)(at & (size - 1))) : 0;
}

/* Move the front over removed entries. */
GM_DEVICE_SLOW void gm_ouro_advance(struct gm_heap *heap, struct gm_ouro_queue *queue,
				    enum gm_ouro_kind kind)
{
	uint64_t *slot, front;
	uint32_t n, in;
	/* One lane at a time; the others leave it to that lane. */
	while (gm_load32(&queue->advancing) == 0) {
		front = gm_load64(&queue->front);
		slot = gm_ouro_peek(heap, queue, kind, front, &in);
		if (!gm_ouro_removed(queue, kind, front, slot) ||
		    gm_cas32(&queue->advancing, 0, 1) != 0)
			return;
		front = gm_load64(&queue->front);
		while ((slot = gm_ouro_peek(heap, queue, kind, front, &in)) != NULL &&
		       (n = gm_ouro_removed(queue, kind, front, slot)) != 0) {
			gm_store64(&queue->front, front + n);
			for (uint32_t i = 0; i < n; i++)
				gm_store64(slot + i, 0);
			gm_ouro_report(heap, queue, kind, front, n, GM_OURO_EMPTIED);
			front += n;
		}
		gm_store32_release(&queue->advancing, 0);
	}
}

/*
 * The debt of a lane to a chunk, to be paid before it does anything else: bits of a word whose
 * upper half is the chunk. It is paid while few stack frames are in use: enqueuing may need memory,
 * and its frames would add up with those of the search.
 */
#define GM_OURO_PAGES 0xff	   /* in a find: the number of pages taken */
#define GM_OURO_ENQUEUE (1u << 8)  /* the lane marked the chunk as queued */
#define GM_OURO_END (1u << 9)	   /* all its pages were free */
#define GM_OURO_PLACE (1u << 10)   /* the lane removed its entry, or unparked it */
#define GM_OURO_SIGNAL (1u << 11)  /* all its pages are taken, until it has its place */
#define GM_OURO_ADVANCE (1u << 12) /* the front may be at a removed entry */

/* Enqueue a chunk; the queue has room for it. */
GM_DEVICE_SLOW void gm_ouro_chunk_enter(struct gm_heap *heap, struct gm_ouro_queue *queue,
					enum gm_ouro_kind kind, uint32_t chunk)
{
	uint64_t at = gm_add64(&queue->back, 1);
	gm_store64(&gm_ouro_head(heap, chunk)->place,
		   (uintptr_t)gm_ouro_slot(heap, queue, kind, at));
	gm_ouro_enqueue(heap, queue, kind, at, gm_ouro_entry(queue, chunk));
	gm_ouro_report(heap, queue, kind, at, 1, GM_OURO_WRITTEN);
}

/* Enqueue a chunk that is marked as queued and is in no queue, so it stays with its own queue. */
GM_DEVICE void gm_ouro_chunk_queue(struct gm_heap *heap, enum gm_ouro_kind kind, uint32_t chunk)
{
	struct gm_ouro_chunk *head = gm_ouro_head(heap, chunk);
	uint32_t q = GM_OURO_Q(gm_load64(&head->state)) - 1;
	struct gm_ouro_queue *queue = &gm_ouro_of(heap)->queue[q];
	gm_store64(&head->place, 0);
	if (gm_ouro_room(heap, queue, kind, 1u << gm_lane(), 1))
		gm_ouro_chunk_enter(heap, queue, kind, chunk);
	else
		gm_ouro_park(heap, queue, chunk);
}

/* Add `n` pages that were freed, or were not taken after all. Returns the caller's debt. */
GM_DEVICE uint32_t gm_ouro_chunk_add(struct gm_heap *heap, uint32_t chunk, uint32_t n)
{
	struct gm_ouro_chunk *head = gm_ouro_head(heap, chunk);
	uint64_t state = gm_add64_sync(&head->state, n) + n, seen;
	uint32_t q = GM_OURO_Q(state) - 1, owed;
	if (q >= GM_OURO_QUEUES)
		return 0;
	owed = GM_OURO_COUNT(state) == (int32_t)gm_ouro_pages(q) ? GM_OURO_END : 0;
	while (!(state & GM_OURO_QUEUED) && GM_OURO_COUNT(state) > 0 && GM_OURO_Q(state) == q + 1) {
		seen = gm_cas64(&head->state, state, state | GM_OURO_QUEUED);
		if (seen == state)
			return owed | GM_OURO_ENQUEUE;
		state = seen;
	}
	return owed;
}

/* Give an empty chunk to the stock, for any queue. */
GM_DEVICE_SLOW void gm_ouro_chunk_give(struct gm_heap *heap, struct gm_ouro_queue *queue,
				       uint32_t chunk)
{
	gm_add64(&queue->owned, 0ull - gm_ouro_pages(queue->q));
	gm_add64(&gm_ouro_of(heap)->chunks_recycled, 1);
	gm_stock_put(heap, chunk);
}

/*
 * All pages of the chunk were free: if they still are, give the chunk to the stock. Returns the
 * caller's debt then.
 */
GM_DEVICE_SLOW uint32_t gm_ouro_chunk_end(struct gm_heap *heap, struct gm_ouro_queue *queue,
					  uint32_t chunk)
{
	struct gm_ouro_chunk *head = gm_ouro_head(heap, chunk);
	uint32_t pages = gm_ouro_pages(queue->q);
	uint64_t empty = GM_OURO_EMPTY + GM_OURO_OF(queue->q) + GM_OURO_QUEUED + pages;
	uint64_t entry = gm_ouro_entry(queue, chunk);
	if (!gm_ouro_reduce(&queue->sem, pages))
		return 0;
	uint64_t *slot = (uint64_t *)(uintptr_t)gm_load64(&head->place);
	if (gm_load64(&head->state) != empty || !slot ||
	    gm_cas64(slot, entry, GM_OURO_REMOVED) != entry) {
		gm_ouro_signal(&queue->sem, pages);
		return 0;
	}
	if (gm_cas64(&head->state, empty, GM_OURO_EMPTY) != empty)
		return GM_OURO_PLACE | GM_OURO_SIGNAL | GM_OURO_ADVANCE;
	gm_ouro_chunk_give(heap, queue, chunk);
	return GM_OURO_ADVANCE;
}

/* Mark a chunk without an entry as not queued. False: it has pages, and is to be enqueued. */
GM_DEVICE bool gm_ouro_chunk_leave(struct gm_heap *heap, uint32_t chunk)
{
	struct gm_ouro_chunk *head = gm_ouro_head(heap, chunk);
	uint64_t state = gm_load64(&head->state), seen;
	for (; GM_OURO_COUNT(state) <= 0; state = seen)
		if ((seen = gm_cas64(&head->state, state, state & ~GM_OURO_QUEUED)) == state)
			return true;
	return false;
}

/* Pay the debt to a chunk. */
GM_DEVICE_SLOW void gm_ouro_chunk_pay(struct gm_heap *heap, struct gm_ouro_queue *queue,
				      enum gm_ouro_kind kind, uint32_t chunk, uint32_t owed)
{
	do {
		if (owed & GM_OURO_ENQUEUE)
			gm_ouro_chunk_queue(heap, kind, chunk);
		owed &= ~GM_OURO_ENQUEUE;
		if (owed & GM_OURO_END)
			owed = (owed & ~GM_OURO_END) | gm_ouro_chunk_end(heap, queue, chunk);
		if (owed & GM_OURO_PLACE)
			owed ^= GM_OURO_PLACE |
				(gm_ouro_chunk_leave(heap, chunk) ? 0 : GM_OURO_ENQUEUE);
	} while (owed & GM_OURO_ENQUEUE);
	if (owed & GM_OURO_SIGNAL)
		gm_ouro_signal(&queue->sem, gm_ouro_pages(queue->q));
	if (owed & GM_OURO_ADVANCE)
		gm_ouro_advance(heap, queue, kind);
}

/*
 * Take up to `wanted` pages of the chunk, if it is the queue's. Returns their number, and the debt;
 * *last: none remains.
 */
GM_DEVICE uint32_t gm_ouro_chunk_pop(struct gm_heap *heap, const struct gm_ouro_queue *queue,
				     uint32_t chunk, uint32_t wanted, bool *last)
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
	return n < wanted ? n | gm_ouro_chunk_add(heap, chunk, wanted - n) : n;
}

/*
 * Take up to `wanted` pages of the chunk at position `*at`, and advance that. Returns chunk << 32 |
 * debt | number of pages; or 0. `tidy`: remove the entry if its chunk has no pages.
 */
GM_DEVICE uint64_t gm_ouro_chunk_visit(struct gm_heap *heap, struct gm_ouro_queue *queue,
				       enum gm_ouro_kind kind, uint64_t *at, uint32_t wanted,
				       bool tidy)
{
	uint32_t in, found, chunk;
	uint64_t *slot = gm_ouro_peek(heap, queue, kind, *at, &in);
	uint64_t entry = slot ? gm_load64_acquire(slot) : 0;
	bool last;
	if (entry == GM_OURO_REMOVED) {
		uint32_t n = gm_ouro_removed(queue, kind, *at, slot);
		*at += n ? n : 1;
		return 0;
	}
	*at += 1;
	if (entry == 0 || (entry & 15) != queue->q)
		return 0;
	chunk = (uint32_t)(entry >> 4);
	found = gm_ouro_chunk_pop(heap, queue, chunk, wanted, &last);
	if ((last || (found == 0 && tidy)) && gm_cas64(slot, entry, GM_OURO_REMOVED) == entry)
		found |= GM_OURO_PLACE | GM_OURO_ADVANCE;
	return found ? (uint64_t)chunk << 32 | found : 0;
}

/* Likewise for a parked chunk, which is to be queued afterwards, if there is room now. */
GM_DEVICE_SLOW uint64_t gm_ouro_chunk_unpark(struct gm_heap *heap, struct gm_ouro_queue *queue,
					     uint32_t wanted)
{
	uint32_t chunk = gm_ouro_unpark(heap, queue);
	bool last;
	if (!chunk)
		return 0;
	return (uint64_t)chunk << 32 | GM_OURO_PLACE |
	       gm_ouro_chunk_pop(heap, queue, chunk, wanted, &last);
}

#define GM_OURO_SPREAD 1024 /* number of places at which warps begin their search */

/*
 * By one lane: search once for some of the `wanted` pages that the access primitive promised;
 * result as of gm_ouro_chunk_visit. Warps begin at different places near the front, and in later
 * turns at the front itself.
 */
GM_DEVICE_SLOW uint64_t gm_ouro_chunk_find(struct gm_heap *heap, struct gm_ouro_queue *queue,
					   enum gm_ouro_kind kind, uint32_t wanted, bool first)
{
	uint64_t at = gm_load64(&queue->front), back = gm_load64_acquire(&queue->back), found;
	uint32_t spread = back - at < GM_OURO_SPREAD ? (uint32_t)(back - at) : GM_OURO_SPREAD;
	if (first && spread > 1)
		at += (gm_sm() * 61 + gm_warp()) % spread;
	while (at < back)
		if ((found = gm_ouro_chunk_visit(heap, queue, kind, &at, wanted, !first)) != 0)
			return found;
	return first ? 0 : gm_ouro_chunk_unpark(heap, queue, wanted);
}

/* By one lane: find pages as above, as often as necessary, and pay the debt. */
GM_DEVICE uint64_t gm_ouro_chunk_search(struct gm_heap *heap, struct gm_ouro_queue *queue,
					enum gm_ouro_kind kind, uint32_t wanted)
{
	for (uint32_t turn = 0;; turn++) {
		uint64_t found = gm_ouro_chunk_find(heap, queue, kind, wanted, turn == 0);
		uint32_t owed = (uint32_t)found & ~GM_OURO_PAGES;
		if (owed)
			gm_ouro_chunk_pay(heap, queue, kind, (uint32_t)(found >> 32), owed);
		if (found & GM_OURO_PAGES)
			return found;
		if (turn == 0 || owed)
			continue;
		gm_ouro_advance(heap, queue, kind);
		gm_pause(50u << (turn < 5 ? turn : 5));
	}
}

/* By all lanes of `mask`, each with a promised page: the caller's page. */
GM_DEVICE_SLOW uint64_t gm_ouro_chunk_walk(struct gm_heap *heap, struct gm_ouro_queue *queue,
					   enum gm_ouro_kind kind, uint32_t mask)
{
	uint64_t found = 0;
	uint32_t served = 0;
	while (!(served >> gm_lane() & 1)) {
		mask &= ~served;
		found = 0;
		if (gm_lane() == gm_leader(mask))
			found = gm_ouro_chunk_search(heap, queue, kind, gm_popc(mask));
		gm_syncwarp(mask); /* all see the chunk like the leader */
		found = gm_shfl(mask, found, gm_leader(mask));
		served = gm_first(mask, (uint32_t)found & GM_OURO_PAGES);
	}
	struct gm_ouro_chunk *head = gm_ouro_head(heap, (uint32_t)(found >> 32));
	return found >> 32 << 9 | gm_ouro_pick(head, gm_ouro_pages(queue->q));
}

/* By all lanes of `mask`: bring chunks, with a page for each lane; 0: no memory. */
GM_DEVICE_SLOW uint64_t gm_ouro_chunk_bring(struct gm_heap *heap, struct gm_ouro_queue *queue,
					    enum gm_ouro_kind kind, uint32_t mask)
{
	uint32_t q = queue->q, pages = gm_ouro_pages(q), wanted = gm_popc(mask), chunk = 0;
	uint32_t chunks = (wanted + pages - 1) >> (9 - q), rank = gm_rank(mask);
	uint32_t rest = rank + 1 == chunks ? chunks * pages - wanted : 0;
	if (rank < chunks) {
		uint64_t piece = gm_stock_get(heap, gm_first(mask, chunks));
		chunk = gm_ouro_chunk_begin(heap, piece, q, pages - rest,
					    rest ? GM_OURO_QUEUED : 0);
	}
	uint32_t made = gm_popc(gm_ballot(mask, chunk != 0));
	if (rank == 0)
		gm_add64(&queue->owned, made * pages);
	gm_syncwarp(mask); /* the frees of the chunk's pages precede all lanes' use */
	uint32_t mine = gm_shfl32(mask, chunk, gm_nth(mask, rank >> (9 - q)));
	if (rank + 1 == chunks) {
		gm_ouro_brought(&queue->sem, wanted, chunk ? rest : 0, !chunk);
		if (chunk && rest)
			gm_ouro_chunk_pay(heap, queue, kind, chunk, GM_OURO_ENQUEUE);
	}
	return mine ? (uint64_t)mine << 9 | (rank & (pages - 1)) : 0;
}

/* A page for each of the lanes of `mask`; 0: there is no memory. */
GM_DEVICE uint64_t gm_ouro_chunk_get(struct gm_heap *heap, struct gm_ouro_queue *queue,
				     enum gm_ouro_kind kind, uint32_t mask)
{
	uint32_t n = 0;
	if (gm_lane() == gm_leader(mask))
		n = gm_ouro_wait(&queue->sem, gm_popc(mask), 9 - queue->q);
	if (!gm_shfl32(mask, n, gm_leader(mask))) {
		uint64_t page = gm_ouro_chunk_bring(heap, queue, kind, mask);
		mask = gm_ballot(mask, page == 0);
		if (page)
			return page;
		if (gm_lane() == gm_leader(mask))
			n = gm_ouro_reduce_some(&queue->sem, gm_popc(mask));
		mask = gm_first(mask, gm_shfl32(mask, n, gm_leader(mask)));
		if (!(mask >> gm_lane() & 1))
			return 0;
	}
	return gm_ouro_chunk_walk(heap, queue, kind, mask);
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

/* A page was freed: count it, together with all active lanes of the same queue. */
GM_DEVICE_SLOW void gm_ouro_chunk_put(struct gm_heap *heap, struct gm_ouro_queue *queue,
				      enum gm_ouro_kind kind, uint32_t chunk)
{
	uint32_t mask = gm_match(gm_active(), queue->q), q = queue->q, owed = 0;
	uint64_t alone = GM_OURO_EMPTY + GM_OURO_OF(q), *state = &gm_ouro_head(heap, chunk)->state;
	/* A chunk of one page need not be queued. */
	bool gone = q == GM_OURO_QUEUES - 1 && gm_cas64(state, alone, GM_OURO_EMPTY) == alone;
	if (gone)
		gm_ouro_chunk_give(heap, queue, chunk);
	else
		owed = gm_ouro_chunk_add(heap, chunk, 1);
	/* The chunk is queued before its page is promised. */
	if (owed & GM_OURO_ENQUEUE)
		gm_ouro_chunk_pay(heap, queue, kind, chunk, GM_OURO_ENQUEUE);
	uint32_t put = gm_ballot(mask, !gone);
	if (gm_lane() == gm_leader(mask))
		gm_ouro_signal(&queue->sem, gm_popc(put));
	if (owed & GM_OURO_END)
		gm_ouro_chunk_pay(heap, queue, kind, chunk, GM_OURO_END);
}

GM_DEVICE void gm_ouro_chunk_free(struct gm_heap *heap, enum gm_ouro_kind kind, void *address)
{
	uint32_t chunk, page, q = gm_ouro_find(heap, address, &chunk, &page);
	if (q == GM_OURO_QUEUES) {
		gm_run_free(heap, address);
		return;
	}
	uint32_t *word = &gm_ouro_head(heap, chunk)->mask[page >> 5], bit = 1u << (page & 31);
	if (gm_or32_sync(word, bit) & bit) {
		gm_add64(&heap->foreign_frees, 1);
		return;
	}
	gm_ouro_chunk_put(heap, &gm_ouro_of(heap)->queue[q], kind, chunk);
}

GM_DEVICE size_t gm_ouro_chunk_usable(const struct gm_heap *heap, const void *address)
{
	uint32_t chunk, page, q = gm_ouro_find(heap, address, &chunk, &page);
	if (q == GM_OURO_QUEUES)
		return gm_run_usable(heap, address);
	uint32_t free = gm_load32(&gm_ouro_head(heap, chunk)->mask[page >> 5]);
	return free >> (page & 31) & 1 ? 0 : (size_t)16 << q;
}

GM_DEVICE void gm_ouro_chunk_stats(struct gm_heap *heap, struct gm_heap_stats *stats)
{
	gm_ouro_stats(heap, stats);
	for (uint32_t q = 0; q < GM_OURO_QUEUES; q++) {
		struct gm_ouro_queue *queue = &gm_ouro_of(heap)->queue[q];
		uint64_t live = gm_load64(&queue->owned) - GM_OURO_A(gm_load64(&queue->sem.word));
		stats->live_bytes += live << (q + 4);
	}
}

#endif
