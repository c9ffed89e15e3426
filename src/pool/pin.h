/* SPDX-License-Identifier: BSD-3-Clause */
/* Pins: chunks that keep their addresses while a block on them lives (gm_pool_pin, gm_pool_share,
 * pool.h). */
#ifndef GM_POOL_PIN_H
#define GM_POOL_PIN_H

#include "pool/block.h"

/* Remove all pins of a block that was freed. The pool's lock is held. */
void gm_pool_unpin(struct gm_pool *pool, struct gm_piece *piece);

#endif
