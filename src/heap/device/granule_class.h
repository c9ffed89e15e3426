/* SPDX-License-Identifier: BSD-3-Clause */
/* Structures and class sizes of policy `granule` (granule.h), and the set of a class's shards with
 * room. */
#ifndef GM_HEAP_DEVICE_GRANULE_CLASS_H
#define GM_HEAP_DEVICE_GRANULE_CLASS_H

#include "heap/device/span.h"

enum {
	GM_CLASSES = 112,
	GM_SHARD_PATIENCE = 64,	  /* turns of waiting for a busy shard */
	GM_CLASS_PATIENCE = 4096, /* likewise, when it may hold the last granule */
	GM_SHARDS = 4096,	  /* of a class, at most */
	GM_SHARD_WARPS = 512,	  /* of a grid, for each shard, ... */
	GM_SHARD_PLENTY = 256,	  /* but at least this many free granules for each, ... */
	GM_SHARD_FEW = 2,	  /* or this few, ... */
	GM_SHARD_SPREAD = 8,	  /* for up to this many shards */
	GM_ROOM_TRIES = 4,	  /* shards with room that lanes try in a row first, ... */
	GM_ROOM_PATIENCE = 6,	  /* and turns of trying others before they bring granules */
	GM_ASK_TURNS = 3,	  /* turns without a slot after which lanes ask for granules */
	GM_SLOT_TRIES = 16,	  /* words at random in which a lane tries to find a slot */
	GM_SLAB_BITS = 512,	  /* most slots whose bitmap is in the slab record */
	GM_RUN = 127,		  /* class number, plus 1, of the head of a run */
};

/* The state of a granule: slots in use or reserved (20 bits), class + 1 or 0 (7), active; in the
 * upper half, the cursor. A reservation beyond the granule's last slot, or after a change of its
 * class, counts there until it is taken back. */
#define GM_USED(state) ((uint32_t)(state)&0xfffff)
#define GM_CLASS(state) ((uint32_t)(state) >> 20 & 127)
#define GM_CLASS_IS(class_plus_1) ((uint64_t)(class_plus_1) << 20)
#define GM_ACTIVE (1ull << 27)
#define GM_RESERVED (1ull << 31) /* of no state: gm_granule_reserve */

/*
 * A lane is bringing another granule to the shard. Others wait, so that they do not all take one.
 * They do not wait for ever, because the hardware may not schedule that lane, which may be of the
 * same warp. After GM_SHARD_PATIENCE turns they bring one themselves, and the lane that loses
 * offers its granule to the class.
 */
#define GM_SHARD_BUSY 0xffffffffu
#define GM_NO_SHARD 0xffffffffu
#define GM_ANY_SHARD 0xfffffffeu
#define GM_FRESH 0x80000000u /* flag of a granule: its bitmap is not cleared yet */

/*
 * `dry` of a class is GM_DRY(heap.epoch) if a search at that epoch found nothing and no slot became
 * free since; or the number of a search in progress; or 0. It becomes 0 when a full granule of the
 * class has room again, or is put where lanes find it: the result of a search that began before is
 * ignored.
 */
#define GM_DRY(epoch) ((epoch) << 1 | 1)

struct gm_slab {
	uint64_t state;
	uint32_t run;	/* granules of a run, in its head */
	uint32_t shard; /* the shard, while active */
	uint32_t pad[4];
	uint32_t bits[GM_SLAB_BITS / 32];
};

struct gm_granule_class {
	/* constant */
	uint32_t slots;	   /* of a granule */
	uint32_t header;   /* bytes before the first slot */
	uint32_t size;	   /* bytes of a slot */
	uint32_t per_size; /* 2^32 / size, rounded up: gm_granule_slot_at */
	uint32_t per_slot; /* 2^32 / slots, rounded down: gm_granule_wrap */
	uint32_t pad[3];
	/* changing */
	uint32_t shards; /* in use: lanes try any of them first */
	uint32_t own;	 /* number of the first shards, which may bring a granule to the class */
	uint32_t pad0[6];
	uint32_t waiting; /* lanes that found no slot, and still search */
	uint32_t pad1[15];
	uint32_t dry; /* result of the last full search: GM_DRY */
	uint32_t pad2[15];
	struct gm_bits roomy, ragged;
	uint32_t pad3[8];
	uint64_t rooms, pad4[7];       /* a bit for each word of `room` that is not 0 */
	uint64_t room[GM_SHARDS / 64]; /* a bit for each shard with room; a hint */
	uint32_t shard[GM_SHARDS];     /* granule + 1; 0: none yet; in the order of gm_shard_of */
};

struct gm_granules {
	struct gm_granule_class class_[GM_CLASSES];
	struct gm_bits empty;  /* not active, no slot in use: any class may take them */
	struct gm_bits hollow; /* active, and no slot was in use: a hint */
	uint64_t known[(GM_CLASSES + 63) / 64]; /* a bit for each class that ever had a granule */
	uint32_t dry;				/* some class is dry: announce an empty granule */
	uint32_t run_granules;			/* wanted by lanes that wait for a run */
	uint32_t pad[14 - 2 * ((GM_CLASSES + 63) / 64)];
	struct gm_slab slab[1]; /* one for each granule of the heap, in the order of gm_slab_of */
};

/* 16 bytes apart to 256, then eight to a doubling. The shift leaves of the last byte's offset its
 * leading one and three more bits, or its multiple of 16. */
GM_DEVICE uint32_t gm_granule_class_of(size_t size)
{
	uint32_t last = (size ? (uint32_t)size : 1) - 1, shift = gm_log2(last | 128) - 3;
	return ((shift - 4) << 3) + (last >> shift);
}

/* Bytes of the slots of class `c`. */
GM_DEVICE uint32_t gm_granule_size(uint32_t c)
{
	return c < 8 ? (c + 1) << 4 : ((c & 7) + 9) << ((c >> 3) + 3);
}

/* The class of the next larger power of two; GM_CLASSES or more: there is none. */
GM_DEVICE uint32_t gm_granule_larger(uint32_t c)
{
	return gm_granule_class_of((size_t)2 << gm_log2(gm_granule_size(c)));
}

/* The bin of the class in statistics: by 1.5 and 2 times each power of two. */
GM_DEVICE uint32_t gm_granule_bin(uint32_t c)
{
	uint32_t last = gm_granule_size(c) - 1, octave = gm_log2(last);
	uint32_t v = octave << 1 | (last >> (octave - 1) & 1);
	return v <= 7 ? 0 : v <= 9 ? 1 : v - 8;
}

/* `at` modulo the slots of a granule, without a division. */
GM_DEVICE uint32_t gm_granule_wrap(const struct gm_granule_class *class_, uint32_t at)
{
	uint32_t slots = gm_load32_cached(&class_->slots);
	at -= gm_high32(at, gm_load32_cached(&class_->per_slot)) * slots;
	return at < slots ? at : at - slots; /* the quotient may be one too small */
}

/* Shards in use. The word exceeds GM_SHARDS after lanes added one too many. */
GM_DEVICE uint32_t gm_granule_shards(const struct gm_granule_class *class_)
{
	uint32_t shards = gm_load32(&class_->shards);
	return shards < GM_SHARDS ? shards : GM_SHARDS;
}

/*
 * The shard of the caller's warp, out of the first `shards`. Multiples of the golden ratio spread
 * warps in a row evenly (Knuth, The Art of Computer Programming 3, 6.4): if all lanes of a grid
 * allocate, each shard gets its share, and none is full long before the others.
 */
GM_DEVICE uint32_t gm_granule_near(uint32_t shards)
{
	return gm_high32(gm_seat() * 0x9e3779b9u, shards);
}

GM_DEVICE struct gm_granules *gm_granules_of(const struct gm_heap *heap)
{
	return (struct gm_granules *)heap->policy;
}

/*
 * Words of granules, or of shards, with numbers in a row lie 1 KiB or more apart. Atomics on words
 * of one line of the L2 cache wait for each other as those on one word do: 100,000 of them on 8
 * words side by side take 77 us of an H200, 2 KiB apart 16, and on one word 81.
 */
GM_DEVICE struct gm_slab *gm_slab_of(const struct gm_heap *heap, uint32_t granule)
{
	uint32_t low = granule & 31, high = granule >> 5 & 31;
	return &gm_granules_of(heap)->slab[(granule & ~1023u) | low << 5 | high];
}

/* Records for so many granules. */
GM_DEVICE_HOST uint32_t gm_slab_records(uint32_t capacity)
{
	return (capacity + 1023) & ~1023u;
}

GM_DEVICE uint32_t *gm_shard_of(struct gm_granule_class *class_, uint32_t s)
{
	return &class_->shard[(s & 15) << 8 | s >> 4];
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

/* Of a granule with room, at most so many slots are in use: an eighth is free, and at least one. */
GM_DEVICE uint32_t gm_granule_roomy(uint32_t slots)
{
	return slots - (slots < 8 ? 1 : slots >> 3);
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

/* Shard `s` has no slot: its granule became full, or has left. If it has room again meanwhile,
 * either this lane sees that, or the lane that frees does. */
GM_DEVICE_SLOW void gm_room_remove(struct gm_heap *heap, uint32_t c, uint32_t s)
{
	struct gm_granule_class *class_ = &gm_granules_of(heap)->class_[c];
	uint64_t bit = 1ull << (s & 63), old = gm_and64(&class_->room[s >> 6], ~bit);
	if (old && (old & ~bit) == 0)
		gm_room_emptied(class_, s >> 6);
	uint32_t granule = gm_load32(gm_shard_of(class_, s));
	uint32_t roomy = gm_granule_roomy(gm_load32_cached(&class_->slots));
	if (granule && granule != GM_SHARD_BUSY &&
	    GM_USED(gm_load64(&gm_slab_of(heap, granule - 1)->state)) <= roomy)
		gm_room_put(class_, s);
}

/* Likewise, by a lane that found no slot there: the set may have sent it there. */
GM_DEVICE void gm_room_missed(struct gm_heap *heap, uint32_t c, uint32_t s)
{
	if (gm_load64(&gm_granules_of(heap)->class_[c].room[s >> 6]) >> (s & 63) & 1)
		gm_room_remove(heap, c, s);
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
