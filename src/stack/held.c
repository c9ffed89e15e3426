/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/held.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/lock.h"
#include "log/record.h"

atomic_bool gm_held_any_size;

enum { PARTS = 16, LEAST = 256 };

struct entry {
	uint64_t id; /* 0: the place is free */
	uint32_t stack;
};

/* One open hash table for each part of the ids; at most three quarters of its places are in use. */
static struct part {
	struct gm_lock lock;
	struct entry *at;
	uint32_t n, room; /* a power of two */
} parts[PARTS] = {[0 ... PARTS - 1] = {.lock = GM_LOCK_INIT(GM_LOCK_RANK_STACK)}};

static uint64_t id_mix(uint64_t id)
{
	return id * 0x9e3779b97f4a7c15u;
}

static struct part *part_of(uint64_t id)
{
	return &parts[id_mix(id) >> 60];
}

static uint32_t home_of(const struct part *part, uint64_t id)
{
	return (uint32_t)(id_mix(id) >> 24) & (part->room - 1);
}

/* The place of the id, or the free place for it. pre: there is room. */
static uint32_t place_of(const struct part *part, uint64_t id)
{
	uint32_t i = home_of(part, id);
	gm_lock_assert_held(GM_LOCK_RANK_STACK);
	while (part->at[i].id && part->at[i].id != id)
		i = (i + 1) & (part->room - 1);
	return i;
}

static bool part_grow(struct part *part)
{
	struct part more = {.room = part->room ? 2 * part->room : LEAST};
	gm_lock_assert_held(GM_LOCK_RANK_STACK);
	more.at = calloc(more.room, sizeof *more.at);
	if (!more.at)
		return false;
	for (uint32_t i = 0; i < part->room; i++)
		if (part->at[i].id)
			more.at[place_of(&more, part->at[i].id)] = part->at[i];
	free(part->at);
	part->at = more.at;
	part->room = more.room;
	return true;
}

void gm_held_add(uint64_t id, uint32_t stack)
{
	struct part *part = part_of(id);
	gm_lock_take(&part->lock);
	bool room = part->n < GM_HELD_MOST / PARTS;
	if (room && part->n >= part->room / 4 * 3)
		room = part_grow(part);
	if (room) {
		struct entry *entry = &part->at[place_of(part, id)];
		part->n += !entry->id;
		*entry = (struct entry){id, stack};
	}
	gm_lock_release(&part->lock);
}

/* Close the gap at `hole`: a later entry moves there unless its home lies in between. */
static void hole_close(struct part *part, uint32_t hole)
{
	uint32_t mask = part->room - 1;
	gm_lock_assert_held(GM_LOCK_RANK_STACK);
	for (uint32_t i = (hole + 1) & mask; part->at[i].id; i = (i + 1) & mask) {
		uint32_t home = home_of(part, part->at[i].id);
		if (((i - home) & mask) < ((i - hole) & mask))
			continue;
		part->at[hole] = part->at[i];
		hole = i;
	}
	part->at[hole].id = 0;
}

void gm_held_drop(uint64_t id)
{
	struct part *part = part_of(id);
	gm_lock_take(&part->lock);
	uint32_t place = part->n ? place_of(part, id) : 0;
	if (part->n && part->at[place].id) {
		hole_close(part, place);
		part->n--;
	}
	gm_lock_release(&part->lock);
}

uint32_t gm_held_stack(uint64_t id)
{
	struct part *part = part_of(id);
	gm_lock_take(&part->lock);
	uint32_t place = part->n ? place_of(part, id) : 0;
	uint32_t stack = part->n && part->at[place].id ? part->at[place].stack : 0;
	gm_lock_release(&part->lock);
	return stack;
}

void gm_held_add_before(uint64_t id)
{
	atomic_store_explicit(&gm_held_any_size, true, memory_order_relaxed);
	gm_held_add(id, GM_STACK_BEFORE);
}

void gm_held_clear(void)
{
	atomic_store_explicit(&gm_held_any_size, false, memory_order_relaxed);
	for (unsigned i = 0; i < PARTS; i++) {
		gm_lock_take(&parts[i].lock);
		free(parts[i].at);
		parts[i].at = NULL;
		parts[i].n = parts[i].room = 0;
		gm_lock_release(&parts[i].lock);
	}
}

void gm_held_forget(void)
{
	atomic_store(&gm_held_any_size, false);
	for (unsigned i = 0; i < PARTS; i++) {
		gm_lock_init(&parts[i].lock, GM_LOCK_RANK_STACK);
		parts[i].at = NULL;
		parts[i].n = parts[i].room = 0;
	}
}
