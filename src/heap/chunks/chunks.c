/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A chunk is in the table from before the pool maps it until after the pool has unmapped it, so
 * that growth and trims never use the same addresses, and need no other agreement.
 */
#include "heap/chunks/chunks.h"

#include <string.h>

CUdeviceptr gm_heap_chunk_address(const struct gm_heap_host *heap, uint32_t granule)
{
	return heap->reserved + heap->own + gm_heap_chunk_bytes(granule);
}

/* The lowest hole of `count` granules: the index of the chunk after it, and its first granule. */
static bool chunks_find_hole(const struct gm_heap_host *heap, uint32_t count, size_t *at,
			     uint32_t *first)
{
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	*first = 0;
	for (*at = 0; *at < heap->chunks.n; ++*at) {
		const struct gm_heap_chunk *chunk = &heap->chunks.at[*at];
		if (chunk->first - *first >= count)
			return true;
		*first = chunk->first + chunk->count;
	}
	return heap->capacity - *first >= count;
}

static bool chunks_insert(struct gm_heap_host *heap, uint32_t count, uint32_t *first)
{
	size_t at;
	if (!chunks_find_hole(heap, count, &at, first) ||
	    !gm_array_reserve(&heap->chunks, heap->chunks.n + 1))
		return false;
	struct gm_heap_chunk *place = &heap->chunks.at[at];
	memmove(place + 1, place, (heap->chunks.n++ - at) * sizeof *place);
	*place = (struct gm_heap_chunk){*first, count, GM_CHUNK_MAPPING};
	return true;
}

struct gm_heap_chunk *gm_heap_chunk_find(struct gm_heap_host *heap, uint32_t first)
{
	size_t i = 0;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	while (heap->chunks.at[i].first != first)
		i++;
	return &heap->chunks.at[i];
}

void gm_heap_chunk_end(struct gm_heap_host *heap, struct gm_heap_chunk *chunk)
{
	size_t at = (size_t)(chunk - heap->chunks.at);
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	memmove(chunk, chunk + 1, (--heap->chunks.n - at) * sizeof *chunk);
}

uint32_t gm_heap_chunks(const struct gm_heap_host *heap)
{
	uint32_t n = 0;
	gm_lock_assert_held(GM_LOCK_RANK_TABLE);
	for (size_t i = 0; i < heap->chunks.n; i++)
		n += heap->chunks.at[i].state != GM_CHUNK_MAPPING &&
		     heap->chunks.at[i].state != GM_CHUNK_SLACK;
	return n;
}

uint32_t gm_heap_room(const struct gm_heap_host *heap)
{
	uint64_t slack = atomic_load(&heap->slack) >> GM_GRANULE_SHIFT;
	return heap->limit - atomic_load(&heap->mapped) - (uint32_t)slack;
}

bool gm_heap_chunk_begin(struct gm_heap_host *heap, uint32_t count, uint32_t *first)
{
	if (count > gm_heap_room(heap))
		return false;
	gm_lock_take(&heap->lock);
	bool found = chunks_insert(heap, count, first);
	gm_lock_release(&heap->lock);
	return found;
}
