/* SPDX-License-Identifier: BSD-3-Clause */
/* Frees of blocks. Any thread, inside of gm_shim_enter. */
#ifndef GM_SHIM_BLOCK_FREE_H
#define GM_SHIM_BLOCK_FREE_H

#include "base/timing.h"
#include "context/context.h"
#include "pool/pool.h"
#include "shim/entry/hooks.h"

/* Count and record a free: `hook`, timed as `call`, has returned the block to its pool. */
void gm_shim_freed(enum gm_hook_id hook, const struct gm_block *b, struct gm_timing call);

/* modules.h: free, count and record all blocks of a context that is gone, of pools and driver. */
void gm_block_context_gone(struct gm_context *context);

#endif
