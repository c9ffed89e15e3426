/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks of the pool for calls of the program. Any thread, inside of gm_shim_enter. */
#ifndef GM_SHIM_BLOCK_ALLOC_H
#define GM_SHIM_BLOCK_ALLOC_H

#include "context/context.h"
#include "pool/pool.h"

/* Get a block of `size` bytes on the context's device, counted and recorded. The device has a pool.
 * A failure is not counted: the caller may try other ways, and then calls gm_shim_refused. */
CUresult gm_shim_serve(struct gm_context *context, size_t size, struct gm_block *out);
/* Count and record a failed allocation since `start` (gm_tick); returns `result`. */
CUresult gm_shim_refused(struct gm_context *context, size_t size, uint64_t start, CUresult result);

#endif
