/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Heaps that a program makes for itself, by gpumem.h: for the preload and for the library without
 * it. Of policy `granule`, whose code the program's kernels have in them; GPUMEM_HEAP=off refuses
 * them, GPUMEM_HEAP_LIMIT bounds each.
 */
#ifndef GM_HEAP_OWN_H
#define GM_HEAP_OWN_H

#include "heap/heap.h"

struct gpumem_heap_stats; /* gpumem.h */

/*
 * gm_heap_create on config->image, or else on gm_heap_image(), for a device of `total` bytes with
 * at most `limit` (0: what GPUMEM_HEAP_LIMIT says) of them. If it fails, one line says why. Any
 * thread. The first call sees to exit and fork.
 */
CUresult gm_heap_own_create(const struct gm_heap_config *config, uint64_t total, uint64_t limit,
			    struct gm_heap_host **out);

void gm_heap_own_destroy(struct gm_heap_host *heap);

/* The context of this key is gone: what its heaps had mapped goes back to the pool. They stay the
 * program's, to be destroyed. */
void gm_heap_own_context_gone(uint64_t key);

#endif
