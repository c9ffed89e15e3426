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
 * is hot, and before that its aliases end (gm_pool_give).
 *
 * The pool's lock guards everything here; the caller holds it.
 */
#ifndef GM_POOL_ALIAS_H
#define GM_POOL_ALIAS_H

#include <stdbool.h>
#include <stdint.h>

#define GM_ALIASES 4096 /* from so many on hot chunks stay where they are */

struct gm_heat;
struct gm_pool;
struct gm_run;

/* May hot chunks move for a block of this context (0: of none)? Their memory can be handed out to
 * it, and there are not too many aliases. */
bool gm_alias_is_allowed(const struct gm_pool *pool, uint64_t context);

/* The chunk that was at these addresses has moved while it was hot. Takes the run. */
void gm_alias_add(struct gm_pool *pool, struct gm_run *run, const struct gm_heat *heat);

/* Ask for fences that cover aliases, or `wait` for them. No lock is held. */
void gm_aliases_ask(struct gm_pool *pool, bool wait);

/* Unmap the aliases that a fence covers. Drops the lock meanwhile. */
void gm_aliases_end(struct gm_pool *pool);

/* Unmap all aliases, at the end of the pool. No other thread uses it. */
void gm_aliases_close(struct gm_pool *pool);

/* NULL, or the broken invariant. */
const char *gm_aliases_check(const struct gm_pool *pool);

#endif
