/* SPDX-License-Identifier: BSD-3-Clause */
/* The structures of policy `granule` (granule.h), the sizes of its classes, and the set of the
 * shards of a class that have room. */
#ifndef GM_HEAP_DEVICE_GRANULE_CLASS_H
#define GM_HEAP_DEVICE_GRANULE_CLASS_H

#include "heap/device/span.h"

enum {
	GM_CLASSES = 32,
	GM_SHARD_PATIENCE = 64,	  /* turns of waiting for a busy shard */
	GM_CLASS_PATIENCE = 4096, /* likewise, when it may hold the last granule */
	GM_SHARDS_LOG = 12,
	GM_SHARDS = 1 << GM_SHARDS_LOG, /* of a class, at most */
	GM_SHARD_LANES = 1024,		/* that wait for slots: one shard for so many, ... */
	GM_SHARD_PLENTY = 256,		/* but at most one for so many free granules */
	GM_ROOM_TRIES = 4,  /* shards with room that lanes try before they bring granules */
	GM_SLAB_BITS = 512, /* up to so many slots the bitmap is in the slab record */
	GM_RUN = 63,	    /* class number, plus 1, of the head of a run */
};

/* The state of a granule: slots in use or reserved (20 bits), class + 1 or 0 (6), active; in the
 * upper half, the cursor. A reservation that comes after the granule's last slot, or after its
 * class has changed, counts there until it is taken back. */
#define GM_USED(state) ((uint32_t)(state)&0xfffff)
#define GM_CLASS(state) ((uint32_t)(state) >> 20 & 63)
#define GM_CLASS_IS(class_plus_1) ((uint64_t)(class_plus_1) << 20)
#define GM_ACTIVE (1ull << 26)

/*
 * A lane is bringing another granule to the shard. Others wait, so that they do not all take one;
 * but not for ever, as the hardware may not schedule that lane, which may be of the same warp.
 * After GM_SHARD_PATIENCE turns they bring one themselves, and the lane that loses offers its
 * granule to the class.
 */
#define GM_SHARD_BUSY 0xffffffffu
#define GM_NO_SHARD 0xffffffffu
#define GM_ANY_SHARD 0xfffffffeu
#define GM_FRESH 0x80000000u /* flag of a granule: its bitmap is not cleared yet */

/*
 * `dry` of a class is GM_DRY(heap.epoch) if a search at that epoch found nothing and no slot came
 * free since; or the number of a search in progress; or 0. A free of the class's slots makes it 0,
 * so that the result of a search that began before is ignored.
 */
#define GM_DRY(epoch) ((epoch) << 1 | 1)

struct gm_slab {
	uint64_t state;
	uint32_t run;	/* granules of a run, in its head */
	uint32_t shard; /* where it is, while active */
	uint32_t pad[4];
	uint32_t bits[GM_SLAB_BITS / 32];
};

struct gm_granule_class {
	uint32_t slots;	 /* of a granule */
	uint32_t header; /* bytes before the first slot */
	uint32_t shards; /* in use: lanes try any of them first */
	uint32_t own;	 /* the first so many shards may bring a granule to the class */
	uint32_t pad0[12];
	uint32_t waiting; /* lanes that found no slot, and still search */
	uint32_t pad1[15];
	uint32_t dry; /* result of the last full search: GM_DRY */
	uint32_t pad2[15];
	struct gm_bits roomy, ragged;
	uint32_t pad3[8];
	uint64_t rooms, pad4[7];       /* a bit for each word of `room` that is not 0 */
	uint64_t room[GM_SHARDS / 64]; /* a bit for each shard with a free slot; a hint */
	uint32_t shard[GM_SHARDS];     /* granule + 1; 0: none yet */
};

struct gm_granules {
	struct gm_granule_class class_[GM_CLASSES];
	struct gm_slab *slab;
	struct gm_bits empty;  /* not active, no slot in use: any class may take them */
	struct gm_bits hollow; /* active, and no slot was in use: a hint */
	uint32_t dry;	       /* some class is dry: an empty granule is to be announced */
	uint32_t pad[15];
};

/* Octave and half of it: 2 * floor(log2(last byte)) + (in its upper half). There is no 24. */
GM_DEVICE uint32_t gm_granule_class_of(size_t size)
{
	uint64_t last = (size < 16 ? 16 : size) - 1;
	uint32_t octave = gm_log2(last);
	uint32_t v = octave << 1 | ((uint32_t)(last >> (octave - 1)) & 1);
	return v <= 7 ? 0 : v <= 9 ? 1 : v - 8;
}

/* Class c's slots are 3 or 4 (the parts) << shift bytes. */
GM_DEVICE uint32_t gm_granule_shift(uint32_t c)
{
	return c == 0 ? 2 : (c >> 1) + 3;
}

GM_DEVICE uint32_t gm_granule_parts(uint32_t c)
{
	return c == 0 ? 4 : 3 + (c & 1);
}

GM_DEVICE uint32_t gm_granule_size(uint32_t c)
{
	return gm_granule_parts(c) << gm_granule_shift(c);
}

/* Shards in use. The word exceeds GM_SHARDS where lanes added one too many. */
GM_DEVICE uint32_t gm_granule_shards(const struct gm_granule_class *class_)
{
	uint32_t shards = gm_load32(&class_->shards);
	return shards < GM_SHARDS ? shards : GM_SHARDS;
}

/* The shard of this multiprocessor and warp, out of the first `shards`. */
GM_DEVICE uint32_t gm_granule_near(uint32_t shards)
{
	return ((gm_sm() * 32 + gm_warp() % 32) & (GM_SHARDS - 1)) * shards >> GM_SHARDS_LOG;
}

GM_DEVICE struct gm_granules *gm_granules_of(struct gm_heap *heap)
{
	return (struct gm_granules *)heap->policy;
}

GM_DEVICE uint32_t *gm_granule_bits(struct gm_heap *heap, struct gm_slab *slab, uint32_t granule,
				    uint32_t header)
{
	return header ? (uint32_t *)gm_span_address(heap, granule) : slab->bits;
}

/* Change the state of a granule that the caller owns; others' reservations stay counted. */
GM_DEVICE void gm_slab_become(struct gm_slab *slab, uint64_t state)
{
	uint64_t old = gm_load64(&slab->state), seen;
	while ((seen = gm_cas64(&slab->state, old, (old & 0xfffff) | state)) != old)
		old = seen;
}

/* --- shards with room: a set under one word of summary, as gm_bits --- */

GM_DEVICE void gm_room_put(struct gm_granule_class *class_, uint32_t s)
{
	if (gm_or64(&class_->room[s >> 6], 1ull << (s & 63)) == 0)
		gm_or64(&class_->rooms, 1ull << (s >> 6));
}

/* Word `w` was seen empty. */
GM_DEVICE void gm_room_emptied(struct gm_granule_class *class_, uint32_t w)
{
	gm_and64(&class_->rooms, ~(1ull << w));
	if (gm_load64(&class_->room[w]) != 0)
		gm_or64(&class_->rooms, 1ull << w);
}

/* Shard `s` has no slot: its granule became full, or has gone. A slot that comes free meanwhile is
 * seen here, or by the lane that frees it. */
GM_DEVICE_SLOW void gm_room_remove(struct gm_granules *all, uint32_t c, uint32_t s)
{
	struct gm_granule_class *class_ = &all->class_[c];
	uint64_t bit = 1ull << (s & 63), old = gm_and64(&class_->room[s >> 6], ~bit);
	if (old && (old & ~bit) == 0)
		gm_room_emptied(class_, s >> 6);
	uint32_t granule = gm_load32(&class_->shard[s]);
	if (granule && granule != GM_SHARD_BUSY &&
	    GM_USED(gm_load64(&all->slab[granule - 1].state)) < gm_load32_cached(&class_->slots))
		gm_room_put(class_, s);
}

/* Likewise, by a lane that found no slot there: it may have been sent there. */
GM_DEVICE void gm_room_missed(struct gm_granules *all, uint32_t c, uint32_t s)
{
	if (gm_load64(&all->class_[c].room[s >> 6]) >> (s & 63) & 1)
		gm_room_remove(all, c, s);
}

/* A shard with room, the next one from `from` on if it is near; or GM_NO_SHARD. */
GM_DEVICE_SLOW uint32_t gm_room_find(struct gm_granule_class *class_, uint32_t from)
{
	uint32_t w = from >> 6;
	uint64_t word = gm_load64(&class_->room[w]) >> (from & 63) << (from & 63);
	for (uint64_t filled = gm_load64(&class_->rooms);;) {
		if (word)
			return w << 6 | gm_bits_pick(word, from);
		if (filled == 0)
			return GM_NO_SHARD;
		w = gm_bits_pick(filled, w + 1);
		word = gm_load64(&class_->room[w]);
		if (word == 0)
			gm_room_emptied(class_, w);
		filled &= ~(1ull << w);
	}
}

#endif
