/* SPDX-License-Identifier: BSD-3-Clause */
#include "heap/heap.h"

#ifdef GM_HELPERS
__attribute__((visibility("hidden"))) extern const char gm_heap_kernels[];

const void *gm_heap_image(void)
{
	return gm_heap_kernels;
}
#else
const void *gm_heap_image(void)
{
	return NULL;
}
#endif
