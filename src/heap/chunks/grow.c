/* SPDX-License-Identifier: BSD-3-Clause */
#include "heap/chunks/chunks.h"

#include <string.h>

#include "base/clock.h"
#include "heap/flight.h"
#include "heap/process.h"
#include "heap/record.h"
#include "heap/sites.h"

/* Announce mapped granules to the device. gm_heap_answer has seen a free place. */
static void mailbox_grant(struct gm_heap_host *heap, uint32_t first, uint32_t count)
{
	struct gm_mailbox *mail = &heap->shared->mail;
	__atomic_store_n(&mail->grant[heap->grants % GM_GRANTS], (uint64_t)first << 32 | count,
			 __ATOMIC_RELAXED);
	heap->granted += count;
	__atomic_store_n(&mail->have.value, ++heap->grants, __ATOMIC_RELEASE);
}

void gm_heap_chunk_grant(struct gm_heap_host *heap, uint32_t first)
{
	gm_lock_take(&heap->lock);
	struct gm_heap_chunk *chunk = gm_heap_chunk_find(heap, first);
	uint32_t count = chunk->count;
	chunk->state = GM_CHUNK_MAPPED;
	heap->grown++;
	heap->newest = *chunk;
	atomic_fetch_add(&heap->mapped, count);
	gm_heap_record_mapped(heap, (int64_t)gm_heap_chunk_bytes(count));
	gm_lock_release(&heap->lock);
	mailbox_grant(heap, first, count);
}

CUresult gm_heap_add_chunk(struct gm_heap_host *heap, uint32_t count)
{
	uint32_t first;
	if (!gm_heap_chunk_begin(heap, count, &first))
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = gm_heap_sites_cover(heap, first, count);
	if (result == CUDA_SUCCESS)
		result = gm_pool_lend(heap->config.pool, gm_heap_chunk_address(heap, first),
				      gm_heap_chunk_bytes(count));
	if (result == CUDA_SUCCESS) {
		gm_heap_chunk_grant(heap, first);
		return result;
	}
	gm_lock_take(&heap->lock);
	gm_heap_chunk_end(heap, gm_heap_chunk_find(heap, first));
	gm_lock_release(&heap->lock);
	return result;
}

uint32_t gm_heap_chunk_size(const struct gm_heap_host *heap, uint32_t wish)
{
	uint32_t size = atomic_load(&heap->mapped) / GM_HEAP_SHARE + GM_HEAP_MORE;
	size = size > wish ? size : wish;
	return size < GM_HEAP_MOST_CHUNK ? size : GM_HEAP_MOST_CHUNK;
}

/*
 * Add a chunk of `need` granules, or of the usual size or the lanes' wish, if that is more. If it
 * fails, try parts, down to `need`. A `need` of up to GM_HEAP_LOW granules may exceed that of
 * waiting lanes, because lanes ask ahead: if that fails, try one granule.
 */
static bool heap_grow(struct gm_heap_host *heap, uint32_t need, uint32_t wish)
{
	uint32_t room = gm_heap_room(heap), size = gm_heap_chunk_size(heap, wish);
	for (size = size < room ? size : room; size > need; size /= GM_HEAP_FALL)
		if (gm_heap_add_chunk(heap, size) == CUDA_SUCCESS)
			return true;
	return gm_heap_add_chunk(heap, need) == CUDA_SUCCESS ||
	       (need > 1 && need <= GM_HEAP_LOW && gm_heap_add_chunk(heap, 1) == CUDA_SUCCESS);
}

/* Tell the device that a total of `want` granules is refused, until a launch or a trim. */
static void mailbox_refuse(struct gm_heap_host *heap, uint64_t want)
{
	gm_lock_take(&heap->lock);
	heap->refusals++;
	gm_lock_release(&heap->lock);
	__atomic_store_n(&heap->shared->mail.refused.value, want, __ATOMIC_RELEASE);
}

/* Grant a chunk that has left the device and is still mapped. */
static bool heap_use_leaving(struct gm_heap_host *heap, uint32_t need)
{
	gm_lock_take(&heap->lock);
	const struct gm_heap_chunk *chunk = gm_heap_shed_return(heap, need);
	if (chunk)
		heap->newest = *chunk;
	gm_lock_release(&heap->lock);
	if (chunk)
		mailbox_grant(heap, heap->newest.first, heap->newest.count);
	return chunk;
}

/* Use mapped memory, or else grow; if the limit forbids that, without slack. */
static bool heap_get(struct gm_heap_host *heap, uint32_t need, uint32_t wish)
{
	return heap_use_leaving(heap, need) || gm_heap_use_slack(heap, need) ||
	       heap_grow(heap, need, wish) ||
	       (gm_heap_drop_slack(heap) && heap_grow(heap, need, wish));
}

/* The device wants `want` granules in total, and was granted fewer. */
static bool heap_answer(struct gm_heap_host *heap, uint64_t want)
{
	uint64_t start = gm_clock_ns(), need = want - heap->granted;
	uint64_t wish = __atomic_load_n(&heap->shared->mail.wish.value, __ATOMIC_RELAXED);
	uint32_t most = (uint32_t)(wish < heap->capacity ? wish : heap->capacity);
	heap->wish = most;
	gm_lock_take(&heap->lock);
	heap->wanting = gm_heap_kernel(heap);
	gm_lock_release(&heap->lock);
	if (need <= heap->capacity && heap_get(heap, (uint32_t)need, most)) {
		gm_heap_record_growth(heap, gm_heap_chunk_address(heap, heap->newest.first),
				      gm_heap_chunk_bytes(heap->newest.count), want, start);
		heap->ahead = true;
		return true;
	}
	uint64_t least = need > GM_HEAP_LOW ? need : 1;
	gm_heap_record_refusal(heap, least << GM_GRANULE_SHIFT, want, start,
			       least > gm_heap_room(heap));
	mailbox_refuse(heap, need > GM_HEAP_LOW ? want : heap->granted + 1);
	return false;
}

bool gm_heap_answer(struct gm_heap_host *heap)
{
	struct gm_mailbox *mail = &heap->shared->mail;
	uint64_t want = __atomic_load_n(&mail->want.value, __ATOMIC_ACQUIRE);
	uint64_t refused = __atomic_load_n(&mail->refused.value, __ATOMIC_ACQUIRE);
	if (want <= heap->granted)
		return false;
	__atomic_fetch_add(&mail->beat.value, 1, __ATOMIC_RELEASE);
	if (refused && refused <= want)
		return false;
	if (heap->grants - __atomic_load_n(&mail->taken.value, __ATOMIC_ACQUIRE) >= GM_GRANTS)
		return false; /* the device has yet to take the grants in the mailbox */
	if (!gm_heap_begin_calls(heap))
		return false;
	__atomic_fetch_or(&mail->beat.value, GM_BEAT_CALLING, __ATOMIC_RELEASE);
	bool grew = heap_answer(heap, want);
	__atomic_fetch_and(&mail->beat.value, ~GM_BEAT_CALLING, __ATOMIC_RELEASE);
	gm_heap_end_calls();
	return grew;
}

/* --- back to the pool --- */

/* Give the caller the first CLAIMED chunk from granule `from` on. False: there is none. */
static bool chunks_next_claimed(struct gm_heap_host *heap, uint32_t from, struct gm_heap_chunk *out)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	for (size_t i = 0; i < heap->chunks.n; i++) {
		struct gm_heap_chunk *chunk = &heap->chunks.at[i];
		if (chunk->state != GM_CHUNK_CLAIMED || chunk->first < from)
			continue;
		chunk->state = GM_CHUNK_UNMAPPING;
		*out = *chunk;
		return true;
	}
	return false;
}

uint64_t gm_heap_drop_chunks(struct gm_heap_host *heap)
{
	uint64_t dropped = 0;
	struct gm_heap_chunk chunk = {0};
	gm_lock_take(&heap->lock);
	while (chunks_next_claimed(heap, chunk.first + chunk.count, &chunk)) {
		gm_lock_release(&heap->lock);
		CUresult result = gm_pool_take_back(heap->config.pool,
						    gm_heap_chunk_address(heap, chunk.first),
						    gm_heap_chunk_bytes(chunk.count));
		gm_lock_take(&heap->lock);
		if (result == CUDA_SUCCESS) {
			gm_heap_chunk_end(heap, gm_heap_chunk_find(heap, chunk.first));
			atomic_fetch_sub(&heap->mapped, chunk.count);
			heap->shrunk++;
			gm_heap_record_mapped(heap, -(int64_t)gm_heap_chunk_bytes(chunk.count));
			dropped += gm_heap_chunk_bytes(chunk.count);
		} else {
			gm_heap_chunk_find(heap, chunk.first)->state = GM_CHUNK_CLAIMED;
		}
	}
	gm_lock_release(&heap->lock);
	return dropped;
}
