/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks that were freed while no fence could be had. They wait in a list, oldest first, until a
 * fence of their context that was asked for after their retirement has passed.
 */
#include "base/clock.h"
#include "log/log.h"
#include "pool/internal.h"

void gm_pool_retire(struct gm_pool *pool, struct gm_piece *piece)
{
	gm_piece_begin(piece);
	GM_SET(piece->state, GM_RETIRED);
	gm_piece_end(piece);
	piece->retired_at = ++pool->retirements;
	piece->next = NULL;
	*pool->retired_last = piece;
	pool->retired_last = &piece->next;
	gm_pool_count_retired(pool, GM_GET(piece->held));
	if (!gm_log_wants(GM_RECORD_RETIRE))
		return;
	gm_log_put(&(struct gm_record){.address = GM_GET(piece->base),
				       .size = GM_GET(piece->size),
				       .held = GM_GET(piece->held),
				       .id = GM_GET(piece->id),
				       .context = (uint32_t)GM_GET(piece->context),
				       .device = (uint8_t)pool->config.ordinal,
				       .kind = GM_RECORD_RETIRE});
}

CUresult gm_pool_fence(struct gm_pool *pool, uint64_t context, bool native, enum gm_fenced *fenced)
{
	*fenced = GM_FENCED_PASSED;
	if (!pool->config.fence)
		return CUDA_SUCCESS;
	uint64_t begin = gm_clock_ns();
	CUresult result = pool->config.fence(pool->config.fence_arg, context, native, fenced);
	if (result == CUDA_SUCCESS && *fenced == GM_FENCED_PASSED) {
		gm_counter_add(pool->config.ordinal, GM_C_fences, 1);
		gm_counter_add(pool->config.ordinal, GM_C_fence_ns, gm_clock_ns() - begin);
	}
	return result;
}

uint64_t gm_pool_unretire(struct gm_pool *pool, uint64_t context, uint64_t up_to)
{
	uint64_t bytes = 0;
	struct gm_piece **link = &pool->retired_first;
	while (*link) {
		struct gm_piece *piece = *link;
		if (GM_GET(piece->context) != context || piece->retired_at > up_to) {
			link = &piece->next;
			continue;
		}
		*link = piece->next;
		uint64_t held = GM_GET(piece->held);
		gm_pool_count_settled(pool, held);
		gm_pool_put_back(pool, piece);
		bytes += held;
	}
	pool->retired_last = link;
	return bytes;
}

/* The lowest key, above `last`, of a context that has retired blocks. */
static bool next_context(const struct gm_pool *pool, bool any, uint64_t last, uint64_t *next)
{
	bool found = false;
	for (const struct gm_piece *piece = pool->retired_first; piece; piece = piece->next) {
		uint64_t context = GM_GET(piece->context);
		if ((any || context > last) && (!found || context < *next)) {
			*next = context;
			found = true;
		}
	}
	return found;
}

uint64_t gm_pool_settle(struct gm_pool *pool)
{
	uint64_t bytes = 0, context = 0;
	gm_pool_lock(pool);
	gm_pool_debug_check(pool);
	for (bool first = true; next_context(pool, first, context, &context); first = false) {
		uint64_t up_to = pool->retirements;
		enum gm_fenced fenced;
		gm_pool_unlock(pool);
		CUresult result = gm_pool_fence(pool, context, false, &fenced);
		gm_pool_lock(pool);
		if (result == CUDA_SUCCESS && fenced == GM_FENCED_PASSED)
			bytes += gm_pool_unretire(pool, context, up_to);
	}
	gm_pool_debug_check(pool);
	gm_pool_unlock(pool);
	return bytes;
}
