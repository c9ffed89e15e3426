// SPDX-License-Identifier: BSD-3-Clause
// Kernels for heap_masks.py: all lanes ask for the same size, so that ptxas takes as many masks as
// possible for uniform. With BARE_MASK: a kernel with a mask that ptxas wrongly takes for uniform.
#include "heap/device/policies.h"

#ifdef BARE_MASK
static __device__ __noinline__ uint32_t bare(uint32_t *counter, size_t size)
{
	uint32_t mask = __match_any_sync(__activemask(), size), old = 0;
	if (gm_lane() == gm_leader(mask)) // lanes of another group may run this together with these
		while (gm_cas32(counter, old, old + gm_popc(mask)) != old)
			old = gm_load32(counter);
	return __shfl_sync(mask, old, gm_leader(mask)) +
	       __shfl_sync(mask, old + 1, gm_leader(mask));
}

extern "C" __global__ void test_bare(uint32_t *counter, size_t size, int turns)
{
	for (int turn = 0; turn < turns; turn++)
		counter[threadIdx.x] = bare(counter, size);
}
#else
#define GM_POLICY(name, n, can)                                                           \
	extern "C" __global__ void test_##n(struct gm_heap *heap, size_t size, int turns) \
	{                                                                                 \
		for (int turn = 0; turn < turns; turn++) {                                \
			volatile uint32_t *block =                                        \
				(volatile uint32_t *)gm_##n##_malloc(heap, size);         \
			if (block)                                                        \
				*block = threadIdx.x;                                     \
			gm_##n##_free(heap, (void *)block);                               \
		}                                                                         \
	}
#include "heap/device/policy.def"
#endif
