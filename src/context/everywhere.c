/* SPDX-License-Identifier: BSD-3-Clause */
#include "context/everywhere.h"

#include "context/context.h"

CUresult gm_everywhere_record(const struct gm_fence_ops *ops, void *arg, struct gm_everywhere *out)
{
	CUresult result = CUDA_SUCCESS;
	out->n = 0;
	for (struct gm_context *context = gm_context_newest(); context && result == CUDA_SUCCESS;
	     context = context->next) {
		CUevent event = NULL;
		if (atomic_load_explicit(&context->gone, memory_order_acquire))
			continue;
		result = out->n < GM_EVERYWHERE_CONTEXTS ? ops->record(arg, context->key, &event)
							 : CUDA_ERROR_NOT_READY;
		if (result != CUDA_SUCCESS)
			break;
		out->at[out->n].context = context->key;
		out->at[out->n++].event = event;
	}
	if (result != CUDA_SUCCESS)
		gm_everywhere_drop(ops, arg, out);
	return result;
}

CUresult gm_everywhere_passed(const struct gm_fence_ops *ops, void *arg, struct gm_everywhere *all)
{
	while (all->n) {
		const unsigned last = all->n - 1;
		const CUevent event = all->at[last].event;
		CUresult result =
			event ? ops->passed(arg, all->at[last].context, event) : CUDA_SUCCESS;
		if (result != CUDA_SUCCESS)
			return result;
		if (event)
			ops->drop(arg, all->at[last].context, event);
		all->n--;
	}
	return CUDA_SUCCESS;
}

void gm_everywhere_drop(const struct gm_fence_ops *ops, void *arg, struct gm_everywhere *all)
{
	for (; all->n; all->n--)
		if (all->at[all->n - 1].event)
			ops->drop(arg, all->at[all->n - 1].context, all->at[all->n - 1].event);
}
