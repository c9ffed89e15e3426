/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heaps that a program makes itself, by gpumem.h: for the preload and for the library without it.
 * Their policy is `granule`, whose code is compiled into the program's kernels. GPUMEM_HEAP=off
 * refuses them, GPUMEM_HEAP_LIMIT bounds each. Any thread, no lock held.
 */
#ifndef GM_LIBRARY_HEAPS_H
#define GM_LIBRARY_HEAPS_H

#include "heap/heap.h"

struct gpumem_heap_stats; /* gpumem.h */

/*
 * gm_heap_create on config->image, or else on gm_heap_image, with at most `limit` bytes (0:
 * GPUMEM_HEAP_LIMIT) on a device of `total` bytes. A failure prints one line with the reason. The
 * first call registers handlers of exit and fork.
 */
CUresult gm_heap_own_create(const struct gm_heap_config *config, uint64_t total, uint64_t limit,
			    struct gm_heap_host **out);

void gm_heap_own_destroy(struct gm_heap_host *heap);

/* The context of this key is gone: return the memory of its heaps to the pool. The program still
 * has to destroy them. */
void gm_heap_own_context_gone(uint64_t key);

#endif
