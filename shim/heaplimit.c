/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The limit that a program sets for the heap of its kernels. In a context that is taken over, or may
 * yet be, the driver is not told: it would set that memory aside for a heap that nobody uses. It is
 * remembered, and answered.
 */
#include "foreign.h"
#include "inkernel.h"

/* The context whose limit is ours to keep, or NULL. */
static struct gm_inkernel *kept(CUlimit limit)
{
	CUresult ignored;
	if (limit != CU_LIMIT_MALLOC_HEAP_SIZE || !gm_inkernel_wanted())
		return NULL;
	struct gm_context *context = gm_context_current(&gm_shim_driver, &ignored);
	struct gm_inkernel *h = context ? gm_inkernel_known(context) : NULL;
	return h && gm_inkernel_state(h) != GM_INKERNEL_NATIVE ? h : NULL;
}

static CUresult pass_set(CUlimit limit, size_t value)
{
	CUresult result = GM_PASS(real.cuCtxSetLimit(limit, value));
	return gm_retry(result) ? GM_PASS(real.cuCtxSetLimit(limit, value)) : result;
}

CUresult on_cuCtxSetLimit(CUlimit limit, size_t value)
{
	CUresult result = CUDA_SUCCESS;
	if (!gm_shim_enter())
		return real.cuCtxSetLimit(limit, value);
	struct gm_inkernel *h = kept(limit);
	if (h)
		atomic_store(&h->asked, (uint64_t)value + 1);
	else
		result = pass_set(limit, value);
	gm_shim_leave();
	return result;
}

CUresult on_cuCtxGetLimit(size_t *value, CUlimit limit)
{
	CUresult result = CUDA_SUCCESS;
	if (!gm_shim_enter())
		return real.cuCtxGetLimit(value, limit);
	struct gm_inkernel *h = value ? kept(limit) : NULL;
	uint64_t asked = h ? atomic_load(&h->asked) : 0;
	if (asked)
		*value = asked - 1;
	else
		result = GM_PASS(real.cuCtxGetLimit(value, limit));
	gm_shim_leave();
	return result;
}

void gm_inkernel_limit_to_driver(const struct gm_inkernel *h)
{
	uint64_t asked = atomic_load(&h->asked);
	if (asked)
		real.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, asked - 1);
}
