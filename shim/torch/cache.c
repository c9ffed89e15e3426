/* SPDX-License-Identifier: BSD-3-Clause */
#include "shim/torch/cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/loaded.h"
#include "log/count.h"

/* PyTorch reads "0" as no, and PYTORCH_CUDA_ALLOC_CONF, the old name, before PYTORCH_ALLOC_CONF. */
bool gm_shim_torch_caches(void)
{
	static const char *const library = "libc10_cuda.so";
	static const char *const variables[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};
	const char *off = getenv("PYTORCH_NO_CUDA_MEMORY_CACHING");
	if ((off && strcmp(off, "0") != 0) || !gm_loaded_find(&library, 1))
		return false;
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
		const char *value = getenv(variables[i]);
		if (value && strstr(value, "backend:cudaMallocAsync"))
			return false;
	}
	return true;
}

void gm_cache_pool_made(unsigned ordinal)
{
	(void)ordinal;
	gm_counter_set(0, GM_C_torch_cache, gm_shim_torch_caches());
}
