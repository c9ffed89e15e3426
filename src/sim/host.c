/* SPDX-License-Identifier: BSD-3-Clause */
/* Pinned and registered host memory. */
#include <sys/mman.h>

#include "sim/internal.h"

#define HOST_PAGE ((size_t)4096)

/* More than any host has. */
#define HOST_MOST ((size_t)1 << 44)

/* 0 bytes are no memory, and no error. *out is NULL after each failure. */
CUresult sim_cuMemHostAlloc(void **out, size_t size, unsigned flags)
{
	const unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
			       CU_MEMHOSTALLOC_WRITECOMBINED;
	struct sim_region *region;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = NULL;
	if (flags & ~known)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = sim_capture_unsafe();
	if (result != CUDA_SUCCESS || !size)
		return result;
	if (size > HOST_MOST)
		return CUDA_ERROR_OUT_OF_MEMORY;
	size_t whole = gm_round_up(size, HOST_PAGE);
	void *at = sim_pages(whole, HOST_PAGE);
	if (!at || mprotect(at, whole, PROT_READ | PROT_WRITE) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = sim_region_of_host(SIM_HOST, sim_current(), at, size, &region);
	if (result == CUDA_SUCCESS) {
		region->flags = flags | CU_MEMHOSTALLOC_DEVICEMAP;
		*out = at;
	}
	return result;
}

CUresult sim_cuMemAllocHost_v2(void **out, size_t size)
{
	return sim_cuMemHostAlloc(out, size, 0);
}

/* `unknown`: the result for an address outside the driver's memory. */
static CUresult region_give_up(void *address, enum sim_kind kind, CUresult unknown)
{
	struct sim_region *region = sim_region_find((CUdeviceptr)address);
	CUresult result = sim_check_current();
	if (result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_CONTEXT)
		result = sim_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	if (!region || region->kind != kind || region->base != (CUdeviceptr)address ||
	    region->freeing)
		return region || !address ? CUDA_ERROR_INVALID_VALUE : unknown;
	region->freeing = true;
	result = sim_wait_context(region->ctx);
	sim_memory_free(region);
	return result;
}

CUresult sim_cuMemFreeHost(void *address)
{
	if (!address)
		return CUDA_SUCCESS;
	return region_give_up(address, SIM_HOST, CUDA_ERROR_INVALID_VALUE);
}

CUresult sim_cuMemHostRegister_v2(void *address, size_t size, unsigned flags)
{
	const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
			       CU_MEMHOSTREGISTER_READ_ONLY;
	struct sim_region *region;
	if (!address || !size || flags & ~known) /* of memory of devices: this is none */
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_region_find((CUdeviceptr)address) && sim_maybe_device((CUdeviceptr)address))
		return CUDA_ERROR_INVALID_VALUE; /* freed */
	CUresult result = sim_capture_unsafe();
	if (result != CUDA_SUCCESS)
		return result;
	region = sim_region_find((CUdeviceptr)address);
	if (region && region->kind == SIM_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_region_of_host(SIM_REGISTERED, sim_current(), address, size, &region);
	if (result == CUDA_SUCCESS)
		region->flags =
			(flags & CU_MEMHOSTREGISTER_PORTABLE) | CU_MEMHOSTREGISTER_DEVICEMAP;
	return result == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
						  : result;
}

CUresult sim_cuMemHostUnregister(void *address)
{
	return region_give_up(address, SIM_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

static struct sim_region *region_on_host(void *address)
{
	struct sim_region *region = sim_region_find((CUdeviceptr)address);
	return region && (region->kind == SIM_HOST || region->kind == SIM_REGISTERED) ? region
										      : NULL;
}

CUresult sim_cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *address, unsigned flags)
{
	if (!out || flags || !region_on_host(address))
		return CUDA_ERROR_INVALID_VALUE;
	*out = (CUdeviceptr)address;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemHostGetFlags(unsigned *flags, void *address)
{
	const struct sim_region *region = region_on_host(address);
	if (!flags || !region)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = region->flags;
	return CUDA_SUCCESS;
}
