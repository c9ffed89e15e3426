/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The chunks of a heap: their addresses, growth, and their return to the pool. No lock is held.
 */
#ifndef GM_HEAP_GROW_H
#define GM_HEAP_GROW_H

#include "heap/host.h"

/*
 * Map one more chunk of `count` granules, side by side, and grant it to the device. By the service
 * thread, and before there is one by gm_heap_create. The error is the pool's; nothing has changed
 * then.
 */
CUresult gm_heap_add_chunk(struct gm_heap_host *heap, uint32_t count);

/* The table of chunks. begin reserves addresses for `count` granules, as a chunk that is MAPPING;
 * false: there is no room. end takes a chunk off the table. find: the chunk that begins at `first`,
 * which must exist. For end and find the heap's lock is held. */
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

/* A chunk that is MAPPING has been mapped: grant it to the device. By the service thread, and
 * before there is one by gm_heap_create. */
void gm_heap_chunk_grant(struct gm_heap_host *heap, uint32_t first);

/* Granules of the next growth, if they are available; lanes could use `wish`. */
uint32_t gm_heap_chunk_size(const struct gm_heap_host *heap, uint32_t wish);

/* Granules that may still be mapped under the limit. By the service thread. */
uint32_t gm_heap_room(const struct gm_heap_host *heap);

/* Answer the mailbox. True: the heap grew. By the service thread. */
bool gm_heap_answer(struct gm_heap_host *heap);

/* Return CLAIMED chunks to the pool; those that the driver does not unmap stay CLAIMED. Returns
 * bytes. Any thread. */
uint64_t gm_heap_drop_chunks(struct gm_heap_host *heap);

#endif
