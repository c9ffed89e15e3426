/* SPDX-License-Identifier: BSD-3-Clause */
/* Fork and exit of the process. Any thread. */
#ifndef GM_HEAP_PROCESS_H
#define GM_HEAP_PROCESS_H

#include "heap/host.h"

/* Forks between the first process and this one. */
unsigned gm_heap_generation(void);

/* Was the heap made by this process? A forked child does nothing with its parent's heaps: their
 * locks may be held for ever. */
bool gm_heap_is_ours(const struct gm_heap_host *heap);

/* The gate of gm_heap_exit (base/worker.h), around driver calls that the program did not make.
 * False: the process exits, or the heap is not ours. */
bool gm_heap_begin_calls(const struct gm_heap_host *heap);
void gm_heap_end_calls(void);
bool gm_heap_is_exiting(void);

#endif
