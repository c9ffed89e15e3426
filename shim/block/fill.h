/* SPDX-License-Identifier: BSD-3-Clause */
/* GPUMEM_FILL. Any thread, inside of gm_shim_enter. */
#ifndef GM_SHIM_BLOCK_FILL_H
#define GM_SHIM_BLOCK_FILL_H

#include <stdbool.h>

#include "base/debug.h"
#include "context/context.h"
#include "pool/pool.h"

extern GM_HIDDEN bool gm_fill_on; /* GPUMEM_FILL is not `off`; set at the start */

/* Write the byte of GPUMEM_FILL into a fresh block of `context`, which is current, and wait. On
 * failure the block is unchanged, with a warning. */
void gm_fill_block(const struct gm_context *context, const struct gm_block *b);
static inline void gm_fill(const struct gm_context *context, const struct gm_block *b)
{
	if (GM_UNLIKELY(gm_fill_on))
		gm_fill_block(context, b);
}

/* modules.h. forget: the streams are the parent's. */
void gm_fill_start(void);
void gm_fill_forget(void);

#endif
