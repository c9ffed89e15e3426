/* SPDX-License-Identifier: BSD-3-Clause */
/* The cache of PyTorch in the process. */
#ifndef GM_SHIM_TORCH_CACHE_H
#define GM_SHIM_TORCH_CACHE_H

#include <stdbool.h>

/* Does PyTorch allocate through its cache, so that blocks are the cache's segments? Depends on its
 * library, PYTORCH_NO_CUDA_MEMORY_CACHING and the backend of PYTORCH_CUDA_ALLOC_CONF. Any
 * thread. */
bool gm_shim_torch_caches(void);

/* modules.h: the answer is a counter of the log. */
void gm_cache_pool_made(unsigned ordinal);

#endif
