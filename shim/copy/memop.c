/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls with the address of a block that need only the door (residency/door.h). */
#include "shim/memory/retry.h"

#define PASSES(symbol, parameters, arguments)                                        \
	CUresult on_##symbol parameters                                              \
	{                                                                            \
		return GM_REPORTED(symbol, GM_GATED(symbol, real.symbol arguments)); \
	}
#define BOTH(symbol, parameters, arguments)   \
	PASSES(symbol, parameters, arguments) \
	PASSES(symbol##_ptsz, parameters, arguments)

BOTH(cuMemBatchDecompressAsync,
     (CUmemDecompressParams * operations, size_t n, unsigned flags, size_t *failed,
      CUstream stream),
     (operations, n, flags, failed, stream))

PASSES(cuTexObjectCreate,
       (CUtexObject * out, const CUDA_RESOURCE_DESC *memory, const CUDA_TEXTURE_DESC *texture,
	const CUDA_RESOURCE_VIEW_DESC *view),
       (out, memory, texture, view))
