/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/spare.h"

#include "pool/grow.h"
#include "pool/internal.h"
#include "pool/stats.h"
#include "pool/vacant.h"

#define ANEW 4 /* the peak begins anew when this part of it was returned */

static void peak_update(struct gm_pool *pool, uint64_t live)
{
	struct gm_spare *spare = &pool->spare_memory;
	if (!spare->given)
		spare->peak = pool->requested_peak;
	if (pool->given - spare->given > spare->peak / ANEW) {
		spare->peak = 0;
		spare->given = pool->given;
	}
	spare->peak = live > spare->peak ? live : spare->peak;
}

bool gm_spare_suits(struct gm_pool *pool, struct gm_want want, uint64_t bytes)
{
	struct gm_spare *spare = &pool->spare_memory;
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (!pool->config.order || !pool->config.spare_ppm)
		return false;
	uint64_t live = gm_pool_live(pool) + want.length;
	peak_update(pool, live);
	uint64_t mapped = gm_pool_committed(pool) + bytes;
	uint64_t more = gm_share_of(spare->peak, pool->config.spare_ppm);
	return mapped <= spare->peak + more && mapped <= live + more + more * 3 / 5 &&
	       mapped <= gm_pool_most(pool) && (!spare->refused || mapped < spare->refused);
}

void gm_spare_learn(struct gm_pool *pool, uint64_t bytes, CUresult result)
{
	struct gm_spare *spare = &pool->spare_memory;
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	if (result == CUDA_SUCCESS && bytes >= spare->refused)
		spare->refused = 0;
	if (result == CUDA_ERROR_OUT_OF_MEMORY && (!spare->refused || bytes < spare->refused))
		spare->refused = bytes;
}
