/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls for managed memory, refused for any other memory. The device has its pages until the whole
 * of an allocation is prefetched to the host, and from its prefetch to a device on: no use migrates
 * pages here.
 */
#include <string.h>

#include "sim/internal.h"

static bool range_is_managed(CUdeviceptr at, size_t size)
{
	const struct sim_region *region = sim_region_find(at);
	return region && region->kind == SIM_MANAGED && !region->freeing && size &&
	       size <= region->size - (at - region->base);
}

static CUresult range_check(CUdeviceptr at, size_t size, CUdevice device)
{
	if (!range_is_managed(at, size))
		return CUDA_ERROR_INVALID_VALUE;
	return device == CU_DEVICE_CPU || sim_device_valid(device) ? CUDA_SUCCESS
								   : CUDA_ERROR_INVALID_DEVICE;
}

static CUdevice location_device(CUmemLocation where)
{
	return where.type == CU_MEM_LOCATION_TYPE_DEVICE ? where.id : CU_DEVICE_CPU;
}

/* False: the device has no room. Pieces below 1 MiB share pages, which stay. */
static bool region_move(struct sim_region *region, size_t size, bool to_host)
{
	size_t whole = gm_round_up(region->size, SIM_PAGE);
	if (region->slab || size != region->size || region->on_host == to_host)
		return true;
	if (to_host)
		sim_uncharge(region->device, whole);
	else if (sim_charge(region->device, whole) != CUDA_SUCCESS)
		return false;
	region->on_host = to_host;
	return true;
}

CUresult sim_cuMemPrefetchAsync(CUdeviceptr at, size_t size, CUdevice device, CUstream handle)
{
	struct sim_stream *s;
	CUresult result = sim_stream_of(handle, &s);
	if (result == CUDA_SUCCESS)
		result = range_check(at, size, device);
	if (result == CUDA_SUCCESS &&
	    !region_move(sim_region_find(at), size, device == CU_DEVICE_CPU))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	return result == CUDA_SUCCESS ? sim_enqueue(s, NULL) : result;
}

CUresult sim_cuMemPrefetchAsync_v2(CUdeviceptr at, size_t size, CUmemLocation where, unsigned flags,
				   CUstream handle)
{
	return flags ? CUDA_ERROR_INVALID_VALUE
		     : sim_cuMemPrefetchAsync(at, size, location_device(where), handle);
}

CUresult sim_cuMemAdvise(CUdeviceptr at, size_t size, CUmem_advise advice, CUdevice device)
{
	if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY)
		return CUDA_ERROR_INVALID_VALUE;
	return range_check(at, size, device);
}

CUresult sim_cuMemAdvise_v2(CUdeviceptr at, size_t size, CUmem_advise advice, CUmemLocation where)
{
	return sim_cuMemAdvise(at, size, advice, location_device(where));
}

CUresult sim_cuMemRangeGetAttribute(void *out, size_t room, CUmem_range_attribute attribute,
				    CUdeviceptr at, size_t size)
{
	if (!out || room % 4 || !room || attribute < CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ||
	    !range_is_managed(at, size))
		return CUDA_ERROR_INVALID_VALUE;
	memset(out, 0, room);
	return CUDA_SUCCESS;
}

/* Only whole allocations can be attached. */
CUresult sim_cuStreamAttachMemAsync(CUstream handle, CUdeviceptr at, size_t size, unsigned flags)
{
	struct sim_stream *s;
	CUresult result = sim_stream_of(handle, &s);
	const struct sim_region *region = sim_region_find(at);
	if (result != CUDA_SUCCESS)
		return result;
	if (!region || region->kind != SIM_MANAGED || region->base != at ||
	    (size && size != region->size) ||
	    (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
	     flags != CU_MEM_ATTACH_SINGLE) ||
	    (flags == CU_MEM_ATTACH_SINGLE && s->legacy))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_enqueue(s, NULL);
}
