/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks go back to the pool. Any thread, inside of gm_shim_enter. */
#ifndef GM_SHIM_BLOCK_FREE_H
#define GM_SHIM_BLOCK_FREE_H

#include "base/timing.h"
#include "context/context.h"
#include "pool/pool.h"
#include "shim/entry/hooks.h"

/* Count and record a free: `hook`, timed as `call`, has given the block back to its pool. */
void gm_shim_freed(enum gm_hook_id hook, const struct gm_block *b, struct gm_timing call);

/* modules.h: likewise all blocks of a context that is gone, from the pools or the driver. */
void gm_block_context_gone(struct gm_context *context);

#endif
