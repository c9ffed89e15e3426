/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/msg.h"
#include "foreign.h"

static size_t least(size_t a, uint64_t b)
{
	return a < b ? a : (size_t)b;
}

/* Idle and retired memory is there for the asking; what GPUMEM_LIMIT forbids is not. */
static void adjust(unsigned ordinal, size_t *available, size_t *total)
{
	struct gm_pool_stats stats = {0};
	struct gm_pool *pool = gm_shim_pool_if_any(ordinal);
	uint64_t limit = ordinal < gm_shim_n_devices ? gm_shim_devices[ordinal].limit : UINT64_MAX;
	if (pool)
		gm_pool_stats(pool, &stats);
	uint64_t spare = stats.idle + stats.retired;
	*available = least(*available + spare, *total);
	if (limit == UINT64_MAX)
		return;
	uint64_t used = stats.mapped - spare + gm_foreign_bytes(ordinal);
	*available = least(*available, used < limit ? limit - used : 0);
	*total = least(*total, limit);
}

CUresult on_cuMemGetInfo_v2(size_t *available, size_t *total)
{
	if (!gm_shim_enter())
		return real.cuMemGetInfo_v2(available, total);
	size_t have = 0, all = 0;
	CUresult result;
	struct gm_context *context = gm_context_current(&gm_shim_driver, &result);
	/* Which outputs may be NULL is the driver's to say. */
	if (!context || !available || !total)
		result = GM_PASS(real.cuMemGetInfo_v2(available, total));
	if (context && (available || total) && result == CUDA_SUCCESS)
		result = GM_PASS(real.cuMemGetInfo_v2(&have, &all));
	if (context && result == CUDA_SUCCESS) {
		if (all)
			gm_used_note(context->ordinal, all - have);
		adjust(context->ordinal, &have, &all);
		if (available)
			*available = have;
		if (total)
			*total = all;
	}
	gm_shim_leave();
	return result;
}

/* Look-ups need no guard: they call nothing but the function they stand for, which also says when
 * there is no context to ask in. */
CUresult on_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	struct gm_block b;
	bool in_range = false;
	bool live = gm_shim_active() && gm_shim_find_live(dptr, &b, &in_range);
	CUresult result =
		real.cuMemGetAddressRange_v2(pbase, psize, in_range && !live ? GM_NOWHERE : dptr);
	if (live && result == CUDA_SUCCESS) {
		if (pbase)
			*pbase = b.base;
		if (psize)
			*psize = b.size;
	}
	return result;
}

/* A dma-buf names physical memory: the chunks under it stay where they are while the block lives.
 */
static CUresult pin_for_export(struct gm_pool *pool, const struct gm_block *b, CUdeviceptr address,
			       size_t size)
{
	if (!b->live || address - b->base >= b->size || size > b->size - (address - b->base))
		return CUDA_ERROR_INVALID_VALUE;
	return gm_pool_pin(pool, address, size);
}

CUresult on_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size,
					  CUmemRangeHandleType handleType, unsigned long long flags)
{
	struct gm_block b;
	struct gm_pool *pool = gm_shim_active() ? gm_shim_find(dptr, &b) : NULL;
	CUresult result = pool ? pin_for_export(pool, &b, dptr, size) : CUDA_SUCCESS;
	if (result != CUDA_SUCCESS)
		return result;
	return real.cuMemGetHandleForAddressRange(handle, dptr, size, handleType, flags);
}

CUresult on_cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	struct gm_block b;
	if (!gm_shim_active() || !gm_shim_find(dptr, &b))
		return real.cuIpcGetMemHandle(pHandle, dptr);
	GM_MSG_ONCE(GM_MSG_WARN, "cuIpcGetMemHandle is refused: memory of the pool cannot be "
				 "shared with other processes this way");
	return real.cuIpcGetMemHandle(pHandle, GM_NOWHERE);
}
