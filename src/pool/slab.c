/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/slab.h"

#include <stdlib.h>
#include <string.h>

#include "base/debug.h"
#include "base/lock.h"

/* Slots for which a slab is made, before its length is rounded up: fewest and most. */
#define FEWEST 4
#define MOST 32

static uint64_t class_length(unsigned class, uint64_t slots)
{
	uint64_t length = GM_SLAB_SHORTEST, bytes = gm_slab_slot(class) * slots;
	while (length < bytes)
		length *= 2;
	return length;
}

uint64_t gm_slab_longest(unsigned class)
{
	return class_length(class, MOST);
}

uint64_t gm_slab_length(const struct gm_slabs *slabs, unsigned class)
{
	uint64_t slots = slabs->classes[class].slots;
	if (slabs->long_ones || slots > MOST)
		return gm_slab_longest(class);
	return class_length(class, slots < FEWEST ? FEWEST : slots);
}

void gm_slabs_open(struct gm_slabs *slabs, struct gm_extents *extents, bool long_ones)
{
	*slabs = (struct gm_slabs){.extents = extents, .long_ones = long_ones};
}

static void list_free(struct gm_slab *slab)
{
	for (struct gm_slab *after; slab; slab = after) {
		after = slab->after;
		free(slab);
	}
}

static bool slab_free_full(void *arg, struct gm_extent *extent)
{
	(void)arg;
	if (GM_GET(extent->piece.state) == GM_SLAB && GM_GET(extent->slab)->n_free == 0)
		free(GM_GET(extent->slab));
	return true;
}

void gm_slabs_close(struct gm_slabs *slabs)
{
	gm_extent_each(slabs->extents, slab_free_full, NULL); /* full slabs are in no list */
	for (unsigned i = 0; i < GM_SLAB_CLASSES; i++) {
		list_free(slabs->classes[i].open);
		list_free(slabs->classes[i].spare);
	}
}

/* --- the list of slabs with free slots --- */

static void class_add(struct gm_slab_class *class, struct gm_slab *slab, bool last)
{
	slab->before = last ? class->last : NULL;
	slab->after = last ? NULL : class->open;
	*(slab->before ? &slab->before->after : &class->open) = slab;
	*(slab->after ? &slab->after->before : &class->last) = slab;
}

static void class_remove(struct gm_slab_class *class, struct gm_slab *slab)
{
	*(slab->before ? &slab->before->after : &class->open) = slab->after;
	*(slab->after ? &slab->after->before : &class->last) = slab->before;
	slab->before = slab->after = NULL;
}

/* --- slots --- */

static void slot_set(struct gm_piece *slot, enum gm_state state, CUdeviceptr base, uint64_t held)
{
	gm_piece_begin(slot);
	GM_SET(slot->state, state);
	GM_SET(slot->base, base);
	GM_SET(slot->held, held);
	GM_SET(slot->size, 0);
	GM_SET(slot->id, 0);
	GM_SET(slot->context, 0);
	gm_piece_end(slot);
}

/* `n` more free slots, modulo 2^32, are hot. */
static void hot_count(struct gm_slabs *slabs, struct gm_slab *slab, uint32_t n)
{
	slab->n_hot += n;
	if (!slab->n_hot)
		slab->stamp = 0;
	gm_hot_count(&slabs->extents->hot, (uint64_t)(int32_t)n * slab->slot);
}

static void slab_cool(struct gm_slabs *slabs, struct gm_slab *slab)
{
	memset(slab->hot, 0, sizeof slab->hot);
	hot_count(slabs, slab, -slab->n_hot);
}

/* Take the first slot of this set of free slots, which is not empty. */
static struct gm_piece *slab_take(struct gm_slabs *slabs, struct gm_slab *slab, const uint64_t *set)
{
	struct gm_slab_class *class = &slabs->classes[slab->class];
	unsigned word = 0;
	while (!set[word])
		word++;
	unsigned bit = (unsigned)__builtin_ctzll(set[word]);
	uint64_t mask = (uint64_t)1 << bit;
	slab->free[word] &= ~mask;
	struct gm_piece *slot = &slab->slots[word * 64 + bit];
	if (class->empty == slab)
		class->empty = NULL;
	slot->stamp = 0;
	if (GM_UNLIKELY(slab->hot[word] & mask)) {
		slot->stamp = slab->stamp;
		slab->hot[word] &= ~mask;
		hot_count(slabs, slab, -1u);
	}
	if (--slab->n_free == 0)
		class_remove(class, slab);
	CUdeviceptr base = GM_GET(slab->extent->piece.base);
	slot_set(slot, GM_IDLE, base + (word * 64 + bit) * (uint64_t)slab->slot, slab->slot);
	return slot;
}

struct gm_piece *gm_slab_take(struct gm_slabs *slabs, unsigned class_index)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_slab *slab = slabs->classes[class_index].open;
	return slab ? slab_take(slabs, slab, slab->free) : NULL;
}

struct gm_piece *gm_slab_take_hot(struct gm_slabs *slabs, unsigned class_index)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_slab *slab = slabs->classes[class_index].open;
	while (slab && !slab->stamp)
		slab = slab->after;
	return slab ? slab_take(slabs, slab, slab->hot) : NULL;
}

void gm_slabs_cool(struct gm_slabs *slabs, uint64_t stamp)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	for (unsigned i = 0; i < GM_SLAB_CLASSES; i++)
		for (struct gm_slab *slab = slabs->classes[i].open; slab; slab = slab->after)
			if (slab->stamp && slab->stamp <= stamp)
				slab_cool(slabs, slab);
}

/* The extent of an empty slab becomes idle; the slab is spare for its class. */
static void slab_dissolve(struct gm_slabs *slabs, struct gm_slab *slab)
{
	struct gm_slab_class *class = &slabs->classes[slab->class];
	class_remove(class, slab);
	slab->extent->piece.stamp = slab->stamp;
	slab_cool(slabs, slab);
	GM_SET(slab->extent->slab, NULL);
	gm_extent_give(slabs->extents, slab->extent);
	slab->extent = NULL;
	class->slots -= slab->n_free;
	slab->after = class->spare;
	class->spare = slab;
}

void gm_slab_give(struct gm_slabs *slabs, struct gm_extent *extent, struct gm_piece *slot)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_slab *slab = GM_GET(extent->slab);
	struct gm_slab_class *class = &slabs->classes[slab->class];
	size_t index = (size_t)(slot - slab->slots);
	slot_set(slot, GM_IDLE, 0, 0);
	slab->free[index / 64] |= (uint64_t)1 << index % 64;
	if (GM_UNLIKELY(slot->stamp)) {
		slab->hot[index / 64] |= (uint64_t)1 << index % 64;
		slab->stamp = slot->stamp > slab->stamp ? slot->stamp : slab->stamp;
		slot->stamp = 0;
		hot_count(slabs, slab, 1);
	}
	if (slab->n_free++ == 0)
		class_add(class, slab, false);
	if (slab->n_free < GM_GET(slab->n))
		return;
	if (class->empty) {
		slab_dissolve(slabs, slab);
		return;
	}
	class->empty = slab;
	class_remove(class, slab);
	class_add(class, slab, true);
}

/* A new slab, with room for the slots of the longest slab of its class. */
static struct gm_slab *slab_new(unsigned class)
{
	uint32_t slot = gm_slab_slot(class), n = (uint32_t)(gm_slab_longest(class) / slot);
	struct gm_slab *slab = gm_piece_memory(sizeof *slab + n * sizeof *slab->slots);
	if (!slab)
		return NULL;
	slab->class = class;
	slab->slot = slot;
	slab->inverse = gm_slab_inverse(slot);
	return slab;
}

/* Lay the slab over the extent, with all slots free. */
static void slab_fill(struct gm_slab *slab, struct gm_extent *extent)
{
	uint32_t n = (uint32_t)(GM_GET(extent->piece.held) / slab->slot);
	slab->extent = extent;
	GM_SET(slab->n, n);
	slab->n_free = n;
	memset(slab->free, 0, sizeof slab->free);
	for (uint32_t i = 0; i < n; i += 64)
		slab->free[i / 64] = n - i >= 64 ? UINT64_MAX : ((uint64_t)1 << (n - i)) - 1;
}

bool gm_slab_make(struct gm_slabs *slabs, unsigned class_index)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	struct gm_slab_class *class = &slabs->classes[class_index];
	if (!class->spare)
		class->spare = slab_new(class_index);
	struct gm_slab *slab = class->spare;
	if (!slab)
		return false;
	uint64_t length = gm_slab_length(slabs, class_index);
	struct gm_extent *extent = gm_extent_take(slabs->extents, length, length);
	if (!extent)
		return false;
	class->spare = slab->after;
	slab_fill(slab, extent);
	if (GM_UNLIKELY(extent->piece.stamp)) {
		memcpy(slab->hot, slab->free, sizeof slab->hot);
		slab->stamp = extent->piece.stamp;
		extent->piece.stamp = 0;
		hot_count(slabs, slab, slab->n_free);
	}
	class->slots += slab->n_free;
	class_add(class, slab, true);
	class->empty = slab;
	gm_extent_use(slabs->extents, extent, GM_SLAB, slab);
	return true;
}

bool gm_slabs_flush(struct gm_slabs *slabs)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	bool any = false;
	for (unsigned i = 0; i < GM_SLAB_CLASSES; i++) {
		struct gm_slab *slab = slabs->classes[i].empty;
		slabs->classes[i].empty = NULL;
		if (slab) {
			slab_dissolve(slabs, slab);
			any = true;
		}
	}
	return any;
}

/* --- checking --- */

static const char *slot_check(const struct gm_slab *slab, uint32_t i, bool is_free)
{
	const struct gm_piece *slot = &slab->slots[i];
	uint32_t state = GM_GET(slot->state);
	if (is_free)
		return state <= GM_IDLE && GM_GET(slot->held) == 0 ? NULL : "free slots are idle";
	if (!gm_piece_is_live(slot) && state != GM_RETIRED && state != GM_SHELVED)
		return "used slots are live, retired or shelved";
	if (GM_GET(slot->base) != GM_GET(slab->extent->piece.base) + i * (uint64_t)slab->slot)
		return "slots know their address";
	return GM_GET(slot->held) == slab->slot ? NULL : "slots know their length";
}

const char *gm_slab_check(const struct gm_slab *slab)
{
	uint32_t n_free = 0, n_hot = 0;
	uint64_t length = GM_GET(slab->extent->piece.held);
	if (length < GM_SLAB_SHORTEST || length > gm_slab_longest(slab->class) ||
	    GM_GET(slab->n) != length / slab->slot)
		return "a slab has a length of its class";
	if (GM_GET(slab->extent->piece.base) % length)
		return "a slab is aligned to its length";
	for (uint32_t i = 0; i < GM_GET(slab->n); i++) {
		bool is_free = slab->free[i / 64] >> i % 64 & 1;
		const char *why = slot_check(slab, i, is_free);
		if (why)
			return why;
		n_free += is_free;
		n_hot += slab->hot[i / 64] >> i % 64 & 1;
		if (slab->hot[i / 64] & ~slab->free[i / 64])
			return "hot slots are free";
	}
	if (n_hot != slab->n_hot || !n_hot != !slab->stamp)
		return "hot slots are counted";
	return n_free == slab->n_free ? NULL : "free slots are counted";
}

static const char *class_check(const struct gm_slab_class *class, unsigned index)
{
	const struct gm_slab *last = NULL;
	for (const struct gm_slab *slab = class->open; slab; last = slab, slab = slab->after) {
		if (slab->before != last || slab->class != index)
			return "the list of slabs is linked both ways";
		if (!slab->extent || GM_GET(slab->extent->slab) != slab || slab->n_free == 0)
			return "listed slabs have free slots";
		if ((slab->n_free == GM_GET(slab->n)) != (slab == class->empty))
			return "one slab of a class at most is empty";
	}
	if (last != class->last || (class->empty && class->empty != last))
		return "the empty slab is listed last";
	return NULL;
}

const char *gm_slabs_check(const struct gm_slabs *slabs)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	const char *why = NULL;
	for (unsigned i = 0; i < GM_SLAB_CLASSES && !why; i++)
		why = class_check(&slabs->classes[i], i);
	return why;
}
