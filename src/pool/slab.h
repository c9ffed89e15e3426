/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slabs: extents cut into slots of one size class, for blocks of up to 64 KiB. Classes are 512
 * bytes apart up to 8 KiB, then eight to a doubling, so that a slot is never more than an eighth
 * longer than the request rounded up to 512 bytes. A slab is as long as 32 slots, rounded up to a
 * power of two of 128 KiB to 2 MiB: programs have few blocks of most classes. It is aligned to its
 * length, so it lies in one granule and in one chunk: a chunk of which no slot and no block is used
 * is idle from end to end once empty slabs are gone. Called under the pool's lock.
 *
 * Slabs are never returned to malloc while the pool lives (block.h), but used again for their
 * class. The last empty slab of a class is kept cut until gm_slabs_flush.
 */
#ifndef GM_POOL_SLAB_H
#define GM_POOL_SLAB_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/extent.h"

#define GM_SLAB_CLASSES 40
#define GM_SLAB_LARGEST ((uint64_t)64 << 10)
#define GM_SLAB_LEAST_SLOT 512u
#define GM_SLAB_SHORTEST ((uint64_t)128 << 10)
#define GM_SLAB_WORDS (GM_SLAB_SHORTEST / GM_SLAB_LEAST_SLOT / 64)

struct gm_slab {
	struct gm_extent *extent;	/* NULL: not cut from anything now */
	struct gm_slab *before, *after; /* in `open` while it has free slots; after: in `spare` */
	unsigned class;
	uint32_t slot;	  /* bytes */
	uint32_t inverse; /* of the slot's length: see gm_slab_index */
	uint32_t n, n_free;
	uint64_t free[GM_SLAB_WORDS]; /* a bit a slot */
	struct gm_piece slots[];
};

struct gm_slabs {
	struct gm_extents *extents;
	struct gm_slab_class {
		struct gm_slab *open, *last; /* with free slots; the empty one is last */
		struct gm_slab *empty;	     /* the one without a used slot, or NULL */
		struct gm_slab *spare;
	} classes[GM_SLAB_CLASSES];
};

#define GM_SLAB_LINEAR 16u /* classes that are GM_SLAB_LEAST_SLOT apart */

/* The class of a size of 1 to GM_SLAB_LARGEST bytes, the bytes of its slots, and of its slabs. */
static inline unsigned gm_slab_class(uint64_t size)
{
	unsigned last = (unsigned)((size - 1) / GM_SLAB_LEAST_SLOT); /* begun steps, less one */
	if (last < GM_SLAB_LINEAR)
		return last;
	unsigned doubling = 31 - (unsigned)__builtin_clz(last);
	return GM_SLAB_LINEAR + (doubling - 4) * 8 + ((last >> (doubling - 3)) - 8);
}

static inline uint32_t gm_slab_slot(unsigned class)
{
	if (class < GM_SLAB_LINEAR)
		return (class + 1) * GM_SLAB_LEAST_SLOT;
	unsigned doubling = 4 + (class - GM_SLAB_LINEAR) / 8;
	return ((9 + (class - GM_SLAB_LINEAR) % 8) << (doubling - 3)) * GM_SLAB_LEAST_SLOT;
}

uint64_t gm_slab_length(unsigned class);

/*
 * The slot at an offset into a slab, without a division. In steps of GM_SLAB_LEAST_SLOT an offset
 * is below 2^12 and a slot at most 2^7; the inverse is 2^20 over the latter, rounded up. What is
 * added by that is less than 2^12 * 2^7 / 2^20 of a step: it reaches no other slot.
 */
static inline uint32_t gm_slab_inverse(uint32_t slot)
{
	uint32_t steps = slot / GM_SLAB_LEAST_SLOT;
	return ((1u << 20) + steps - 1) / steps;
}

static inline uint64_t gm_slab_index(uint64_t offset, uint32_t inverse)
{
	return offset / GM_SLAB_LEAST_SLOT * inverse >> 20;
}

void gm_slabs_open(struct gm_slabs *slabs, struct gm_extents *extents);
void gm_slabs_close(struct gm_slabs *slabs);

/* A free slot of a class, now taken, from a slab that is cut already; NULL: none. */
struct gm_piece *gm_slab_take(struct gm_slabs *slabs, unsigned class);

/* Cut one more slab of gm_slab_length from idle extents; false: none fits, or no host memory. Takes
 * up to two reserved extents. */
bool gm_slab_make(struct gm_slabs *slabs, unsigned class);

/* Give a slot back; its piece is idle again. `extent` holds it. */
void gm_slab_give(struct gm_slabs *slabs, struct gm_extent *extent, struct gm_piece *slot);

/* Turn empty slabs into idle extents; true if there was any. */
bool gm_slabs_flush(struct gm_slabs *slabs);

/* NULL, or the invariant of the slab or of the lists that is broken. */
const char *gm_slab_check(const struct gm_slab *slab);
const char *gm_slabs_check(const struct gm_slabs *slabs);

#endif
