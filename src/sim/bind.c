/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the driver does to mapped or managed memory alone: by the comments of cuda.h, for nobody has
 * measured it. There are no multicast objects and no endpoints here: any name stands for one.
 */
#include "sim/internal.h"

/* All of [at, at + size) is in one mapping. */
static CUresult range_bind(CUdeviceptr at, uint64_t size, unsigned long long flags)
{
	const struct sim_region *region = sim_region_find(at);
	return region && region->kind == SIM_MAPPING && size && !flags &&
			       size <= region->size - (at - region->base)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMulticastBindAddr(CUmemGenericAllocationHandle group, size_t offset, CUdeviceptr at,
				 size_t size, unsigned long long flags)
{
	(void)group, (void)offset;
	return range_bind(at, size, flags);
}

CUresult sim_cuMulticastBindAddr_v2(CUmemGenericAllocationHandle group, CUdevice device,
				    size_t offset, CUdeviceptr at, size_t size,
				    unsigned long long flags)
{
	(void)group, (void)offset;
	return sim_device_valid(device) ? range_bind(at, size, flags) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult sim_cuLogicalEndpointBindAddr(CUlogicalEndpointId endpoint, CUdevice device,
				       cuuint64_t offset, void *at, cuuint64_t size,
				       unsigned long long flags)
{
	(void)endpoint, (void)offset;
	return sim_device_valid(device) ? range_bind((CUdeviceptr)at, size, flags)
					: CUDA_ERROR_INVALID_DEVICE;
}

/* Where managed memory is, a step at a time: here always on its device. */
CUresult sim_cuMemGetLocationInfo(CUdeviceptr at, size_t size, size_t step, size_t sample,
				  CUmemLocation *where)
{
	const struct sim_region *region = sim_region_find(at);
	if (!where || !step || step > size || sample > step || !region ||
	    region->kind != SIM_MANAGED || size > region->size - (at - region->base))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < size / step + (size % step != 0); i++)
		where[i] = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE,
					   .id = (int)region->device};
	return CUDA_SUCCESS;
}
