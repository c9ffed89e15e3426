/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Aligned allocations without a header: the size passed to a policy's malloc is one whose
 * allocations are aligned by themselves, so free needs no knowledge of the alignment.
 */
#ifndef GM_HEAP_DEVICE_ALIGNED_H
#define GM_HEAP_DEVICE_ALIGNED_H

#include "heap/device/heap.h"

/* The largest powers of two that policies align to themselves: NATURAL and WIDE of policy.def. With
 * every policy, more than a granule is whole granules. */
enum { GM_ALIGNED_NATURAL = 8 * 1024, GM_ALIGNED_WIDE = 1024 * 1024 };

/*
 * The size to pass to malloc so that `size` bytes are aligned; 0: not possible, because `alignment`
 * is no power of two, or larger than a granule. `natural`: powers of two up to this one are aligned
 * to themselves.
 */
GM_DEVICE uint64_t gm_aligned_size(uint64_t natural, uint64_t alignment, uint64_t size)
{
	uint64_t least = size > alignment ? size : alignment;
	if (alignment == 0 || (alignment & (alignment - 1)) || alignment > GM_GRANULE)
		return 0;
	if (alignment <= 16)
		return least;
	if (least <= natural)
		return 2ull << gm_log2(least - 1);
	return least < GM_GRANULE ? GM_GRANULE : least;
}

#endif
