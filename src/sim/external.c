/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of another interface, imported by a descriptor; charged to no device here. A buffer mapped
 * from it is another view of its pages, which lives until it is freed, even after the end of the
 * import. Also mipmapped arrays; only their size is accounted.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/internal.h"

#define BUFFER_PAGE ((size_t)4096)

struct external {
	struct sim_node node;
	struct sim_shared memory;
};
static struct sim_list externals;

static CUresult external_find(CUexternalMemory handle, struct external **out)
{
	*out = (struct external *)handle;
	return handle && sim_list_has(&externals, *out) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuImportExternalMemory(CUexternalMemory *out,
				    const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	if (!out || !desc || !desc->size || desc->size % BUFFER_PAGE ||
	    desc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD ||
	    fcntl(desc->handle.fd, F_GETFD) < 0)
		return CUDA_ERROR_INVALID_VALUE;
	struct external *external = calloc(1, sizeof *external);
	if (!external)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!sim_shared_make(&external->memory, desc->size)) {
		free(external);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	close(desc->handle.fd); /* the driver owns it from now on */
	sim_list_add(&externals, &external->node);
	*out = (CUexternalMemory)external;
	return CUDA_SUCCESS;
}

CUresult sim_cuDestroyExternalMemory(CUexternalMemory handle)
{
	struct external *external;
	CUresult result = external_find(handle, &external);
	if (result != CUDA_SUCCESS)
		return result;
	sim_shared_drop(&external->memory);
	sim_list_remove(&external->node);
	free(external);
	return CUDA_SUCCESS;
}

CUresult sim_cuExternalMemoryGetMappedBuffer(CUdeviceptr *out, CUexternalMemory handle,
					     const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
	struct external *external;
	struct sim_region *region;
	CUresult result = external_find(handle, &external);
	if (result == CUDA_SUCCESS &&
	    (!out || !desc || !desc->size || desc->flags || desc->offset % BUFFER_PAGE ||
	     desc->offset > external->memory.size ||
	     desc->size > external->memory.size - desc->offset))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	size_t size = gm_round_up(desc->size, BUFFER_PAGE);
	void *at = sim_pages(gm_round_up(desc->size, SIM_PAGE), SIM_PAGE);
	if (!at || !sim_shared_view(&external->memory, desc->offset, size, at) ||
	    mprotect(at, size, PROT_READ | PROT_WRITE) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = sim_region_of_host(SIM_EXTERNAL, sim_current(), at, desc->size, &region);
	if (result == CUDA_SUCCESS)
		*out = region->base;
	return result;
}

/* --- mipmapped arrays --- */

struct mipmap {
	struct sim_node node;
	unsigned device;
	size_t bytes;
};
static struct sim_list mipmaps;

static CUresult mipmap_make(CUmipmappedArray *out, size_t bytes)
{
	struct mipmap *mipmap = calloc(1, sizeof *mipmap);
	if (!mipmap)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*mipmap = (struct mipmap){.device = sim_current()->device, .bytes = bytes};
	CUresult result = sim_charge(mipmap->device, bytes);
	if (result != CUDA_SUCCESS) {
		free(mipmap);
		return result;
	}
	sim_list_add(&mipmaps, &mipmap->node);
	*out = (CUmipmappedArray)mipmap;
	return CUDA_SUCCESS;
}

CUresult sim_cuMipmappedArrayCreate(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *d,
				    unsigned levels)
{
	CUarray largest;
	if (!out || !levels)
		return CUDA_ERROR_INVALID_VALUE;
	/* The first level checks the description, and has at least half of the bytes. */
	CUresult result = sim_cuArray3DCreate_v2(&largest, d);
	if (result != CUDA_SUCCESS)
		return result;
	size_t bytes = ((struct sim_array *)largest)->bytes * (levels > 1 ? 2 : 1);
	result = sim_cuArrayDestroy(largest);
	return result == CUDA_SUCCESS ? mipmap_make(out, gm_round_up(bytes, SIM_PAGE)) : result;
}

CUresult sim_cuMipmappedArrayDestroy(CUmipmappedArray handle)
{
	struct mipmap *mipmap = (struct mipmap *)handle;
	if (!handle || !sim_list_has(&mipmaps, mipmap))
		return CUDA_ERROR_INVALID_HANDLE;
	sim_uncharge(mipmap->device, mipmap->bytes);
	sim_list_remove(&mipmap->node);
	free(mipmap);
	return CUDA_SUCCESS;
}

CUresult
sim_cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *out, CUexternalMemory handle,
					    const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc)
{
	struct external *external;
	CUresult result = external_find(handle, &external);
	if (result == CUDA_SUCCESS && (!out || !desc || !desc->numLevels))
		result = CUDA_ERROR_INVALID_VALUE;
	return result == CUDA_SUCCESS ? mipmap_make(out, 0) : result;
}
