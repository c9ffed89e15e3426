/* SPDX-License-Identifier: BSD-3-Clause */
/* What a thread does, on the GPU, and on the CPU for the simulated driver. */
#ifndef OCTREE_LANE_H
#define OCTREE_LANE_H

#include "programs/common/lane.h"
#include "programs/octree/octree.h"

/* --- cells --- */

/* For thread i. */
PR_LANE struct octree_cell *cell_take(struct octree_work *w, enum octree_way way, uint32_t i)
{
	struct octree_cell *cell = 0;
	if (way == OCTREE_MALLOC) {
		cell = (struct octree_cell *)malloc(sizeof *cell);
	} else {
		octree_word n = pr_add(&w->used, 1);
		cell = n < w->cell_count ? w->cells + n : 0;
	}
	struct octree_tally *tally = &w->tally[i % OCTREE_TALLIES];
	pr_add(cell ? &tally->allocated : &tally->lacking, 1);
	return cell;
}

PR_LANE void cell_give(struct octree_work *w, enum octree_way way, uint32_t i,
		       struct octree_cell *cell)
{
	pr_add(&w->tally[i % OCTREE_TALLIES].freed, 1);
	if (way == OCTREE_MALLOC)
		free(cell);
}

PR_LANE void cell_make(struct octree_cell *cell, const struct octree_cell *parent, uint32_t level,
		       uint32_t place)
{
	for (int k = 0; k < 8; k++)
		cell->slot[k] = 0;
	cell->parent = (octree_word)(uintptr_t)parent;
	cell->level = level;
	cell->place = place;
	cell->taken = cell->summed = cell->gone = 0;
}

/* The index of a slot's first body, plus 1; 0: it is empty or has a cell. */
PR_LANE uint32_t slot_first(octree_word slot)
{
	return slot & 1 ? (uint32_t)(slot >> 1) + 1 : 0;
}

/* --- the tree grows --- */

PR_LANE void lane_root(struct octree_work *w, enum octree_way way)
{
	struct octree_cell *root = cell_take(w, way, 0);
	if (root)
		cell_make(root, 0, 0, 0);
	w->root = (octree_word)(uintptr_t)root;
}

/*
 * A body goes down to an empty slot, and puts itself there. Where it meets a body, it makes a cell
 * with that body in it and puts this in place of the body. No slot turns back into what it was, so
 * whoever finds it changed looks again; its cell is kept for the next place, and freed at the end.
 * Another thread may get that memory then: only slots are read here, and past the first cache.
 */
PR_LANE void lane_put(struct octree_work *w, enum octree_way way, uint32_t i)
{
	struct octree_cell *cell = (struct octree_cell *)(uintptr_t)w->root, *own = 0;
	octree_word body = (octree_word)i << 1 | 1;
	uint32_t level = 0; /* of `cell` */
	w->next[i] = 0;
	while (cell) {
		uint32_t place = octree_place(&w->at[i], level);
		octree_word *slot = &cell->slot[place], was = pr_load(slot);
		uint32_t first = slot_first(was);
		if (was && !first) {
			cell = (struct octree_cell *)(uintptr_t)was;
			level++;
			continue;
		}
		if (!was || level + 1 == w->levels) {
			w->next[i] = first;
			pr_fence();
			if (pr_cas(slot, was, body) == was)
				break;
			continue;
		}
		if (!own)
			own = cell_take(w, way, i);
		if (!own)
			break;
		cell_make(own, cell, level + 1, place);
		own->slot[octree_place(&w->at[first - 1], level + 1)] = was;
		pr_fence();
		if (pr_cas(slot, was, (octree_word)(uintptr_t)own) != was)
			continue;
		cell = own;
		own = 0;
		level++;
	}
	if (own)
		cell_give(w, way, i, own);
}

/* --- centres of mass --- */

/* The body of the list with the least index above `above`, both plus 1; 0: there is none. Lists
 * come in any order, sums do not. */
PR_LANE uint32_t list_after(const struct octree_work *w, uint32_t first, uint32_t above)
{
	uint32_t least = 0;
	for (uint32_t at = first; at; at = w->next[at - 1])
		if (at > above && (!least || at < least))
			least = at;
	return least;
}

PR_LANE void cell_sum(const struct octree_work *w, struct octree_cell *cell)
{
	struct octree_point sum = {0, 0, 0, 0};
	for (int k = 0; k < 8; k++) {
		octree_word slot = cell->slot[k];
		uint32_t first = slot_first(slot);
		if (slot && !first)
			octree_weigh(&sum, &((struct octree_cell *)(uintptr_t)slot)->centre);
		for (uint32_t at = list_after(w, first, 0); at; at = list_after(w, first, at))
			octree_weigh(&sum, &w->at[at - 1]);
	}
	cell->centre = octree_centre(sum);
}

/* The cell in a slot of which this body is the first; NULL: another one is. */
PR_LANE struct octree_cell *body_holder(const struct octree_work *w, uint32_t i)
{
	octree_word at = w->root;
	struct octree_cell *cell = 0;
	while (at && !slot_first(at)) {
		cell = (struct octree_cell *)(uintptr_t)at;
		at = cell->slot[octree_place(&w->at[i], cell->level)];
	}
	return slot_first(at) == i + 1 ? cell : 0;
}

PR_LANE uint32_t cell_taken(const struct octree_cell *cell)
{
	uint32_t taken = 0;
	for (int k = 0; k < 8; k++)
		taken += cell->slot[k] != 0;
	return taken;
}

/* Whoever brings the last slot of a cell sums it up, and brings it to the parent. */
PR_LANE void lane_sum(struct octree_work *w, uint32_t i)
{
	struct octree_cell *cell = body_holder(w, i);
	w->holder[i] = (octree_word)(uintptr_t)cell;
	while (cell) {
		uint32_t taken = cell_taken(cell);
		pr_fence();
		if (pr_add32(&cell->summed, 1) + 1 < taken)
			break;
		pr_fence();
		cell->taken = taken;
		cell_sum(w, cell);
		cell = (struct octree_cell *)(uintptr_t)cell->parent;
	}
}

/* --- accelerations --- */

/* By slots, from the first to the last; cells remember their parents, so there is no stack. */
PR_LANE void lane_pull(struct octree_work *w, uint32_t i)
{
	const struct octree_cell *cell = (const struct octree_cell *)(uintptr_t)w->root;
	struct octree_point self = w->at[i], pull = {0, 0, 0, 0}, way;
	uint32_t k = 0;
	while (cell) {
		if (k == 8) {
			k = cell->place + 1;
			cell = (const struct octree_cell *)(uintptr_t)cell->parent;
			continue;
		}
		octree_word slot = cell->slot[k++];
		uint32_t first = slot_first(slot);
		for (uint32_t at = list_after(w, first, 0); at; at = list_after(w, first, at)) {
			float range2 = octree_between(&self, &w->at[at - 1], &way);
			if (at != i + 1)
				octree_pull(&pull, &way, range2, w->soft2);
		}
		if (!slot || first)
			continue;
		const struct octree_cell *below = (const struct octree_cell *)(uintptr_t)slot;
		float range2 = octree_between(&self, &below->centre, &way);
		if (octree_is_far(below->level, range2, w->theta2)) {
			octree_pull(&pull, &way, range2, w->soft2);
		} else {
			cell = below;
			k = 0;
		}
	}
	w->pull[i] = pull;
}

PR_LANE void lane_move(struct octree_work *w, uint32_t i)
{
	octree_move(&w->at[i], &w->speed[i], &w->pull[i], w->time);
}

/* --- the end --- */

/* Whoever comes last to a cell frees it, and goes on to the parent. */
PR_LANE void lane_free(struct octree_work *w, enum octree_way way, uint32_t i)
{
	struct octree_cell *cell = (struct octree_cell *)(uintptr_t)w->holder[i];
	while (cell) {
		struct octree_cell *parent = (struct octree_cell *)(uintptr_t)cell->parent;
		uint32_t taken = cell->taken;
		pr_fence();
		if (pr_add32(&cell->gone, 1) + 1 < taken)
			break;
		cell_give(w, way, i, cell);
		cell = parent;
	}
}

#endif
