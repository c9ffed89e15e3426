/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Headroom, under GPUMEM_FREE=ordered. A program whose sizes change from step to step has a block
 * that fits nowhere in each step. Then chunks can move (remap.h), in each step again; or the pool
 * grows, once, and later blocks fit where they are. So the pool grows until a part
 * (config.headroom_ppm) more is mapped than the peak of live bytes, and then chunks move. They
 * move, too, if more than 8/5 of this part would be idle. On an H200 4 of 17 moves a step of a
 * GPT's training were left (doc/performance.md, "Targets of frameworks").
 *
 * The peak is that of the process. When a quarter of it was returned to the driver, it begins anew,
 * and is that of the moments when a block fitted nowhere. The driver may have less memory than the
 * device has: what it refused is not tried again for headroom.
 */
#ifndef GM_POOL_HEADROOM_H
#define GM_POOL_HEADROOM_H

#include <stdbool.h>

#include "driver/driver.h"
#include "pool/fit.h"

struct gm_pool;

struct gm_headroom {
	uint64_t peak;	  /* of live bytes */
	uint64_t given;	  /* pool->given when the peak began anew; 0: it has not */
	uint64_t refused; /* the fewest mapped bytes that the driver refused; 0: none */
};

/* --- the pool's lock is held --- */

/* `want` fits nowhere: shall the pool grow by `bytes` in place of a move? */
bool gm_headroom_suits(struct gm_pool *pool, struct gm_want want, uint64_t bytes);

/* Growth to `bytes` mapped bytes had this result. */
void gm_headroom_learn(struct gm_pool *pool, uint64_t bytes, CUresult result);

#endif
