/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The three queues of Ouroboros. They differ in the place of the slot of a position:
 *
 *   S    standard: one ring of slots (thesis, 5.3)
 *   VA   virtualized array-hierarchy: a ring of pointers to queue chunks (5.4.1)
 *   VL   virtualized linked-chunk: queue chunks in a list (5.4.2)
 *
 * `room` counts free slots. A lane that enqueues first subtracts from `room`, then takes a
 * position, so that each position has a slot. A lane that finds no room brings a queue chunk;
 * without memory for one, enqueuing fails, and nothing is changed.
 *
 * In a queue chunk every slot is written once and emptied once. After that the chunk is drained:
 * its slots are 0 again.
 */
#ifndef GM_HEAP_POLICIES_OURO_QUEUE_H
#define GM_HEAP_POLICIES_OURO_QUEUE_H

#include "heap/policies/ouro.h"

#define GM_OURO_REMOVED (~0ull) /* an entry that was removed from the middle of the queue */
#define GM_OURO_DRAINED ((uint64_t)GM_OURO_SPOTS << 32 | GM_OURO_SPOTS)

/* `place` of a queue chunk. Its other words are valid only if the place is the expected one. */
GM_DEVICE uint64_t gm_ouro_place(const struct gm_ouro_queue *queue, uint32_t index)
{
	return (uint64_t)(queue->q + 1) << 32 | index;
}

/* The upper half of VL's `next`: its queue and index, which a slow reader compares. */
GM_DEVICE uint64_t gm_ouro_tag(const struct gm_ouro_queue *queue, uint32_t index)
{
	return (uint64_t)((queue->q + 1) << 28 | (index & 0xfffffff)) << 32;
}

GM_DEVICE uint64_t *gm_ouro_spot(const struct gm_heap *heap, uint32_t chunk, uint64_t at)
{
	return (uint64_t *)gm_ouro_address(heap, chunk) + at % GM_OURO_SPOTS;
}

/* --- queue chunks --- */

/* By one lane: take a queue chunk; GM_RING_NEW: its slots may not be 0. 0: no memory. */
GM_DEVICE_SLOW uint64_t gm_ouro_spots_take(struct gm_heap *heap)
{
	struct gm_ring *spare = &gm_ouro_of(heap)->spare;
	uint64_t claim = gm_ring_claim(spare, 1);
	if (claim)
		return gm_ring_read(spare, GM_RING_AT(claim));
	uint32_t chunk = gm_ouro_chunk_of(heap, gm_stock_get_one(heap, false));
	return chunk ? GM_RING_NEW | chunk : 0;
}

/* By all lanes of `mask`: set the slots of the chunk to 0. */
GM_DEVICE_SLOW void gm_ouro_spots_clear(const struct gm_heap *heap, uint32_t mask, uint32_t chunk)
{
	for (uint32_t i = gm_rank(mask); i < GM_OURO_SPOTS; i += gm_popc(mask))
		gm_store64(gm_ouro_spot(heap, chunk, i), 0);
	gm_syncwarp(mask);
}

GM_DEVICE void gm_ouro_spots_set(const struct gm_heap *heap, const struct gm_ouro_queue *queue,
				 uint32_t chunk, uint32_t index)
{
	struct gm_ouro_chunk *head = gm_ouro_head(heap, chunk);
	gm_store64(&head->place, 0);
	gm_store64(&head->counts, 0);
	gm_store64(&head->next, gm_ouro_tag(queue, index));
	gm_store64_release(&head->place, gm_ouro_place(queue, index));
}

GM_DEVICE void gm_ouro_spots_drained(struct gm_heap *heap, uint32_t chunk)
{
	gm_add64(&gm_ouro_of(heap)->queue_chunks, ~0ull);
	gm_add64(&gm_ouro_of(heap)->queue_recycled, 1);
	gm_store64(&gm_ouro_head(heap, chunk)->place, 0);
	gm_ring_put(&gm_ouro_of(heap)->spare, chunk);
}

/* --- VA --- */

/* By one lane at a time. False: the array is full. */
GM_DEVICE_SLOW bool gm_ouro_va_extend(struct gm_heap *heap, struct gm_ouro_queue *queue,
				      uint32_t chunk)
{
	uint64_t index = gm_load64(&queue->placed);
	uint64_t *pointer = &queue->slot[index & (queue->slots - 1)];
	if (gm_load64_acquire(pointer) != 0)
		return false;
	gm_ouro_spots_set(heap, queue, chunk, (uint32_t)index);
	gm_store64_release(pointer, (index + 1) << 32 | chunk);
	gm_store64(&queue->placed, index + 1);
	return true;
}

GM_DEVICE uint32_t gm_ouro_va_find(const struct gm_ouro_queue *queue, uint64_t index)
{
	uint64_t entry = gm_load64_acquire(&queue->slot[index & (queue->slots - 1)]);
	return entry >> 32 == (uint32_t)(index + 1) ? (uint32_t)entry : 0;
}

/* --- VL --- */

/* The link (index << 32 | queue chunk) after `link`, or 0. */
GM_DEVICE uint64_t gm_ouro_vl_next(const struct gm_heap *heap, const struct gm_ouro_queue *queue,
				   uint64_t link)
{
	uint64_t next = gm_load64_acquire(&gm_ouro_head(heap, (uint32_t)link)->next);
	uint32_t index = (uint32_t)(link >> 32);
	if (next >> 32 != gm_ouro_tag(queue, index) >> 32 || (uint32_t)next == 0)
		return 0;
	return (uint64_t)(index + 1) << 32 | (uint32_t)next;
}

/* Algorithm 10: move `first` over drained queue chunks, and keep these as spares. */
GM_DEVICE_SLOW void gm_ouro_vl_move_first(struct gm_heap *heap, struct gm_ouro_queue *queue)
{
	for (;;) {
		uint64_t link = gm_load64_acquire(&queue->first);
		struct gm_ouro_chunk *head = gm_ouro_head(heap, (uint32_t)link);
		uint64_t counts = gm_load64_acquire(&head->counts);
		uint64_t next = gm_ouro_vl_next(heap, queue, link);
		if (gm_load64(&head->place) != gm_ouro_place(queue, (uint32_t)(link >> 32)) &&
		    gm_load64(&queue->first) != link)
			continue;
		if (counts != GM_OURO_DRAINED || !next)
			return;
		if (gm_cas64(&queue->first, link, next) == link)
			gm_ouro_spots_drained(heap, (uint32_t)link);
	}
}

/* Move `filling`, at which enqueuing lanes begin their search, over full queue chunks. */
GM_DEVICE_SLOW void gm_ouro_vl_move_filling(struct gm_heap *heap, struct gm_ouro_queue *queue)
{
	for (;;) {
		uint64_t link = gm_load64_acquire(&queue->filling), next;
		const struct gm_ouro_chunk *head = gm_ouro_head(heap, (uint32_t)link);
		uint64_t counts = gm_load64_acquire(&head->counts);
		next = gm_ouro_vl_next(heap, queue, link);
		if (gm_load64(&head->place) != gm_ouro_place(queue, (uint32_t)(link >> 32)))
			next = gm_load64(&queue->first);
		else if (counts >> 32 != GM_OURO_SPOTS || !next)
			return;
		gm_cas64(&queue->filling, link, next);
	}
}

/* By one lane at a time. */
GM_DEVICE_SLOW bool gm_ouro_vl_extend(struct gm_heap *heap, struct gm_ouro_queue *queue,
				      uint32_t chunk)
{
	uint64_t last = gm_load64_acquire(&queue->last), link;
	uint32_t index = last ? (uint32_t)(last >> 32) + 1 : 0;
	gm_ouro_spots_set(heap, queue, chunk, index);
	link = (uint64_t)index << 32 | chunk;
	if (last) {
		gm_store64_release(&gm_ouro_head(heap, (uint32_t)last)->next,
				   gm_ouro_tag(queue, index - 1) | chunk);
	} else {
		gm_store64_release(&queue->first, link);
		gm_store64_release(&queue->filling, link);
	}
	gm_store64_release(&queue->last, link);
	/* `first` and `filling` stay at the last one, drained or full, until there is a next. */
	gm_ouro_vl_move_first(heap, queue);
	gm_ouro_vl_move_filling(heap, queue);
	return true;
}

/* The queue chunk with this index, searched from `link` on; 0: the list has moved on. */
GM_DEVICE uint32_t gm_ouro_vl_find(const struct gm_heap *heap, const struct gm_ouro_queue *queue,
				   uint64_t link, uint32_t index)
{
	while (link) {
		uint64_t place = gm_load64_acquire(&gm_ouro_head(heap, (uint32_t)link)->place);
		if (place != gm_ouro_place(queue, (uint32_t)(link >> 32)))
			return 0;
		if ((uint32_t)(link >> 32) == index)
			return (uint32_t)link;
		if ((uint32_t)(link >> 32) > index)
			return 0;
		link = gm_ouro_vl_next(heap, queue, link);
	}
	return 0;
}

/* --- all three --- */

/* The queue chunk of a position; 0: it has left, or is not there yet. Not for S. */
GM_DEVICE_SLOW uint32_t gm_ouro_seek(const struct gm_heap *heap, const struct gm_ouro_queue *queue,
				     enum gm_ouro_kind kind, uint64_t at)
{
	uint64_t index = at / GM_OURO_SPOTS;
	if (kind == GM_OURO_VA)
		return gm_ouro_va_find(queue, index);
	uint32_t chunk =
		gm_ouro_vl_find(heap, queue, gm_load64_acquire(&queue->filling), (uint32_t)index);
	return chunk ? chunk
		     : gm_ouro_vl_find(heap, queue, gm_load64_acquire(&queue->first),
				       (uint32_t)index);
}

/* Likewise, for a position that the caller took: wait until its queue chunk is there. */
GM_DEVICE uint32_t gm_ouro_await(const struct gm_heap *heap, const struct gm_ouro_queue *queue,
				 enum gm_ouro_kind kind, uint64_t at)
{
	uint32_t chunk;
	while ((chunk = gm_ouro_seek(heap, queue, kind, at)) == 0)
		gm_pause(100);
	return chunk;
}

/* The slot of a position that the caller took. */
GM_DEVICE uint64_t *gm_ouro_slot(const struct gm_heap *heap, struct gm_ouro_queue *queue,
				 enum gm_ouro_kind kind, uint64_t at)
{
	if (kind == GM_OURO_S)
		return &queue->slot[at & (queue->slots - 1)];
	return gm_ouro_spot(heap, gm_ouro_await(heap, queue, kind, at), at);
}

#define GM_OURO_WRITTEN (1ull << 32)
#define GM_OURO_EMPTIED 1ull

/* Slots of a queue chunk were written or emptied: `step` times their number. */
GM_DEVICE void gm_ouro_count(struct gm_heap *heap, struct gm_ouro_queue *queue,
			     enum gm_ouro_kind kind, uint32_t chunk, uint64_t step)
{
	struct gm_ouro_chunk *head = gm_ouro_head(heap, chunk);
	uint64_t index = (uint32_t)gm_load64(&head->place);
	uint64_t counts = gm_add64_sync(&head->counts, step) + step;
	if (kind == GM_OURO_VA && counts == GM_OURO_DRAINED) {
		gm_store64_release(&queue->slot[index & (queue->slots - 1)], 0);
		gm_ouro_spots_drained(heap, chunk);
	}
	if (kind == GM_OURO_VL && counts == GM_OURO_DRAINED)
		gm_ouro_vl_move_first(heap, queue);
	if (kind == GM_OURO_VL && step >= GM_OURO_WRITTEN && counts >> 32 == GM_OURO_SPOTS)
		gm_ouro_vl_move_filling(heap, queue);
}

/*
 * Count `n` slots from position `at` on as written or emptied, at most as many as a queue chunk
 * has. Their queue chunks do not move before that.
 */
GM_DEVICE_SLOW void gm_ouro_report(struct gm_heap *heap, struct gm_ouro_queue *queue,
				   enum gm_ouro_kind kind, uint64_t at, uint32_t n, uint64_t step)
{
	if (kind == GM_OURO_S && step == GM_OURO_EMPTIED)
		gm_ouro_signal(&queue->room, n);
	while (kind != GM_OURO_S && n) {
		uint32_t rest = GM_OURO_SPOTS - (uint32_t)(at % GM_OURO_SPOTS);
		uint32_t here = n < rest ? n : rest;
		gm_ouro_count(heap, queue, kind, gm_ouro_await(heap, queue, kind, at), step * here);
		at += here;
		n -= here;
	}
}

/* Add a queue chunk to the queue. False: there is no place for it. */
GM_DEVICE_SLOW bool gm_ouro_extend(struct gm_heap *heap, struct gm_ouro_queue *queue,
				   enum gm_ouro_kind kind, uint32_t chunk)
{
	while (gm_load32(&queue->extending) != 0 || gm_cas32(&queue->extending, 0, 1) != 0)
		gm_pause(500);
	bool placed = kind == GM_OURO_VA ? gm_ouro_va_extend(heap, queue, chunk)
					 : gm_ouro_vl_extend(heap, queue, chunk);
	gm_store32_release(&queue->extending, 0);
	if (placed)
		gm_add64(&gm_ouro_of(heap)->queue_chunks, 1);
	else
		gm_ring_put(&gm_ouro_of(heap)->spare, chunk);
	return placed;
}

/* By one lane: get room for `wanted` entries, or for fewer in S; 0: bring a queue chunk. */
GM_DEVICE uint32_t gm_ouro_room_wait(struct gm_ouro_queue *queue, enum gm_ouro_kind kind,
				     uint32_t wanted)
{
	if (kind == GM_OURO_S)
		return gm_ouro_reduce_some(&queue->room, wanted);
	return gm_ouro_wait(&queue->room, wanted, 10) ? wanted : 0;
}

/* Likewise, after a result of 0: with `chunk`, or without one if that is 0. */
GM_DEVICE_SLOW uint32_t gm_ouro_room_add(struct gm_heap *heap, struct gm_ouro_queue *queue,
					 enum gm_ouro_kind kind, uint32_t chunk, uint32_t wanted)
{
	bool added = chunk && gm_ouro_extend(heap, queue, kind, chunk);
	gm_ouro_brought(&queue->room, wanted, added ? GM_OURO_SPOTS - wanted : 0, !added);
	return added ? wanted : gm_ouro_reduce_some(&queue->room, wanted);
}

/*
 * By all lanes of `mask`: get room for `wanted` entries, at most as many as a queue chunk has.
 * Returns the number of entries with room; fewer than `wanted`: there is no memory. The steps are
 * called one after the other, so that their stack frames do not add up.
 */
GM_DEVICE uint32_t gm_ouro_room(struct gm_heap *heap, struct gm_ouro_queue *queue,
				enum gm_ouro_kind kind, uint32_t mask, uint32_t wanted)
{
	uint32_t got = 0;
	uint64_t chunk = 0;
	bool leads = gm_lane() == gm_leader(mask);
	if (leads)
		got = gm_ouro_room_wait(queue, kind, wanted);
	got = gm_shfl32(mask, got, gm_leader(mask));
	if (got || kind == GM_OURO_S)
		return got;
	if (leads)
		chunk = gm_ouro_spots_take(heap);
	gm_syncwarp(mask); /* all write to the chunk after its last owner */
	chunk = gm_shfl(mask, chunk, gm_leader(mask));
	if (chunk & GM_RING_NEW)
		gm_ouro_spots_clear(heap, mask, (uint32_t)chunk);
	if (leads)
		got = gm_ouro_room_add(heap, queue, kind, (uint32_t)chunk, wanted);
	return gm_shfl32(mask, got, gm_leader(mask));
}

/* Write to a position that the caller took from `back`. */
GM_DEVICE_SLOW void gm_ouro_enqueue(struct gm_heap *heap, struct gm_ouro_queue *queue,
				    enum gm_ouro_kind kind, uint64_t at, uint64_t value)
{
	uint64_t *slot = gm_ouro_slot(heap, queue, kind, at);
	/* In S, the reader of the entry one round ago may not have emptied the slot yet. */
	while (gm_cas64(slot, 0, value) != 0)
		gm_pause(100);
}

/* Read from a position that the caller took from `front`. */
GM_DEVICE_SLOW uint64_t gm_ouro_dequeue(struct gm_heap *heap, struct gm_ouro_queue *queue,
					enum gm_ouro_kind kind, uint64_t at)
{
	uint64_t *slot = gm_ouro_slot(heap, queue, kind, at), value;
	while (gm_load64(slot) == 0 || (value = gm_exch64(slot, 0)) == 0)
		gm_pause(100);
	return value;
}

#endif
