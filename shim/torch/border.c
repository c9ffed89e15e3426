/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/torch/border.h"

#include <string.h>

#include "base/clock.h"
#include "base/sys.h"
#include "context/poll.h"
#include "shim/call.h"
#include "shim/context/capture.h"

enum { NAP = 50000 }; /* ns between two looks at a fence */

bool gm_border_fences_are_possible(void)
{
	return !gm_capture_any() && gm_poll_captures_are_counted();
}

void gm_border_poll(struct gm_border *border)
{
	bool passed = true;
	gm_lock_take(&border->lock);
	const bool mine = !border->looking && border->n_fences && gm_border_fences_are_possible();
	border->looking |= mine;
	while (mine && passed && border->n_fences) {
		struct gm_border_fence *first = &border->fences[0];
		gm_lock_release(&border->lock);
		passed = gm_everywhere_passed(gm_fence_ops(&gm_shim_driver), &gm_shim_driver,
					      &first->all) == CUDA_SUCCESS;
		gm_lock_take(&border->lock);
		if (!passed)
			break;
		if (first->number > border->set.passed)
			border->set.passed = first->number;
		memmove(first, first + 1, --border->n_fences * sizeof *first);
	}
	if (mine)
		border->looking = false;
	gm_lock_release(&border->lock);
}

bool gm_border_fence(struct gm_border *border, uint64_t *number)
{
	struct gm_border_fence fence;
	gm_lock_take(&border->lock);
	fence.number = *number = border->set.frees;
	const bool there =
		border->n_fences && border->fences[border->n_fences - 1].number >= fence.number;
	const bool needed = !there && border->set.passed < fence.number;
	const bool full = border->n_fences == GM_BORDER_FENCES;
	gm_lock_release(&border->lock);
	if (!needed || full)
		return !full;
	if (!gm_border_fences_are_possible() ||
	    gm_everywhere_record(gm_fence_ops(&gm_shim_driver), &gm_shim_driver, &fence.all) !=
		    CUDA_SUCCESS)
		return false;
	gm_lock_take(&border->lock);
	const bool kept = border->n_fences < GM_BORDER_FENCES;
	if (kept) {
		border->fences[border->n_fences++] = fence;
		border->fenced = fence.number;
	}
	gm_lock_release(&border->lock);
	if (!kept)
		gm_everywhere_drop(gm_fence_ops(&gm_shim_driver), &gm_shim_driver, &fence.all);
	return kept;
}

static bool fence_has_passed(struct gm_border *border, uint64_t number)
{
	gm_border_poll(border);
	gm_lock_take(&border->lock);
	const bool passed = border->set.passed >= number;
	gm_lock_release(&border->lock);
	return passed;
}

bool gm_border_wait(struct gm_border *border, uint64_t most)
{
	uint64_t number;
	const uint64_t end = gm_clock_ns() + most;
	bool possible = gm_border_fence(border, &number);
	bool passed = fence_has_passed(border, number);
	while (!passed && gm_clock_ns() < end && gm_border_fences_are_possible()) {
		if (!possible) /* the list was full */
			possible = gm_border_fence(border, &number);
		gm_sys_nap(NAP);
		passed = fence_has_passed(border, number);
	}
	return passed;
}
