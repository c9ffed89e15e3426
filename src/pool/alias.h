/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Aliases: addresses at which a chunk stays mapped after it moved, until the GPU has left them.
 *
 *     hot at A --mapped at B, too--> hot at B, alias at A --a fence has passed--> at B alone
 *
 * Hot memory is handed out again in the order of one stream (hot.h). So its chunk may move at once:
 * work from before uses A, work that follows in the stream uses B, and both are the same memory.
 * CUDA allows this for kernels and copies that are ordered ("Virtual Aliasing Support" in its
 * programming guide). A fence that covers the stamp of the chunk covers all work that uses A. Then
 * A is unmapped, and its addresses are free again. A chunk is not returned to the driver while it
 * is hot, so its aliases have ended before.
 *
 * The pool's lock guards everything here; the caller holds it.
 */
#ifndef GM_POOL_ALIAS_H
#define GM_POOL_ALIAS_H

#include <stdbool.h>

#define GM_ALIASES 1024 /* from so many on hot chunks stay where they are */

struct gm_heat;
struct gm_pool;
struct gm_run;

/* May hot chunks move? Their memory can be handed out, and there are not too many aliases. */
bool gm_alias_is_allowed(const struct gm_pool *pool);

/* The chunk that was at these addresses has moved while it was hot. Takes the run. */
void gm_alias_add(struct gm_pool *pool, struct gm_run *run, const struct gm_heat *heat);

/* Unmap the aliases that a fence covers. Drops the lock meanwhile. */
void gm_aliases_end(struct gm_pool *pool);

/* Unmap all aliases, at the end of the pool. No other thread uses it. */
void gm_aliases_close(struct gm_pool *pool);

/* NULL, or the broken invariant. */
const char *gm_aliases_check(const struct gm_pool *pool);

#endif
