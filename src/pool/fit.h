/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Idle memory for a block: a slot of a slab, or an extent.
 *
 *     size         is rounded up to               and is aligned to
 *     -> 64 KiB    the slot of its class          512 bytes
 *     < 1 MiB      a multiple of 512 bytes        512 bytes
 *     < 8 MiB      a multiple of 64 KiB           2 MiB if it is a multiple of that, else 512 bytes
 *     8 MiB ->     a multiple of 64 KiB           2 MiB
 */
#ifndef GM_POOL_FIT_H
#define GM_POOL_FIT_H

#include "base/size.h"
#include "pool/extent.h"
#include "pool/slab.h"

#define GM_POOL_BIG GM_MIB	       /* smaller extents are multiples of GM_SLAB_LEAST_SLOT */
#define GM_POOL_BIG_STEP (64 * GM_KIB) /* larger extents are multiples of this */
#define GM_POOL_ALIGNED_FROM (8 * GM_MIB)
#define GM_POOL_ALIGN 512u

/* The extent for a request: for the block itself, or for a slab with a slot for the block. */
struct gm_want {
	uint64_t length, align;
	uint64_t context; /* of the block; 0: of none */
};

/*
 * Where a block of `held` bytes may begin. Multiples of 2 MiB are aligned to 2 MiB, as by the
 * driver, which costs nothing: aligned neighbours leave no gaps. For odd sizes of 2 MiB and more
 * the gaps would cost up to half of the memory, as they do natively; from 8 MiB on they cost a
 * fifth at most, and smaller blocks fill them.
 */
static inline uint64_t gm_pool_align_of(uint64_t held)
{
	return held && (held >= GM_POOL_ALIGNED_FROM || held % GM_POOL_GRANULE == 0)
		       ? GM_POOL_GRANULE
		       : GM_POOL_ALIGN;
}

/* The extent length for a block of `size` bytes. */
static inline uint64_t gm_pool_extent_length(uint64_t size)
{
	uint64_t step = size < GM_POOL_BIG ? GM_SLAB_LEAST_SLOT : GM_POOL_BIG_STEP;
	uint64_t length = gm_round_up(size, step);
	return length < GM_EXTENT_LEAST ? GM_EXTENT_LEAST : length;
}

/* The extent that a request of `size` bytes in a context needs. */
struct gm_want gm_pool_want(const struct gm_pool *pool, uint64_t size, uint64_t context);

/* --- the pool's lock is held --- */

/* Take a piece for `size` bytes out of idle memory; it is in no list. NULL: no piece. */
struct gm_piece *gm_pool_take(struct gm_pool *pool, uint64_t size);

/* The last resort, when no slab can be cut: a slot of a larger class, or an extent. */
struct gm_piece *gm_pool_take_any(struct gm_pool *pool, uint64_t size);

#endif
