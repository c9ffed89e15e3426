/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attributes of blocks. The driver answers as for mapped memory; then the attributes that differ
 * for memory of cuMemAlloc are corrected. Outputs are written only on success. The handlers need no
 * guard: no lock is held across a call, and no call is made that could allocate or free.
 */
#include <string.h>

#include "base/size.h"
#include "shim/block/attribute.h"
#include "shim/block/memops.h"
#include "shim/block/question.h"
#include "shim/call.h"
#include "shim/context/capture.h"
#include "shim/context/peer.h"
#include "shim/foreign/physical.h"
#include "shim/memory/device.h"
#include "shim/memory/retry.h"

/* Set in each BUFFER_ID of ours: the driver's own allocations have smaller ones. */
#define OUR_BUFFERS ((unsigned long long)1 << 62)
#define DEVICE_SHIFT 48 /* in numbers of chunks, which count in each pool apart */

static void attribute_context(void *out, const struct gm_question *q)
{
	struct gm_context *owner = gm_context_find(q->block.context);
	CUcontext handle = owner ? owner->handle : NULL;
	memcpy(out, &handle, sizeof handle);
}

/* The driver was perhaps asked about the stand-in. */
static void attribute_pointer(void *out, const struct gm_question *q)
{
	memcpy(out, &q->address, sizeof q->address);
}

static void attribute_buffer_id(void *out, const struct gm_question *q)
{
	unsigned long long id = OUR_BUFFERS | q->block.id;
	memcpy(out, &id, sizeof id);
}

static void attribute_base(void *out, const struct gm_question *q)
{
	memcpy(out, &q->block.base, sizeof q->block.base);
}

static void attribute_size(void *out, const struct gm_question *q)
{
	memcpy(out, &q->block.size, sizeof q->block.size);
}

static void attribute_no_mempool(void *out, const struct gm_question *q)
{
	CUmemoryPool none = NULL;
	(void)q;
	memcpy(out, &none, sizeof none);
}

/* Chunks are exportable, memory of cuMemAlloc is not. The driver has written a number, of a width
 * of its choice, with all its set bits in the lowest byte. */
static void attribute_no_handle_types(void *out, const struct gm_question *q)
{
	(void)q;
	*(unsigned char *)out = 0;
}

/* For mapped memory the driver's answer is no; for a block of another process it is right. */
static void attribute_ipc(void *out, const struct gm_question *q)
{
	const struct gm_pool *pool = gm_shim_pool_at(q->block.base);
	if (pool)
		*(unsigned char *)out = gm_pool_exports(pool);
}

static void attribute_memops(void *out, const struct gm_question *q)
{
	unsigned on = gm_memops_get(q->block.id);
	memcpy(out, &on, sizeof on);
}

/* Natively a block has a mapping of its own, in steps of 2 MiB, and smaller blocks share a step. A
 * step is within the chunk of its begin. */
struct gm_span gm_block_mapping(const struct gm_block *b)
{
	CUdeviceptr from = b->base & ~(CUdeviceptr)(GM_POOL_GRANULE - 1);
	return (struct gm_span){from, gm_round_up(b->base + b->size, GM_POOL_GRANULE) - from};
}

static void attribute_mapping_base(void *out, const struct gm_question *q)
{
	CUdeviceptr base = gm_block_mapping(&q->block).at;
	memcpy(out, &base, sizeof base);
}

static void attribute_mapping_size(void *out, const struct gm_question *q)
{
	size_t size = gm_block_mapping(&q->block).size;
	memcpy(out, &size, sizeof size);
}

/* The pool is also open to devices that copies needed, beyond those that the program enabled. For a
 * block of another process the driver's answer is right: the block is mapped for the context that
 * opened it. */
static void attribute_access(void *out, const struct gm_question *q)
{
	if (!gm_shim_pool_at(q->block.base))
		return;
	unsigned access = gm_peer_is_enabled(q->block.context, q->block.ordinal)
				  ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
				  : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
	memcpy(out, &access, sizeof access);
}

/* The driver's number of a chunk changes with each sleep. Of a block of another process the
 * driver's answer is right. */
static void attribute_memory_id(void *out, const struct gm_question *q)
{
	struct gm_pool *pool = gm_shim_pool_at(q->address);
	unsigned long long chunk = pool ? gm_pool_chunk_number(pool, q->address) : 0;
	unsigned long long id =
		OUR_BUFFERS | (unsigned long long)q->block.ordinal << DEVICE_SHIFT | chunk;
	if (chunk)
		memcpy(out, &id, sizeof id);
}

/* The headers of older toolkits lack these. */
enum { MAPPING_SIZE = 18, MAPPING_BASE_ADDR = 19, MEMORY_BLOCK_ID = 20 };

static const struct {
	CUpointer_attribute attribute;
	void (*put)(void *out, const struct gm_question *q);
} ours[] = {
	{CU_POINTER_ATTRIBUTE_CONTEXT, attribute_context},
	{CU_POINTER_ATTRIBUTE_DEVICE_POINTER, attribute_pointer},
	{CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, attribute_memops},
	{CU_POINTER_ATTRIBUTE_BUFFER_ID, attribute_buffer_id},
	{CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, attribute_ipc},
	{CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, attribute_base},
	{CU_POINTER_ATTRIBUTE_RANGE_SIZE, attribute_size},
	{CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, attribute_no_handle_types},
	{CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, attribute_access},
	{CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, attribute_no_mempool},
	{(CUpointer_attribute)MAPPING_SIZE, attribute_mapping_size},
	{(CUpointer_attribute)MAPPING_BASE_ADDR, attribute_mapping_base},
	{(CUpointer_attribute)MEMORY_BLOCK_ID, attribute_memory_id},
};

static void attribute_correct(void *out, CUpointer_attribute attribute, const struct gm_question *q)
{
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		if (ours[i].attribute == attribute)
			ours[i].put(out, q);
}

CUresult on_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct gm_question q;
	CUresult result = gm_question_begin(&q, ptr);
	if (result != CUDA_SUCCESS)
		return result;
	result = real.cuPointerGetAttribute(data, attribute, q.at);
	/* Mapped memory has no such attribute. */
	if (q.live && data && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS &&
	    result == CUDA_ERROR_NOT_SUPPORTED)
		result = CUDA_SUCCESS;
	if (q.live && result == CUDA_SUCCESS)
		attribute_correct(data, attribute, &q);
	gm_question_end(&q);
	return result;
}

CUresult on_cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
				   void **data, CUdeviceptr ptr)
{
	struct gm_question q;
	CUresult result = gm_question_begin(&q, ptr);
	if (result != CUDA_SUCCESS)
		return result;
	result = real.cuPointerGetAttributes(numAttributes, attributes, data, q.at);
	for (unsigned i = 0; q.live && result == CUDA_SUCCESS && i < numAttributes; i++)
		attribute_correct(data[i], attributes[i], &q);
	gm_question_end(&q);
	return result;
}

/* By the manual, the call returns once pending synchronous operations are complete. They are in the
 * default streams. A wait could invalidate an open capture. */
static void memops_wait(void)
{
	if (gm_capture_any() || !atomic_exchange(&gm_memops_pending, false))
		return;
	gm_shim_driver.cuStreamSynchronize(NULL);
	gm_shim_driver.cuStreamSynchronize(CU_STREAM_PER_THREAD);
}

/* Natively the call is forbidden in an ended context, and in a capture that forbids allocations. It
 * needs no context, and works in a context with an error. */
static CUresult memops_allowed(void)
{
	CUresult result;
	struct gm_context *context = gm_context_current(&gm_shim_driver, &result);
	if (!context && result == CUDA_ERROR_INVALID_CONTEXT)
		return CUDA_SUCCESS;
	if (!context && result != CUDA_ERROR_NOT_PERMITTED) /* of a host function */
		result = CUDA_ERROR_INVALID_VALUE;
	if (!context)
		return result;
	if (!gm_capture_any())
		return CUDA_SUCCESS;
	result = gm_fence_may_allocate(&gm_shim_driver, context);
	return result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ? result : CUDA_SUCCESS;
}

static CUresult attribute_set(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct gm_block b;
	struct gm_pool *pool = gm_shim_active() ? gm_shim_find(ptr, &b) : NULL;
	if (!pool) {
		gm_physical_keep(ptr, 1);
		return real.cuPointerSetAttribute(value, attribute, ptr);
	}
	if (!b.live || ptr - b.base >= b.size)
		return real.cuPointerSetAttribute(value, attribute, GM_NOWHERE);
	if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !value)
		return real.cuPointerSetAttribute(value, attribute, GM_NOWHERE);
	CUresult result = memops_allowed();
	if (result != CUDA_SUCCESS)
		return result;
	bool on = *(const unsigned char *)value != 0;
	/* A program sets it before it gives the physical address to a network card. */
	result = on ? gm_pool_pin(pool, b.base, b.size) : CUDA_SUCCESS;
	if (result == CUDA_SUCCESS && !gm_memops_set(b.id, on))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS && on)
		memops_wait();
	return result;
}

CUresult on_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	return GM_REPORTED(cuPointerSetAttribute,
			   GM_GATED(cuPointerSetAttribute, attribute_set(value, attribute, ptr)));
}
