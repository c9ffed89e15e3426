/* SPDX-License-Identifier: BSD-3-Clause */
/* The ladder: ways to get a piece for which idle memory has no room, tried in turn. ladder.c has a
 * table of them. */
#ifndef GM_POOL_LADDER_H
#define GM_POOL_LADDER_H

#include "base/size.h"
#include "pool/block.h"

#define GM_POOL_CHUNK (32 * GM_MIB)	/* most growth for blocks below 2 MiB */
#define GM_POOL_DEFERRED (128 * GM_MIB) /* most growth by retired bytes, for other blocks */

/* --- the pool's lock is held; it is released meanwhile --- */

/* Get a piece for `size` bytes of a block of the context. *piece is NULL unless the result is
 * CUDA_SUCCESS. */
CUresult gm_pool_climb(struct gm_pool *pool, uint64_t size, uint64_t context,
		       struct gm_piece **piece);

#endif
