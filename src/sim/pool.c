/* SPDX-License-Identifier: BSD-3-Clause */
/* Stream-ordered allocation and its pools; pools retain no memory here. */
#include <stdlib.h>
#include <string.h>

#include "sim/internal.h"

static CUresult pool_find(CUmemoryPool handle, struct sim_pool **out)
{
	*out = (struct sim_pool *)handle;
	return handle && sim_list_has(&sim.pools, *out) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static struct sim_pool *pool_make(unsigned device)
{
	struct sim_pool *pool = calloc(1, sizeof *pool);
	if (pool) {
		pool->device = device;
		sim_list_add(&sim.pools, &pool->node);
	}
	return pool;
}

static CUresult pool_preset(CUdevice device, struct sim_pool **out)
{
	if (!sim_device_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	struct sim_device *d = &sim.devices[device];
	if (!d->preset_pool) {
		d->preset_pool = d->pool = pool_make((unsigned)device);
		if (!d->pool)
			return CUDA_ERROR_OUT_OF_MEMORY;
		d->pool->preset = true;
	}
	*out = d->preset_pool;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device)
{
	struct sim_pool *pool;
	CUresult result = out ? pool_preset(device, &pool) : CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*out = (CUmemoryPool)pool;
	return result;
}

CUresult sim_cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device)
{
	CUresult result = sim_cuDeviceGetDefaultMemPool(out, device);
	if (result == CUDA_SUCCESS)
		*out = (CUmemoryPool)sim.devices[device].pool;
	return result;
}

CUresult sim_cuDeviceSetMemPool(CUdevice device, CUmemoryPool handle)
{
	struct sim_pool *pool, *preset;
	CUresult result = pool_preset(device, &preset);
	if (result == CUDA_SUCCESS)
		result = pool_find(handle, &pool);
	if (result == CUDA_SUCCESS && pool->device != (unsigned)device)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		sim.devices[device].pool = pool;
	return result;
}

CUresult sim_cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
	if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_valid(props->location.id))
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUmemoryPool)pool_make((unsigned)props->location.id);
	return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuMemPoolDestroy(CUmemoryPool handle)
{
	struct sim_pool *pool;
	if (pool_find(handle, &pool) != CUDA_SUCCESS || pool->preset)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < sim.regions.n; i++)
		if (sim.regions.at[i]->pool == pool)
			sim.regions.at[i]->pool = NULL; /* its memory lives on */
	if (sim.devices[pool->device].pool == pool)
		sim.devices[pool->device].pool = sim.devices[pool->device].preset_pool;
	sim_list_remove(&pool->node);
	free(pool);
	return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
	struct sim_pool *pool;
	(void)keep; /* no memory is retained */
	return pool_find(handle, &pool);
}

static bool attribute_is_switch(CUmemPool_attribute attribute)
{
	return attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

CUresult sim_cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
	struct sim_pool *pool;
	if (pool_find(handle, &pool) != CUDA_SUCCESS || !value || attribute < 1 ||
	    attribute > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute_is_switch(attribute))
		pool->attributes[attribute] = (uint64_t) * (int *)value;
	else if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		pool->attributes[attribute] = *(cuuint64_t *)value;
	else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH ||
		 attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
		pool->used_peak = pool->used;
	else
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value)
{
	struct sim_pool *pool;
	if (pool_find(handle, &pool) != CUDA_SUCCESS || !value || attribute < 1 ||
	    attribute > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
		return CUDA_ERROR_INVALID_VALUE;
	if (attribute_is_switch(attribute))
		*(int *)value = (int)pool->attributes[attribute];
	else if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
		*(cuuint64_t *)value = pool->attributes[attribute];
	else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH ||
		 attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
		*(cuuint64_t *)value = pool->used_peak;
	else
		*(cuuint64_t *)value = pool->used;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *desc, size_t count)
{
	struct sim_pool *pool;
	CUresult result = pool_find(handle, &pool);
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
		if (!desc || desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    !sim_device_valid(desc[i].location.id))
			result = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		uint64_t bit = (uint64_t)1 << desc[i].location.id;
		if (desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			pool->attributes[0] |= bit;
		else
			pool->attributes[0] &= ~bit;
	}
	return result;
}

CUresult sim_cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool handle, CUmemLocation *where)
{
	struct sim_pool *pool;
	if (pool_find(handle, &pool) != CUDA_SUCCESS || !flags || !where ||
	    where->type != CU_MEM_LOCATION_TYPE_DEVICE || !sim_device_valid(where->id))
		return CUDA_ERROR_INVALID_VALUE;
	bool may = pool->device == (unsigned)where->id || pool->attributes[0] >> where->id & 1;
	*flags = may ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}

/* --- allocations --- */

static CUresult pool_alloc(CUdeviceptr *out, size_t size, struct sim_pool *pool, CUstream handle)
{
	struct sim_stream *s;
	struct sim_region *region;
	if (!out || !size)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = sim_stream_of(handle, &s);
	if (result == CUDA_SUCCESS && pool->device != s->ctx->device)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS && s->capture && s->capture->invalid)
		result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (result == CUDA_SUCCESS)
		result = sim_memory_alloc(SIM_ASYNC, s->ctx, size, &region);
	if (result != CUDA_SUCCESS)
		return result;
	if (s->capture) {
		region->graph = s->capture->graph;
		(void)gm_array_push(&region->graph->memory, region->base);
	} else {
		region->pool = pool;
		pool->used += size;
		if (pool->used > pool->used_peak)
			pool->used_peak = pool->used;
	}
	*out = region->base;
	return sim_enqueue(s, NULL);
}

CUresult sim_cuMemAllocAsync(CUdeviceptr *out, size_t size, CUstream stream)
{
	struct sim_pool *preset;
	struct sim_stream *s;
	CUresult result = sim_stream_of(stream, &s);
	if (result == CUDA_SUCCESS)
		result = pool_preset((CUdevice)s->ctx->device, &preset);
	return result == CUDA_SUCCESS
		       ? pool_alloc(out, size, sim.devices[s->ctx->device].pool, stream)
		       : result;
}

CUresult sim_cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t size, CUmemoryPool handle,
				     CUstream stream)
{
	struct sim_pool *pool;
	CUresult result = pool_find(handle, &pool);
	return result == CUDA_SUCCESS ? pool_alloc(out, size, pool, stream) : result;
}

struct freed {
	CUdeviceptr address;
	uint64_t id;
};

static void free_run(void *data)
{
	const struct freed *freed = data;
	struct sim_region *region = sim_region_find(freed->address);
	if (region && region->id == freed->id)
		sim_memory_free(region);
}

CUresult sim_cuMemFreeAsync(CUdeviceptr address, CUstream handle)
{
	struct sim_stream *s;
	CUresult result = sim_stream_of(handle, &s);
	struct sim_region *region = sim_region_find(address);
	if (result != CUDA_SUCCESS)
		return result;
	if (!address)
		return CUDA_SUCCESS;
	if (region && region->kind == SIM_MANAGED)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!region || region->base != address || region->freeing ||
	    (region->kind != SIM_ASYNC && region->kind != SIM_DEVICE))
		return CUDA_ERROR_INVALID_VALUE;
	if (s->capture) { /* only memory of the same capture, owned by its graph, and once */
		if (region->graph != s->capture->graph || region->node_frees)
			return CUDA_ERROR_INVALID_VALUE;
		region->node_frees = true;
		return sim_enqueue(s, NULL);
	}
	struct sim_work *work = sim_work_make(free_run, NULL, sizeof(struct freed));
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*(struct freed *)work->data = (struct freed){address, region->id};
	region->freeing = true;
	result = sim_enqueue(s, work);
	return result;
}
