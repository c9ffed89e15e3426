/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bound of retired bytes, a share of the live bytes or a size (GPUMEM_RETIRE). Beyond it an
 * allocation waits a little before the pool grows. Retired memory is about to be idle: new memory
 * instead of it stays mapped.
 */
#ifndef GM_POOL_PATIENCE_H
#define GM_POOL_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/fit.h"
#include "pool/internal.h"
#include "pool/stats.h"

#define GM_PATIENCE_FREE (128 * GM_MIB) /* so many bytes may be retired, up to config.retire */
#define GM_PATIENCE_NAP 50000u		/* ns between two polls */
#define GM_PATIENCE_CALL 200000u	/* ns that an allocation waits at most */
#define GM_PATIENCE_SHARE 50		/* all of them wait for 1/50 of the time at most, */
#define GM_PATIENCE_TIME 1000000000u	/* ns; what is left of it is kept for so long */

/* The bytes that may be retired. No lock is needed. */
uint64_t gm_patience_bound(const struct gm_pool *pool);

/* Is more retired than the bound? No lock is needed. */
static inline bool gm_patience_is_needed(const struct gm_pool *pool)
{
	return pool->config.defer && gm_pool_waiting(pool) > gm_patience_bound(pool);
}

/*
 * While more is retired: put back passed blocks, and wait a little for the oldest fences, until the
 * want fits into idle memory: GM_PATIENCE_CALL at most, for the work may wait for this thread, and
 * a share of the time, so that no program is slower by more than that. No wait if no event can be
 * recorded, or a capture is open. True: blocks were put back. The pool's lock is held, and dropped
 * meanwhile.
 */
bool gm_patience_wait(struct gm_pool *pool, struct gm_want want);

#endif
