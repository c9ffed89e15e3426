/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/headroom.h"

#include "pool/grow.h"
#include "pool/internal.h"
#include "pool/stats.h"

#define ANEW 4 /* the peak begins anew when this part of it was returned */

static void peak_update(struct gm_pool *pool, uint64_t live)
{
	struct gm_headroom *room = &pool->headroom;
	if (!room->given)
		room->peak = pool->requested_peak;
	if (pool->given - room->given > room->peak / ANEW) {
		room->peak = 0;
		room->given = pool->given;
	}
	room->peak = live > room->peak ? live : room->peak;
}

bool gm_headroom_suits(struct gm_pool *pool, struct gm_want want, uint64_t bytes)
{
	struct gm_headroom *room = &pool->headroom;
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (!pool->config.order || !pool->config.headroom_ppm)
		return false;
	uint64_t live = gm_pool_live(pool) + want.length;
	peak_update(pool, live);
	uint64_t mapped = gm_pool_committed(pool) + bytes;
	uint64_t more = gm_share_of(room->peak, pool->config.headroom_ppm);
	return mapped <= room->peak + more && mapped <= live + more + more * 3 / 5 &&
	       mapped <= gm_pool_most(pool) && (!room->refused || mapped < room->refused);
}

void gm_headroom_learn(struct gm_pool *pool, uint64_t bytes, CUresult result)
{
	struct gm_headroom *room = &pool->headroom;
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (result == CUDA_SUCCESS && bytes >= room->refused)
		room->refused = 0;
	if (result == CUDA_ERROR_OUT_OF_MEMORY && (!room->refused || bytes < room->refused))
		room->refused = bytes;
}
