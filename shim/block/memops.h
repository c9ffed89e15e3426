/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CU_POINTER_ATTRIBUTE_SYNC_MEMOPS of blocks, by their ids. The driver refuses it for mapped
 * memory. Synchronous copies and memsets of a block with the attribute are complete on return. Any
 * thread.
 */
#ifndef GM_SHIM_BLOCK_MEMOPS_H
#define GM_SHIM_BLOCK_MEMOPS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/debug.h"

extern GM_HIDDEN atomic_size_t gm_memops_entries; /* blocks with the attribute */

/* False: no host memory to set it. */
bool gm_memops_set(uint64_t block, bool on);
/* One relaxed load while no block has the attribute. */
bool gm_memops_get(uint64_t block);
/* The block was freed. One relaxed load while no block has the attribute. */
static inline void gm_memops_freed(uint64_t block)
{
	if (GM_UNLIKELY(atomic_load_explicit(&gm_memops_entries, memory_order_relaxed)))
		gm_memops_set(block, false);
}

/* A synchronous copy or memset was submitted without a wait for its end. A call that sets the
 * attribute has to wait. */
extern GM_HIDDEN atomic_bool gm_memops_pending;
static inline void gm_memops_submitted(void)
{
	if (!atomic_load_explicit(&gm_memops_pending, memory_order_relaxed))
		atomic_store_explicit(&gm_memops_pending, true, memory_order_release);
}

/* modules.h */
void gm_memops_forget_all(void);

#endif
