/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/block/question.h"

#include "shim/call.h"
#include "shim/foreign/physical.h"
#include "shim/ipc/ipc.h"
#include "shim/memory/device.h"

static CUdeviceptr stand_in(struct gm_pool *pool)
{
	unsigned inside = gm_shim_inside;
	gm_shim_inside = 1;
	gm_thread_hold_cancel();
	CUdeviceptr at = gm_pool_stand_in(pool);
	gm_thread_let_cancel();
	gm_shim_inside = inside;
	return at;
}

/* The address is in a live block of the pool. */
static CUresult question_enter(struct gm_question *question, struct gm_pool *pool)
{
	question->entered = gm_door_try();
	if (question->entered)
		return CUDA_SUCCESS;
	question->at = stand_in(pool);
	if (question->at)
		return CUDA_SUCCESS;
	question->at = question->address;
	question->entered = true;
	return gm_door_enter();
}

/* The address may be in memory of cuMemCreate that is away: no memory stands in for it. */
static CUresult question_wake(struct gm_question *question)
{
	question->entered = gm_door_try();
	if (question->entered || !gm_physical_may_leave(question->address))
		return CUDA_SUCCESS;
	CUresult result = gm_door_enter();
	question->entered = result == CUDA_SUCCESS;
	return result;
}

bool gm_question_find(CUdeviceptr address, struct gm_block *block, bool *ours)
{
	*ours = gm_shim_find(address, block) || gm_ipc_find(address, block);
	return *ours && block->live && address - block->base < block->size;
}

CUresult gm_question_begin(struct gm_question *question, CUdeviceptr address)
{
	bool ours = false;
	*question = (struct gm_question){.address = address, .at = address};
	if (!gm_shim_active())
		return CUDA_SUCCESS;
	question->live = gm_question_find(address, &question->block, &ours);
	if (ours && !question->live)
		question->at = GM_NOWHERE;
	struct gm_pool *pool = question->live ? gm_shim_pool_at(address) : NULL;
	if (pool)
		return question_enter(question, pool);
	return ours || !atomic_load_explicit(&gm_door_used, memory_order_relaxed)
		       ? CUDA_SUCCESS
		       : question_wake(question);
}

void gm_question_end(const struct gm_question *question)
{
	if (question->entered)
		gm_door_leave();
}
