/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls that the driver accepts only for mapped or managed memory. They follow the comments of
 * cuda.h, not measurements. There are no multicast objects and no endpoints here: any name stands
 * for one.
 */
#include <fcntl.h>
#include <string.h>

#include "sim/internal.h"

/* Succeeds if all of [at, at + size) is in one mapping. */
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

/* --- dma-buf: any open file stands for one --- */

static bool mappings_cover(size_t at, CUdeviceptr from, CUdeviceptr end)
{
	for (; from < end; at++) {
		const struct sim_region *r = at < sim.regions.n ? sim.regions.at[at] : NULL;
		if (!r || r->kind != SIM_MAPPING || r->base > from)
			return false;
		from = r->base + r->size;
	}
	return true;
}

/* Is there a block with all of the range in its mapping? Blocks below 1 MiB share a mapping, and a
 * range may be all of it (not measured). */
static bool block_covers(size_t at, CUdeviceptr from, CUdeviceptr end)
{
	for (; at < sim.regions.n && sim.regions.at[at]->base < end; at++) {
		const struct sim_region *r = sim.regions.at[at];
		if (r->kind == SIM_DEVICE && !r->freeing && from >= (r->base & ~(SIM_PAGE - 1)) &&
		    end <= gm_round_up(r->base + r->size, SIM_PAGE))
			return true;
	}
	return false;
}

CUresult sim_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr from, size_t size,
					   CUmemRangeHandleType type, unsigned long long flags)
{
	const CUdeviceptr end = from + size, page = 4096;
	size_t at = sim_region_place(from);
	const int none = -1;
	if (handle && from && size && !((from | size) % page) &&
	    type == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD)
		memcpy(handle, &none, sizeof none);
	if (!handle || !size || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags > 1 ||
	    (from | size) % page ||
	    (!block_covers(at, from, end) && !mappings_cover(at, from, end)))
		return CUDA_ERROR_INVALID_VALUE;
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	memcpy(handle, &fd, sizeof fd);
	return fd < 0 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

/* The location of managed memory, in steps: here always its device. */
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
