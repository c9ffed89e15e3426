/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slabs: extents cut into slots of one size class, for blocks of up to 64 KiB.
 *
 *     slab   |slot|slot|slot|  ...  |slot|rest|   128 KiB to 2 MiB, aligned to its length
 *     free     1    0    0            1           a bit a slot
 *
 * Classes are 512 bytes apart up to 8 KiB, then eight to a doubling: a slot is at most an eighth
 * longer than the request rounded up to 512 bytes. Programs have few blocks of most classes: the
 * first slab of a class has the length of 4 slots, a later one of as many slots as the class has,
 * up to 32; rounded up to a power of two, and at least 128 KiB. Its alignment keeps a slab in one
 * granule and one chunk, so a chunk without a used slot or block is one idle run as soon as empty
 * slabs are dissolved.
 *
 * A class keeps its last empty slab cut until gm_slabs_flush. The memory of struct gm_slab is kept
 * for its class while the pool lives (see block.h).
 *
 * The pool's lock guards everything here; the caller holds it.
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
	struct gm_extent *extent;	/* NULL: the slab is spare */
	struct gm_slab *before, *after; /* in `open` while it has free slots; after: in `spare` */
	unsigned class;
	uint32_t slot;	    /* bytes */
	uint32_t inverse;   /* of the slot's length; see gm_slab_index */
	_Atomic uint32_t n; /* also read without the lock */
	uint32_t n_free;
	uint64_t free[GM_SLAB_WORDS]; /* a bit a slot */
	uint64_t hot[GM_SLAB_WORDS];  /* likewise: of the free ones */
	uint32_t n_hot;
	uint64_t stamp; /* the newest of the hot slots, taken for that of each; 0: n_hot is 0 */
	struct gm_piece slots[];
};

struct gm_slabs {
	struct gm_extents *extents;
	bool long_ones; /* all slabs have 32 slots: threads take many at a time */
	struct gm_slab_class {
		struct gm_slab *open, *last; /* with free slots; the empty slab is last */
		struct gm_slab *empty;	     /* the one slab without a used slot, or NULL */
		struct gm_slab *spare;	     /* dissolved; through `after` */
		uint64_t slots;		     /* of all slabs that are not spare */
	} classes[GM_SLAB_CLASSES];
};

#define GM_SLAB_LINEAR 16u /* classes that are GM_SLAB_LEAST_SLOT apart */

/* The class of a size of 1 to GM_SLAB_LARGEST bytes; the bytes of its slots. */
static inline unsigned gm_slab_class(uint64_t size)
{
	unsigned last = (unsigned)((size - 1) / GM_SLAB_LEAST_SLOT); /* index of the last step */
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

/* The bytes of the longest slab of a class, and of the next slab of gm_slab_make. */
uint64_t gm_slab_longest(unsigned class);
uint64_t gm_slab_length(const struct gm_slabs *slabs, unsigned class);

/*
 * The slot at an offset into a slab, without a division. In steps of GM_SLAB_LEAST_SLOT an offset
 * is below 2^12 and a slot at most 2^7. The inverse is 2^20 over the slot, rounded up. The rounding
 * adds less than 2^12 * 2^7 / 2^20 of a step, which reaches no other slot.
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

void gm_slabs_open(struct gm_slabs *slabs, struct gm_extents *extents, bool long_ones);
void gm_slabs_close(struct gm_slabs *slabs);

/* Take a free slot of a class; NULL: no slab of the class has one. */
struct gm_piece *gm_slab_take(struct gm_slabs *slabs, unsigned class);

/* Cut one more slab out of idle extents. False: no idle extent is long enough, or no host memory.
 * Uses up to two reserved extents. */
bool gm_slab_make(struct gm_slabs *slabs, unsigned class);

/* Free a slot in use, in `extent`. It is hot if it has a stamp. */
void gm_slab_give(struct gm_slabs *slabs, struct gm_extent *extent, struct gm_piece *slot);

/* Take a hot slot of a class; NULL: there is none. Cool: hot slots with stamps up to `stamp`
 * become idle. */
struct gm_piece *gm_slab_take_hot(struct gm_slabs *slabs, unsigned class);
void gm_slabs_cool(struct gm_slabs *slabs, uint64_t stamp);

/* Dissolve the empty slabs into idle extents; true if there was one. */
bool gm_slabs_flush(struct gm_slabs *slabs);

/* NULL, or the broken invariant of the slab or of the lists. */
const char *gm_slab_check(const struct gm_slab *slab);
const char *gm_slabs_check(const struct gm_slabs *slabs);

#endif
