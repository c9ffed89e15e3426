/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The limit that a program sets for the heap of its kernels. Until the takeover of the context the
 * driver keeps it, and reserves the memory when the first module that calls malloc is loaded. After
 * the takeover it is kept here, with the driver's rules (driver 580): rounded up to 64 KiB, between
 * a minimum and a maximum, and fixed after the first launch of a kernel that may call malloc.
 */
#include "shim/kernel/heaplimit.h"

#include "base/size.h"
#include "shim/memory/retry.h"

#define STEP (64 * GM_KIB)

/* The current context, if it is taken over and its limit is kept here; or NULL. */
static struct gm_inkernel *limit_taken(CUlimit limit)
{
	CUresult ignored;
	if (limit != CU_LIMIT_MALLOC_HEAP_SIZE || !gm_inkernel_wanted())
		return NULL;
	struct gm_context *context = gm_context_current(&gm_shim_driver, &ignored);
	struct gm_inkernel *h = context ? gm_inkernel_known(context) : NULL;
	return h && gm_inkernel_state(h) == GM_INKERNEL_TAKEN && atomic_load(&h->limit) ? h : NULL;
}

static uint64_t limit_round(const struct gm_inkernel *h, uint64_t value)
{
	if (value >= h->most)
		return h->most;
	return value <= h->least ? h->least : gm_round_up(value, STEP);
}

static CUresult limit_set(CUlimit limit, size_t value)
{
	struct gm_inkernel *h = limit_taken(limit);
	if (!h)
		return GM_PASS_RETRY(cuCtxSetLimit, GM_LACK_HERE, 0,
				     real.cuCtxSetLimit(limit, value));
	if (atomic_load_explicit(&h->launched, memory_order_relaxed))
		return CUDA_ERROR_INVALID_VALUE;
	atomic_store(&h->limit, limit_round(h, value));
	return CUDA_SUCCESS;
}

static CUresult limit_get(size_t *value, CUlimit limit)
{
	struct gm_inkernel *h = value ? limit_taken(limit) : NULL;
	if (!h)
		return GM_PASS(real.cuCtxGetLimit(value, limit));
	*value = atomic_load(&h->limit);
	return CUDA_SUCCESS;
}

GM_HANDLER(cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value), limit_set(limit, value))
GM_HANDLER(cuCtxGetLimit, (size_t * value, CUlimit limit), (value, limit), limit_get(value, limit))

/* The limit that the driver sets for `value`; 0: refused. */
static size_t limit_try(size_t value)
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
	h->most = limit_try((size_t)1 << 40);
	h->least = limit_try(0);
	if (h->least && h->most)
		atomic_store(&h->limit, limit);
	else
		limit_try(limit);
}

void gm_inkernel_limit_restore(struct gm_inkernel *h)
{
	uint64_t limit = atomic_exchange(&h->limit, 0);
	if (limit)
		limit_try(limit);
}
