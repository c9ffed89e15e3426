/* SPDX-License-Identifier: BSD-3-Clause */
/* Queries about an address. */
#include <string.h>

#include "sim/internal.h"

/* For memory of cuMemMap the range is the physical handle's, not the reservation's. */
CUresult sim_cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
	const struct sim_region *region = sim_region_find(address);
	if (!region)
		return base || size ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
	if (base)
		*base = region->base;
	if (size)
		*size = region->size;
	return CUDA_SUCCESS;
}

static bool region_is_on_host(const struct sim_region *r)
{
	return r->kind == SIM_HOST || r->kind == SIM_REGISTERED;
}

union value {
	uint64_t u64;
	unsigned u32;
	unsigned char u8;
	CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;
};

static CUresult sync_memops(const struct sim_region *r, union value *v)
{
	v->u32 = r->sync_memops;
	return r->kind == SIM_MAPPING ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

static CUresult host_pointer(const struct sim_region *r, CUdeviceptr address, union value *v)
{
	bool has = region_is_on_host(r) || r->kind == SIM_MANAGED;
	v->u64 = has ? address : 0;
	return has ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static uint64_t mapping_size(const struct sim_region *r)
{
	return r->slab			? SIM_PAGE
	       : r->kind == SIM_MAPPING ? r->size
					: gm_round_up(r->size, SIM_PAGE);
}

static unsigned handle_types(const struct sim_region *r)
{
	return r->kind == SIM_MAPPING ? (unsigned)r->handle->prop.requestedHandleTypes : 0;
}

static bool region_rdma(const struct sim_region *r)
{
	return r->kind == SIM_MAPPING ? r->handle->prop.allocFlags.gpuDirectRDMACapable
				      : r->kind == SIM_DEVICE;
}

/* Missing from headers before toolkit 12.8: CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK,
 * CU_MEM_CREATE_USAGE_HW_DECOMPRESS, CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE. */
enum { DECOMPRESS_MASK = 136, USAGE_DECOMPRESS = 2, IS_DECOMPRESS_CAPABLE = 21 };

static bool region_decompress(const struct sim_region *r)
{
	int can = 0;
	if (r->device >= SIM_MAX_DEVICES ||
	    sim_cuDeviceGetAttribute(&can, (CUdevice_attribute)DECOMPRESS_MASK,
				     (CUdevice)r->device) != CUDA_SUCCESS)
		return false;
	return can &&
	       (r->kind == SIM_DEVICE ||
		(r->kind == SIM_MAPPING && r->handle->prop.allocFlags.usage & USAGE_DECOMPRESS));
}

/* The access of the current context's device. */
static unsigned region_access(const struct sim_region *r)
{
	const struct sim_context *ctx = sim_current();
	unsigned flags = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
	if (ctx && r->kind == SIM_MAPPING)
		flags = r->access[ctx->device];
	if (ctx && r->kind == SIM_DEVICE && !(ctx->peers & 1u << r->device))
		flags = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
	return flags;
}

/* Older toolkits lack CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID. */
#define MEMORY_BLOCK_ID ((CUpointer_attribute)20)

/* The value and its width in bytes; width 0: unknown attribute. */
static CUresult region_query(const struct sim_region *r, CUpointer_attribute attribute,
			     CUdeviceptr address, union value *v, size_t *width)
{
	*width = 8;
	if (attribute == MEMORY_BLOCK_ID)
		return v->u64 = r->id, CUDA_SUCCESS;
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		return v->u64 = (uint64_t)sim_context_handle(r->ctx), CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		return v->u64 = address, CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		return host_pointer(r, address, v);
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		return *width = sizeof v->tokens, CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
		return v->u64 = r->id, CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		return v->u64 = r->base, CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		return v->u64 = r->size, CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		return v->u64 = handle_types(r), CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		return v->u64 = (uint64_t)r->pool, CUDA_SUCCESS;
#if CUDA_VERSION >= 12000
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		return v->u64 = mapping_size(r), CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		return v->u64 = r->base & ~(SIM_PAGE - 1), CUDA_SUCCESS;
#endif
	default:
		break;
	}
	*width = 4;
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		v->u32 = region_is_on_host(r) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		return v->u32 = r->device, CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		return sync_memops(r, v);
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return v->u32 = region_access(r), CUDA_SUCCESS;
	default:
		break;
	}
	*width = 1; /* booleans */
	if (attribute == (CUpointer_attribute)IS_DECOMPRESS_CAPABLE &&
	    sim.settings.version >= 12080)
		return v->u8 = region_decompress(r), CUDA_SUCCESS;
	switch (attribute) {
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		return v->u8 = r->kind == SIM_MANAGED, CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		return v->u8 = r->kind == SIM_DEVICE, CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		return v->u8 = 1, CUDA_SUCCESS;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		return v->u8 = region_rdma(r), CUDA_SUCCESS;
	default:
		*width = 0;
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* The region of an address; NULL also for a block with a waiting or queued free. */
static struct sim_region *region_find(CUdeviceptr address)
{
	struct sim_region *region = sim_region_find(address);
	return region && !region->freeing ? region : NULL;
}

CUresult sim_cuPointerGetAttribute(void *out, CUpointer_attribute attribute, CUdeviceptr address)
{
	const struct sim_region *region = region_find(address);
	union value value;
	size_t width;
	if (!out || !region)
		return CUDA_ERROR_INVALID_VALUE;
	memset(&value, 0, sizeof value);
	CUresult result = region_query(region, attribute, address, &value, &width);
	/* HOST_POINTER is written even if there is no host address */
	if (result == CUDA_SUCCESS || attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER)
		memcpy(out, &value, width);
	return result;
}

/* Does not fail for an unknown address or attribute: the value is 0 then; RANGE_SIZE is not
 * written. */
CUresult sim_cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **out,
				    CUdeviceptr address)
{
	static const struct sim_region nowhere = {.device = (unsigned)-2};
	const struct sim_region *region = region_find(address);
	if (!attributes || !out || !count)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count; i++) {
		union value value;
		size_t width;
		memset(&value, 0, sizeof value);
		CUresult result = region_query(region ? region : &nowhere, attributes[i], address,
					       &value, &width);
		if (!width || !out[i])
			return CUDA_ERROR_INVALID_VALUE;
		if (result != CUDA_SUCCESS ||
		    (!region && attributes[i] != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL))
			memset(&value, 0, sizeof value);
		if (region || attributes[i] != CU_POINTER_ATTRIBUTE_RANGE_SIZE)
			memcpy(out[i], &value, width);
	}
	return CUDA_SUCCESS;
}

CUresult sim_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
				   CUdeviceptr address)
{
	struct sim_region *region = region_find(address);
	struct sim_stream *legacy;
	CUresult result = sim_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	if (sim_check_current() == CUDA_ERROR_CONTEXT_IS_DESTROYED || !value || !region ||
	    attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	if (region->kind == SIM_MAPPING)
		return CUDA_ERROR_NOT_SUPPORTED;
	region->sync_memops = *(const unsigned *)value != 0;
	/* pending work is complete before the call returns */
	if (region->sync_memops && sim_stream_of(NULL, &legacy) == CUDA_SUCCESS)
		return sim_wait_stream(legacy);
	return CUDA_SUCCESS;
}
