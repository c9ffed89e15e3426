/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remapping: if no idle extent is long enough, wholly idle chunks from anywhere are mapped side by
 * side at other addresses. Nothing is copied, for idle memory has no contents. No fence is needed:
 * the memory became idle after the fence of its last block had passed. Work that still used
 * an old address would be using freed memory, and it faults as it does natively.
 */
#ifndef GM_POOL_REMAP_H
#define GM_POOL_REMAP_H

#include <stdbool.h>

#include "pool/fit.h"

/* --- the pool's lock is held; it is released meanwhile --- */

/* Make an idle extent for `want` out of idle chunks and new memory. `shed`: if the limit leaves no
 * room for new memory, first return other idle chunks to the driver. */
CUresult gm_pool_remap(struct gm_pool *pool, struct gm_want want, bool shed);

#endif
