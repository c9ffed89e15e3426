/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "shim/block/attribute.h"
#include "shim/block/question.h"
#include "shim/call.h"
#include "shim/foreign/physical.h"
#include "shim/memory/device.h"
#include "shim/memory/overhead.h"
#include "shim/memory/retry.h"
#include "shim/sleep/rest.h"

static size_t memory_least(size_t a, uint64_t b)
{
	return a < b ? a : (size_t)b;
}

struct memory {
	size_t available, total;
};

static CUresult memory_ask(void *memory)
{
	struct memory *m = memory;
	return GM_PASS(real.cuMemGetInfo_v2(&m->available, &m->total));
}

/* Memory of the pool outside blocks is available; memory beyond GPUMEM_LIMIT is not. */
static void memory_adjust(unsigned ordinal, const struct gm_pool_stats *pool, struct memory *m)
{
	uint64_t limit = ordinal < gm_shim_n_devices ? gm_shim_devices[ordinal].limit : UINT64_MAX;
	/* Others may have what a sleeping process gave back: then its blocks exceed the sum. */
	uint64_t sum = m->available + pool->made;
	uint64_t used_now = pool->lent + pool->handed_out - pool->vacant;
	uint64_t taken = used_now + gm_physical_bytes(ordinal).away;
	m->available = memory_least(m->total, sum > taken ? sum - taken : 0);
	if (limit == UINT64_MAX)
		return;
	uint64_t used = used_now - pool->spare + gm_limit_measure(ordinal);
	m->available = memory_least(m->available, used < limit ? limit - used : 0);
	m->total = memory_least(m->total, limit);
}

static CUresult memory_read(unsigned ordinal, struct memory *m)
{
	struct gm_pool_stats stats = {0};
	struct gm_pool *pool = gm_shim_pool_if_any(ordinal);
	CUresult result = pool ? gm_pool_stats_beside(pool, memory_ask, m, &stats) : memory_ask(m);
	if (result != CUDA_SUCCESS)
		return result;
	if (m->total)
		gm_overhead_record(ordinal, m->total - m->available);
	memory_adjust(ordinal, &stats, m);
	return result;
}

static CUresult memory_info(size_t *available, size_t *total)
{
	struct memory m = {0};
	CUresult result;
	struct gm_context *context = gm_context_current(&gm_shim_driver, &result);
	/* The driver decides which outputs may be NULL. */
	if (!context || !available || !total)
		result = GM_PASS(real.cuMemGetInfo_v2(available, total));
	if (context && (available || total) && result == CUDA_SUCCESS)
		result = memory_read(context->ordinal, &m);
	if (context && result == CUDA_SUCCESS) {
		if (available)
			*available = m.available;
		if (total)
			*total = m.total;
	}
	return result;
}

GM_HANDLER(cuMemGetInfo_v2, (size_t * available, size_t *total), (available, total),
	   memory_info(available, total))

/* Look-ups need no guard: their only call is the program's own, which also reports the error of a
 * thread without a context. */
CUresult on_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	struct gm_question q;
	CUresult result = gm_question_begin(&q, dptr);
	if (result != CUDA_SUCCESS)
		return result;
	result = real.cuMemGetAddressRange_v2(pbase, psize, q.at);
	if (q.live && result == CUDA_SUCCESS) {
		if (pbase)
			*pbase = q.block.base;
		if (psize)
			*psize = q.block.size;
	}
	gm_question_end(&q);
	return result;
}

/* Find the first live block at or behind *at and before `end`; *at moves behind it. False: none. */
static bool range_next(struct gm_pool *pool, CUdeviceptr *at, CUdeviceptr end, struct gm_block *b)
{
	const CUdeviceptr step = 512; /* blocks begin at multiples of this */
	while (*at < end && gm_pool_find(pool, *at, b)) {
		*at = b->live ? b->base + b->held : (*at & ~(step - 1)) + step;
		if (b->live)
			return true;
	}
	return false;
}

/* Callers round to pages of the host, so a range may exceed its block. As natively, it may do so
 * within the mapping of that block. The block begins less than a step of mappings behind the
 * range's begin. */
static bool range_is_meant(struct gm_pool *pool, CUdeviceptr from, CUdeviceptr end)
{
	CUdeviceptr last = end - from < GM_POOL_GRANULE ? end : from + GM_POOL_GRANULE;
	struct gm_block b;
	for (CUdeviceptr at = from; range_next(pool, &at, last, &b);) {
		struct gm_span mapping = gm_block_mapping(&b);
		if (from >= mapping.at && end - mapping.at <= mapping.size)
			return true;
	}
	return false;
}

/* A dma-buf names physical memory: chunks under it must not move while a block on them lives. */
static CUresult range_pin(struct gm_pool *pool, CUdeviceptr from, size_t size)
{
	CUdeviceptr end = from + size;
	struct gm_block b;
	if (!size || end < from || !range_is_meant(pool, from, end))
		return CUDA_ERROR_INVALID_VALUE;
	for (CUdeviceptr at = from; range_next(pool, &at, end, &b);) {
		CUdeviceptr first = b.base < from ? from : b.base, last = at < end ? at : end;
		/* INVALID_VALUE: a neighbour, freed by another thread meanwhile */
		if (gm_pool_pin(pool, first, last - first) == CUDA_ERROR_OUT_OF_MEMORY)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

static CUresult range_handle(void *handle, CUdeviceptr dptr, size_t size,
			     CUmemRangeHandleType handleType, unsigned long long flags)
{
	struct gm_pool *pool = gm_shim_active() ? gm_shim_pool_at(dptr) : NULL;
	CUresult result = pool ? range_pin(pool, dptr, size) : CUDA_SUCCESS;
	gm_rest_share();
	if (!pool)
		gm_physical_keep(dptr, size);
	if (result == CUDA_SUCCESS)
		return real.cuMemGetHandleForAddressRange(handle, dptr, size, handleType, flags);
	const int none = -1;
	const bool pages = size && !((dptr | size) % 4096); /* else *handle is unchanged */
	if (handle && pages && handleType == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD)
		memcpy(handle, &none, sizeof none);
	return result;
}

CUresult on_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size,
					  CUmemRangeHandleType handleType, unsigned long long flags)
{
	return GM_REPORTED(cuMemGetHandleForAddressRange,
			   GM_GATED(cuMemGetHandleForAddressRange,
				    range_handle(handle, dptr, size, handleType, flags)));
}

/* Memory of cuMemAlloc is no mapping, so no device has access to it by a mapping. The result is the
 * same in any context. */
CUresult on_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
			   CUdeviceptr ptr)
{
	struct gm_block b;
	bool in_range = false;
	bool live = gm_shim_active() && gm_question_find(ptr, &b, &in_range);
	if (!live && !in_range) {
		if (flags && location && location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
		    gm_physical_access(ptr, location->id, flags))
			return CUDA_SUCCESS;
		return real.cuMemGetAccess(flags, location, ptr);
	}
	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    (unsigned)location->id >= gm_shim_n_devices)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = 0;
	return live ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
