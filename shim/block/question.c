/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/block/question.h"

#include "shim/call.h"
#include "shim/device.h"

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

CUresult gm_question_begin(struct gm_question *question, CUdeviceptr address)
{
	struct gm_pool *pool = gm_shim_active() ? gm_shim_pool_at(address) : NULL;
	*question = (struct gm_question){.at = address};
	if (!pool)
		return CUDA_SUCCESS;
	question->entered = gm_door_try();
	if (question->entered)
		return CUDA_SUCCESS;
	question->at = stand_in(pool);
	if (question->at)
		return CUDA_SUCCESS;
	*question = (struct gm_question){.at = address, .entered = true};
	return gm_door_enter();
}

void gm_question_end(const struct gm_question *question)
{
	if (question->entered)
		gm_door_leave();
}
