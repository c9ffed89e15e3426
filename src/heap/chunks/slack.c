/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slack's chunk is in the table while it has an owner: a thread that makes it MAPPING or
 * UNMAPPING owns it alone. The pool may have taken its memory by then; heap->slack is 0 once the
 * addresses are free.
 */
#include "heap/chunks/chunks.h"

#include "heap/flight.h"
#include "heap/process.h"
#include "heap/record.h"
#include "heap/sites.h"

/* Become the owner of the slack's chunk. False: there is none, or another thread owns it. */
static bool slack_begin(struct gm_heap_host *heap, enum gm_chunk_state state,
			struct gm_heap_chunk *out)
{
	bool found = false;
	gm_lock_take(&heap->lock);
	for (size_t i = 0; i < heap->chunks.n && !found; i++) {
		struct gm_heap_chunk *chunk = &heap->chunks.at[i];
		found = chunk->state == GM_CHUNK_SLACK;
		if (!found)
			continue;
		*out = *chunk;
		chunk->state = state;
	}
	gm_lock_release(&heap->lock);
	return found;
}

/* Release the slack's chunk, or take it off the table if its memory is gone. */
static void slack_end(struct gm_heap_host *heap, uint32_t first)
{
	gm_lock_take(&heap->lock);
	struct gm_heap_chunk *chunk = gm_heap_chunk_find(heap, first);
	if (atomic_load(&heap->slack))
		chunk->state = GM_CHUNK_SLACK;
	else
		gm_heap_chunk_end(heap, chunk);
	gm_lock_release(&heap->lock);
}

/* Granules to map ahead. */
static uint32_t slack_size(const struct gm_heap_host *heap)
{
	uint32_t size = gm_heap_chunk_size(heap, heap->wish);
	uint32_t most = heap->limit / GM_HEAP_SLACK_SHARE;
	uint64_t spare = gm_pool_to_spare(heap->config.pool) >> GM_GRANULE_SHIFT;
	most = most < gm_heap_room(heap) ? most : gm_heap_room(heap);
	most = most < spare ? most : (uint32_t)spare;
	return size < most ? size : most;
}

static bool slack_map(struct gm_heap_host *heap, uint32_t count)
{
	struct gm_mailbox *mail = &heap->shared->mail;
	uint32_t first;
	if (!gm_heap_chunk_begin(heap, count, &first))
		return false;
	/* Lanes may ask meanwhile. */
	__atomic_fetch_add(&mail->beat.value, 1, __ATOMIC_RELEASE);
	__atomic_fetch_or(&mail->beat.value, GM_BEAT_CALLING, __ATOMIC_RELEASE);
	if (gm_heap_sites_cover(heap, first, count) == CUDA_SUCCESS)
		gm_pool_lend_spare(heap->config.pool, gm_heap_chunk_address(heap, first),
				   gm_heap_chunk_bytes(count), &heap->slack);
	__atomic_fetch_and(&mail->beat.value, ~GM_BEAT_CALLING, __ATOMIC_RELEASE);
	gm_lock_take(&heap->lock);
	heap->slack_since = gm_heap_now(heap);
	gm_lock_release(&heap->lock);
	slack_end(heap, first);
	return atomic_load(&heap->slack) != 0;
}

static bool slack_make(struct gm_heap_host *heap)
{
	struct gm_heap_chunk old;
	if (heap->config.trim_after == 0 || !gm_heap_in_flight(heap))
		return false;
	if (slack_begin(heap, GM_CHUNK_MAPPING, &old))
		slack_end(heap, old.first); /* off the table, if the pool took it */
	if (atomic_load(&heap->slack))
		return false;
	uint32_t count = slack_size(heap);
	if (count == 0 || !gm_heap_begin_calls(heap))
		return false;
	bool mapped = slack_map(heap, count);
	gm_heap_end_calls();
	return mapped;
}

bool gm_heap_map_ahead(struct gm_heap_host *heap)
{
	if (!heap->ahead)
		return false;
	heap->ahead = false;
	bool mapped = slack_make(heap);
	gm_heap_tell(heap);
	return mapped;
}

bool gm_heap_use_slack(struct gm_heap_host *heap, uint32_t need)
{
	struct gm_heap_chunk chunk;
	if (!slack_begin(heap, GM_CHUNK_MAPPING, &chunk))
		return false;
	bool enough = chunk.count >= need || need <= GM_HEAP_LOW;
	if (enough && gm_pool_keep(heap->config.pool, gm_heap_chunk_address(heap, chunk.first),
				   gm_heap_chunk_bytes(chunk.count)) == CUDA_SUCCESS) {
		gm_heap_chunk_grant(heap, chunk.first);
		gm_heap_record_slack(heap);
		return true;
	}
	slack_end(heap, chunk.first);
	return false;
}

uint64_t gm_heap_drop_slack(struct gm_heap_host *heap)
{
	struct gm_heap_chunk chunk;
	if (!slack_begin(heap, GM_CHUNK_UNMAPPING, &chunk))
		return 0;
	CUresult result =
		gm_pool_take_back(heap->config.pool, gm_heap_chunk_address(heap, chunk.first),
				  gm_heap_chunk_bytes(chunk.count));
	slack_end(heap, chunk.first);
	return result == CUDA_SUCCESS ? gm_heap_chunk_bytes(chunk.count) : 0;
}
