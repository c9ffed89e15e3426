/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bound of retired bytes, relative to live bytes; beyond it an allocation waits before the pool
 * grows. Retired memory is about to be idle: new memory instead of it stays mapped.
 */
#ifndef GM_POOL_PATIENCE_H
#define GM_POOL_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/fit.h"
#include "pool/internal.h"
#include "pool/stats.h"

#define GM_PATIENCE_PART 8		/* 1/8 of the live bytes may be retired */
#define GM_PATIENCE_FREE (128 * GM_MIB) /* at least so many bytes may be, up to config.retire */
#define GM_PATIENCE_NAP 100000u		/* ns between two polls; the kernel adds half */
#define GM_PATIENCE_NAPS 10u		/* most naps until the next fence passes */
#define GM_PATIENCE_MOST 500u		/* most naps in total */

/* The bytes that may be retired. No lock is needed. */
uint64_t gm_patience_bound(const struct gm_pool *pool);

/* Is more retired than the bound? No lock is needed. */
static inline bool gm_patience_is_needed(const struct gm_pool *pool)
{
	return pool->config.defer && gm_pool_waiting(pool) > gm_patience_bound(pool);
}

/*
 * While more is retired: put back passed blocks, and wait a little for others, until the want fits
 * into idle memory. A millisecond, and one more after each fence that passes, 50 in total: the work
 * may wait for this thread. No wait if no event can be recorded, or a capture is open. True: blocks
 * were put back. The pool's lock is held, and dropped meanwhile.
 */
bool gm_patience_wait(struct gm_pool *pool, struct gm_want want);

#endif
