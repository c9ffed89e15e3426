/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The chunks of a heap: where they lie, how the heap gets more, how they go back. No lock is held.
 */
#ifndef GM_HEAP_GROW_H
#define GM_HEAP_GROW_H

#include "heap/host.h"

/*
 * Map one more chunk of `count` granules, side by side, and grant it to the device. The service
 * thread's, and gm_heap_create's before there is one. An error is the pool's; nothing is changed
 * then.
 */
CUresult gm_heap_add_chunk(struct gm_heap_host *heap, uint32_t count);

/* The table of chunks. Reserve addresses for `count` granules: a chunk that is MAPPING; false:
 * there is no room. Take a chunk off the table. The chunk that begins at `first`: there must be
 * one. The last two: the heap's lock is held. */
bool gm_heap_chunk_begin(struct gm_heap_host *heap, uint32_t count, uint32_t *first);
void gm_heap_chunk_end(struct gm_heap_host *heap, struct gm_heap_chunk *chunk);
struct gm_heap_chunk *gm_heap_chunk_find(struct gm_heap_host *heap, uint32_t first);
/* Chunks that count in heap->mapped. The heap's lock is held. */
uint32_t gm_heap_chunks(const struct gm_heap_host *heap);
CUdeviceptr gm_heap_chunk_address(const struct gm_heap_host *heap, uint32_t first);
static inline uint64_t gm_heap_chunk_bytes(uint32_t granules)
{
	return (uint64_t)granules << GM_GRANULE_SHIFT;
}

/* A chunk that is MAPPING is mapped, and the heap's: grant it to the device. The service thread's,
 * and gm_heap_create's before there is one. */
void gm_heap_chunk_grant(struct gm_heap_host *heap, uint32_t first);

/* Granules that the next growth has, of which lanes could use `wish`, if they are to be had. */
uint32_t gm_heap_chunk_size(const struct gm_heap_host *heap, uint32_t wish);

/* Granules that may still be mapped under the limit. The service thread's. */
uint32_t gm_heap_room(const struct gm_heap_host *heap);

/* Answer the mailbox. True: the heap grew. The service thread's. */
bool gm_heap_answer(struct gm_heap_host *heap);

/* Give chunks that are CLAIMED back to the pool; those that the driver does not unmap stay CLAIMED.
 * Returns bytes. Any thread. */
uint64_t gm_heap_drop_chunks(struct gm_heap_host *heap);

#endif
