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

/* Answer the mailbox. True: the heap grew. The service thread's. */
bool gm_heap_answer(struct gm_heap_host *heap);

/* Give chunks that are CLAIMED back to the pool; those that the driver does not unmap stay CLAIMED.
 * Returns bytes. Any thread. */
uint64_t gm_heap_drop_chunks(struct gm_heap_host *heap);

#endif
