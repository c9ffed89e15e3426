/* SPDX-License-Identifier: BSD-3-Clause */
/* The wait of a free (gm_pool_free, pool.h), for other waits of the same kind. */
#ifndef GM_POOL_FREE_H
#define GM_POOL_FREE_H

#include "pool/pool.h"

/* Wait for a fence of the context, and count the wait from `began` (gm_tick). `native`: for a free
 * of the program (fence_ops.h). *waited: gm_tick after the wait, or 0. No lock is held. */
CUresult gm_pool_fence(struct gm_pool *pool, uint64_t context, bool native, uint64_t began,
		       enum gm_fenced *fenced, uint64_t *waited);

#endif
