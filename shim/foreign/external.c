/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of other interfaces (Vulkan, Direct3D, other processes) that the program imports. Mappings
 * of it are views of the same bytes. They are in the table so that a free of a mapping is not
 * counted as a free of unknown memory.
 */
#include "shim/foreign/foreign.h"
#include "shim/memory/retry.h"
#include "shim/sleep/rest.h"

static void external_given(enum gm_foreign_kind kind, enum gm_foreign_space space, uint64_t key,
			   size_t size)
{
	gm_rest_share();
	gm_foreign_add_here(
		(struct gm_foreign){.key = key, .space = space, .kind = kind, .size = size});
}

GM_TAKES(cuImportExternalMemory, GM_LACK_HERE, desc->size,
	 (CUexternalMemory * out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc), (out, desc),
	 external_given(GM_FOREIGN_EXTERNAL, GM_SPACE_EXTERNAL, (uint64_t)*out, desc->size))
GM_TAKES(cuExternalMemoryGetMappedBuffer, GM_LACK_HERE, desc->size,
	 (CUdeviceptr * out, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc),
	 (out, memory, desc), external_given(GM_FOREIGN_VIEW, GM_SPACE_DEVICE, *out, desc->size))
GM_TAKES(cuExternalMemoryGetMappedMipmappedArray, GM_LACK_HERE, 0,
	 (CUmipmappedArray * out, CUexternalMemory memory,
	  const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc),
	 (out, memory, desc), external_given(GM_FOREIGN_VIEW, GM_SPACE_MIPMAP, (uint64_t)*out, 0))
GM_GIVES_UP(cuDestroyExternalMemory, (CUexternalMemory memory), (memory), GM_SPACE_EXTERNAL, memory)
