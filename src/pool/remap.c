/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remapping: where no idle run of addresses is long enough, wholly idle chunks from anywhere are
 * mapped side by side at other addresses. Nothing is copied, for idle memory holds nothing, and no
 * fence is needed, for it became idle after the fence of its last block had passed: what still used
 * an old address would be using freed memory, and faults as it does natively.
 */
#include "pool/internal.h"

#define MOST 64 /* chunks moved for one request: some 3 ms */

/* Idle chunks that could be moved, or at least given back. */
static bool is_worth_it(const struct gm_pool *pool, struct gm_want want, bool shed)
{
	CUdeviceptr at;
	uint64_t bytes = gm_pool_shortfall(pool, want.length, want.align, &at);
	return shed ? pool->idle_first != NULL : gm_chunks_any(pool, bytes, at);
}

/* Asked before the lock is needed, because the answer may take other locks, and a while. */
static bool may_remap(struct gm_pool *pool)
{
	const struct gm_pool_config *config = &pool->config;
	if (!config->may_remap)
		return true;
	gm_pool_unlock(pool);
	bool may = config->may_remap(config->may_remap_arg);
	gm_pool_lock(pool);
	return may;
}

CUresult gm_pool_remap(struct gm_pool *pool, struct gm_want want, bool shed)
{
	CUdeviceptr at;
	/* As long as the pool can grow, threads that defer their frees keep their shelves. */
	bool keeps = pool->config.defer && !shed;
	if ((!keeps && !gm_pool_can_hold(pool, want.length)) || !is_worth_it(pool, want, shed) ||
	    !may_remap(pool))
		return CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t bytes = gm_pool_shortfall(pool, want.length, want.align, &at);
	uint64_t moved = gm_chunks_pick(pool, bytes, MOST, at);
	if (!moved && !shed)
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct gm_chunk *idle = gm_chunks_detach_picked(pool);
	for (struct gm_chunk *chunk = idle; chunk; chunk = chunk->after)
		bytes -= chunk->size;
	uint64_t room = gm_pool_room(pool);
	if (shed && bytes)
		gm_pool_shed(pool, bytes > room ? bytes - room : bytes);
	return gm_pool_map(pool, at, idle, bytes, gm_pool_piece(pool, bytes));
}
