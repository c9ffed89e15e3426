/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All heaps of the process. A heap that is pinned remains listed, and its memory valid: a thread
 * that ends it waits. No lock is held, because the list has a lock of the heaps' rank. Any thread.
 */
#ifndef GM_HEAP_LIST_H
#define GM_HEAP_LIST_H

#include "heap/host.h"

void gm_heap_list_add(struct gm_heap_host *heap);

/* Take the heap off the list, if it is listed, once no thread has it pinned. */
void gm_heap_list_remove(struct gm_heap_host *heap);

/*
 * Walk the list. NULL: returns the first heap. A heap: unpins it, and returns the next one. The
 * result is pinned; NULL: there are no more. Only heaps of the context with this key, or of all
 * (0).
 */
struct gm_heap_host *gm_heap_pin_next(struct gm_heap_host *heap, uint64_t key);

/* In a forked child: the heaps are the parent's. */
void gm_heap_list_forget(void);

#endif
