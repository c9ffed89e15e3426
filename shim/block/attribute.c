/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attributes of blocks. The driver answers as it does for mapped memory; then the attributes that
 * differ for memory of cuMemAlloc are corrected. Outputs are written only on success. The handlers
 * need no guard: they take no lock, and the only call that they make is the program's own.
 */
#include <string.h>

#include "shim/block/memops.h"
#include "shim/call.h"
#include "shim/device.h"

/* Set in each BUFFER_ID of ours: the driver's own allocations have smaller ones. */
#define OUR_BUFFERS ((unsigned long long)1 << 62)

static void attribute_context(void *out, const struct gm_block *b)
{
	struct gm_context *owner = gm_context_find(b->context);
	CUcontext handle = owner ? owner->handle : NULL;
	memcpy(out, &handle, sizeof handle);
}

static void attribute_buffer_id(void *out, const struct gm_block *b)
{
	unsigned long long id = OUR_BUFFERS | b->id;
	memcpy(out, &id, sizeof id);
}

static void attribute_base(void *out, const struct gm_block *b)
{
	memcpy(out, &b->base, sizeof b->base);
}

static void attribute_size(void *out, const struct gm_block *b)
{
	memcpy(out, &b->size, sizeof b->size);
}

static void attribute_no_mempool(void *out, const struct gm_block *b)
{
	CUmemoryPool none = NULL;
	(void)b;
	memcpy(out, &none, sizeof none);
}

/* Chunks are exportable, memory of cuMemAlloc is not. The driver has written a number of a width
 * that it chose, with no bit set beyond the lowest byte. */
static void attribute_no_handle_types(void *out, const struct gm_block *b)
{
	(void)b;
	*(unsigned char *)out = 0;
}

static void attribute_memops(void *out, const struct gm_block *b)
{
	unsigned on = gm_memops_get(b->id);
	memcpy(out, &on, sizeof on);
}

static const struct {
	CUpointer_attribute attribute;
	void (*put)(void *out, const struct gm_block *b);
} ours[] = {
	{CU_POINTER_ATTRIBUTE_CONTEXT, attribute_context},
	{CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, attribute_memops},
	{CU_POINTER_ATTRIBUTE_BUFFER_ID, attribute_buffer_id},
	{CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, attribute_base},
	{CU_POINTER_ATTRIBUTE_RANGE_SIZE, attribute_size},
	{CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, attribute_no_handle_types},
	{CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, attribute_no_mempool},
};

static void attribute_correct(void *out, CUpointer_attribute attribute, const struct gm_block *b)
{
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		if (ours[i].attribute == attribute)
			ours[i].put(out, b);
}

CUresult on_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct gm_block b;
	bool in_range = false;
	bool live = gm_shim_active() && gm_shim_find_live(ptr, &b, &in_range);
	CUresult result =
		real.cuPointerGetAttribute(data, attribute, in_range && !live ? GM_NOWHERE : ptr);
	/* Mapped memory has no such attribute. */
	if (live && data && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS &&
	    result == CUDA_ERROR_NOT_SUPPORTED)
		result = CUDA_SUCCESS;
	if (live && result == CUDA_SUCCESS)
		attribute_correct(data, attribute, &b);
	return result;
}

CUresult on_cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
				   void **data, CUdeviceptr ptr)
{
	struct gm_block b;
	bool in_range = false;
	bool live = gm_shim_active() && gm_shim_find_live(ptr, &b, &in_range);
	CUresult result = real.cuPointerGetAttributes(numAttributes, attributes, data,
						      in_range && !live ? GM_NOWHERE : ptr);
	if (live && result == CUDA_SUCCESS)
		for (unsigned i = 0; i < numAttributes; i++)
			attribute_correct(data[i], attributes[i], &b);
	return result;
}

CUresult on_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct gm_block b;
	struct gm_pool *pool = gm_shim_active() ? gm_shim_find(ptr, &b) : NULL;
	if (!pool)
		return real.cuPointerSetAttribute(value, attribute, ptr);
	if (!b.live || ptr - b.base >= b.size)
		return real.cuPointerSetAttribute(value, attribute, GM_NOWHERE);
	if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !value)
		return real.cuPointerSetAttribute(value, attribute, ptr);
	bool on = *(const unsigned char *)value != 0;
	/* A program that sets it is about to give the physical address to a network card. */
	CUresult result = on ? gm_pool_pin(pool, b.base, b.size) : CUDA_SUCCESS;
	if (result == CUDA_SUCCESS && !gm_memops_set(b.id, on))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	return result;
}
