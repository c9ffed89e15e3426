/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The chunks of a heap: where they lie, how it gets more, how they go. A chunk's addresses are its
 * own from before the pool maps it until after the pool has unmapped it, so that growth and trims
 * need to agree on nothing but this table.
 */
#include <string.h>

#include "base/clock.h"
#include "heap/host.h"

static uint64_t bytes_of(uint32_t granules)
{
	return (uint64_t)granules << GM_GRANULE_SHIFT;
}

static CUdeviceptr address_of(const struct gm_heap_host *heap, uint32_t granule)
{
	return heap->reserved + heap->own + bytes_of(granule);
}

/* --- the table, with the lock held --- */

/* The lowest hole that is long enough: the index of the chunk after it, and where it begins. */
static bool find_hole(const struct gm_heap_host *heap, uint32_t count, size_t *at, uint32_t *first)
{
	*first = 0;
	for (*at = 0; *at < heap->chunks.n; ++*at) {
		const struct gm_heap_chunk *chunk = &heap->chunks.at[*at];
		if (chunk->first - *first >= count)
			return true;
		*first = chunk->first + chunk->count;
	}
	return heap->capacity - *first >= count;
}

static bool insert(struct gm_heap_host *heap, uint32_t count, uint32_t *first)
{
	size_t at;
	if (!find_hole(heap, count, &at, first) ||
	    !gm_array_reserve(&heap->chunks, heap->chunks.n + 1))
		return false;
	struct gm_heap_chunk *place = &heap->chunks.at[at];
	memmove(place + 1, place, (heap->chunks.n++ - at) * sizeof *place);
	*place = (struct gm_heap_chunk){*first, count, GM_CHUNK_COMING};
	return true;
}

static struct gm_heap_chunk *chunk_at(struct gm_heap_host *heap, uint32_t first)
{
	size_t i = 0;
	while (heap->chunks.at[i].first != first)
		i++;
	return &heap->chunks.at[i];
}

static void erase(struct gm_heap_host *heap, struct gm_heap_chunk *chunk)
{
	size_t at = (size_t)(chunk - heap->chunks.at);
	memmove(chunk, chunk + 1, (--heap->chunks.n - at) * sizeof *chunk);
}

/* --- growth --- */

/* Tell the device; its place in the mailbox is free. */
static void grant(struct gm_heap_host *heap, uint32_t first, uint32_t count)
{
	struct gm_mailbox *mail = &heap->shared->mail;
	__atomic_store_n(&mail->grant[heap->grants % GM_GRANTS], (uint64_t)first << 32 | count,
			 __ATOMIC_RELAXED);
	heap->granted += count;
	__atomic_store_n(&mail->have.value, ++heap->grants, __ATOMIC_RELEASE);
}

CUresult gm_heap_add_chunk(struct gm_heap_host *heap, uint32_t count)
{
	uint32_t first;
	if (count > heap->limit - atomic_load(&heap->mapped))
		return CUDA_ERROR_OUT_OF_MEMORY;
	gm_lock_take(&heap->lock);
	bool found = insert(heap, count, &first);
	gm_lock_release(&heap->lock);
	if (!found)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = gm_pool_lend(heap->config.pool, address_of(heap, first), bytes_of(count));
	gm_lock_take(&heap->lock);
	struct gm_heap_chunk *chunk = chunk_at(heap, first);
	if (result == CUDA_SUCCESS) {
		chunk->state = GM_CHUNK_MAPPED;
		heap->grown++;
		heap->newest = *chunk;
		atomic_fetch_add(&heap->mapped, count);
		gm_heap_note_mapped(heap, (int64_t)bytes_of(count));
	} else {
		erase(heap, chunk);
	}
	gm_lock_release(&heap->lock);
	if (result == CUDA_SUCCESS)
		grant(heap, first, count);
	return result;
}

static uint32_t clamp(uint32_t value, uint32_t least, uint32_t most)
{
	return value < least ? least : value > most ? most : value;
}

/*
 * `need` more granules, or a usual chunk if that is more. A few granules may have been asked for
 * beforehand, and hide that somebody needs fewer: so fewer will do for those.
 */
static bool grow(struct gm_heap_host *heap, uint32_t need)
{
	uint32_t mapped = atomic_load(&heap->mapped), room = heap->limit - mapped;
	uint32_t usual = clamp(mapped / GM_HEAP_SHARE, GM_HEAP_LEAST_CHUNK, GM_HEAP_MOST_CHUNK);
	const uint32_t sizes[] = {
		clamp(usual, need, need > room ? need : room),
		need,
		need <= GM_HEAP_LOW ? 1 : need,
	};
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
		if ((i == 0 || sizes[i] != sizes[i - 1]) &&
		    gm_heap_add_chunk(heap, sizes[i]) == CUDA_SUCCESS)
			return true;
	return false;
}

/* That much is not to be had: until something changed, nobody needs to ask for it again. */
static void refuse(struct gm_heap_host *heap, uint64_t want)
{
	gm_lock_take(&heap->lock);
	heap->refusals++;
	gm_lock_release(&heap->lock);
	__atomic_store_n(&heap->shared->mail.refused.value, want, __ATOMIC_RELEASE);
}

/* The heap wants so many granules in all, and has fewer. */
static bool answer(struct gm_heap_host *heap, uint64_t want)
{
	uint64_t start = gm_clock_ns(), need = want - heap->granted;
	uint32_t room = heap->limit - atomic_load(&heap->mapped);
	if (need <= heap->capacity && grow(heap, (uint32_t)need)) {
		gm_heap_note_growth(heap, address_of(heap, heap->newest.first),
				    bytes_of(heap->newest.count), want, start);
		return true;
	}
	uint64_t least = need > GM_HEAP_LOW ? need : 1;
	gm_heap_note_refusal(heap, least << GM_GRANULE_SHIFT, want, start, least > room);
	refuse(heap, need > GM_HEAP_LOW ? want : heap->granted + 1);
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
		return false; /* it has not looked yet at what there is */
	if (!gm_heap_begin_calls(heap))
		return false;
	__atomic_fetch_or(&mail->beat.value, GM_BEAT_CALLING, __ATOMIC_RELEASE);
	bool grew = answer(heap, want);
	__atomic_fetch_and(&mail->beat.value, ~GM_BEAT_CALLING, __ATOMIC_RELEASE);
	gm_heap_end_calls();
	return grew;
}

/* --- the way back --- */

/* A chunk that is LEAVING, from granule `from` on: it is the caller's. False: there is none. */
static bool next_leaving(struct gm_heap_host *heap, uint32_t from, struct gm_heap_chunk *out)
{
	for (size_t i = 0; i < heap->chunks.n; i++) {
		struct gm_heap_chunk *chunk = &heap->chunks.at[i];
		if (chunk->state != GM_CHUNK_LEAVING || chunk->first < from)
			continue;
		chunk->state = GM_CHUNK_GOING;
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
	while (next_leaving(heap, chunk.first + chunk.count, &chunk)) {
		gm_lock_release(&heap->lock);
		CUresult result = gm_pool_take_back(
			heap->config.pool, address_of(heap, chunk.first), bytes_of(chunk.count));
		gm_lock_take(&heap->lock);
		if (result == CUDA_SUCCESS) {
			erase(heap, chunk_at(heap, chunk.first));
			atomic_fetch_sub(&heap->mapped, chunk.count);
			heap->shrunk++;
			gm_heap_note_mapped(heap, -(int64_t)bytes_of(chunk.count));
			dropped += bytes_of(chunk.count);
		} else {
			chunk_at(heap, chunk.first)->state = GM_CHUNK_LEAVING;
		}
	}
	gm_lock_release(&heap->lock);
	return dropped;
}
