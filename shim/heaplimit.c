/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The limit that a program sets for the heap of its kernels. Until its context is taken over it is
 * the driver's, which sets memory aside when the first module that calls malloc is loaded. From
 * then on it is kept here, and answered as the driver answers (driver 580): rounded up to 64 KiB,
 * between a least and a most, and fixed once a kernel that may call malloc was launched.
 */
#include "base/size.h"
#include "foreign.h"
#include "inkernel.h"

#define STEP (64 * GM_KIB)

/* The taken over context that is current, or NULL. */
static struct gm_inkernel *taken(CUlimit limit)
{
	CUresult ignored;
	if (limit != CU_LIMIT_MALLOC_HEAP_SIZE || !gm_inkernel_wanted())
		return NULL;
	struct gm_context *context = gm_context_current(&gm_shim_driver, &ignored);
	struct gm_inkernel *h = context ? gm_inkernel_known(context) : NULL;
	return h && gm_inkernel_state(h) == GM_INKERNEL_TAKEN && atomic_load(&h->limit) ? h : NULL;
}

static uint64_t rounded(const struct gm_inkernel *h, uint64_t value)
{
	if (value >= h->most)
		return h->most;
	return value <= h->least ? h->least : gm_round_up(value, STEP);
}

static CUresult set(struct gm_inkernel *h, size_t value)
{
	if (atomic_load_explicit(&h->launched, memory_order_relaxed))
		return CUDA_ERROR_INVALID_VALUE;
	atomic_store(&h->limit, rounded(h, value));
	return CUDA_SUCCESS;
}

static CUresult pass(CUlimit limit, size_t value)
{
	CUresult result = GM_PASS(real.cuCtxSetLimit(limit, value));
	return gm_retry(result) ? GM_PASS(real.cuCtxSetLimit(limit, value)) : result;
}

CUresult on_cuCtxSetLimit(CUlimit limit, size_t value)
{
	if (!gm_shim_enter())
		return real.cuCtxSetLimit(limit, value);
	struct gm_inkernel *h = taken(limit);
	CUresult result = h ? set(h, value) : pass(limit, value);
	gm_shim_leave();
	return result;
}

CUresult on_cuCtxGetLimit(size_t *value, CUlimit limit)
{
	CUresult result = CUDA_SUCCESS;
	if (!gm_shim_enter())
		return real.cuCtxGetLimit(value, limit);
	struct gm_inkernel *h = value ? taken(limit) : NULL;
	if (h)
		*value = atomic_load(&h->limit);
	else
		result = GM_PASS(real.cuCtxGetLimit(value, limit));
	gm_shim_leave();
	return result;
}

/* What the driver makes of a limit; 0: it refuses. */
static size_t try_limit(size_t value)
{
	size_t made = 0;
	if (real.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, value) != CUDA_SUCCESS ||
	    real.cuCtxGetLimit(&made, CU_LIMIT_MALLOC_HEAP_SIZE) != CUDA_SUCCESS)
		return 0;
	return made;
}

void gm_inkernel_limit_keep(struct gm_inkernel *h)
{
	size_t limit = 0;
	if (real.cuCtxGetLimit(&limit, CU_LIMIT_MALLOC_HEAP_SIZE) != CUDA_SUCCESS)
		return;
	h->most = try_limit((size_t)1 << 40);
	h->least = try_limit(0);
	if (h->least && h->most)
		atomic_store(&h->limit, limit);
	else
		try_limit(limit);
}

void gm_inkernel_limit_restore(struct gm_inkernel *h)
{
	uint64_t limit = atomic_exchange(&h->limit, 0);
	if (limit)
		try_limit(limit);
}
