/* SPDX-License-Identifier: BSD-3-Clause */
/* The same forces on the CPU: a tree by partition of all bodies, from the root down. */
#include <stdlib.h>

#include "programs/common/args.h"
#include "programs/octree/octree.h"

enum { SAMPLES = 64 };

struct cpu_slot {
	uint32_t from, bodies; /* of `order`, if there is no cell */
	uint32_t cell;	       /* index of the cell; 0: none */
};

struct cpu_cell {
	struct cpu_slot slot[8];
	struct octree_point centre;
};

struct cpu_tree {
	const struct octree_work *work;
	const struct octree_point *at;
	struct cpu_cell *cell;
	uint32_t count, room;
	uint32_t *order, *spare; /* bodies: those of a slot are side by side, by index */
};

static uint32_t cell_new(struct cpu_tree *t)
{
	if (t->count == t->room) {
		t->room = t->room ? 2 * t->room : 1024;
		t->cell = realloc(t->cell, t->room * sizeof *t->cell);
		if (!t->cell)
			pr_fail(1, "no memory of the host");
	}
	return t->count++;
}

/* Bodies from `from` on, by their slots of a cell of that level; the slots in `slot`. */
static void bodies_part(struct cpu_tree *t, uint32_t level, uint32_t from, uint32_t bodies,
			struct cpu_slot slot[8])
{
	uint32_t to = from;
	for (uint32_t k = 0; k < 8; k++) {
		slot[k] = (struct cpu_slot){to, 0, 0};
		for (uint32_t i = from; i < from + bodies; i++)
			if (octree_place(&t->at[t->order[i]], level) == k)
				t->spare[to++] = t->order[i];
		slot[k].bodies = to - slot[k].from;
	}
	for (uint32_t i = from; i < from + bodies; i++)
		t->order[i] = t->spare[i];
}

static uint32_t tree_make(struct cpu_tree *t, uint32_t level, uint32_t from, uint32_t bodies)
{
	struct octree_point sum = {0, 0, 0, 0};
	uint32_t cell = cell_new(t);
	struct cpu_slot slot[8];
	bodies_part(t, level, from, bodies, slot);
	for (int k = 0; k < 8; k++) {
		if (slot[k].bodies > 1 && level + 1 < t->work->levels) {
			slot[k].cell = tree_make(t, level + 1, slot[k].from, slot[k].bodies);
			octree_weigh(&sum, &t->cell[slot[k].cell].centre);
			continue;
		}
		for (uint32_t i = 0; i < slot[k].bodies; i++)
			octree_weigh(&sum, &t->at[t->order[slot[k].from + i]]);
	}
	for (int k = 0; k < 8; k++)
		t->cell[cell].slot[k] = slot[k];
	t->cell[cell].centre = octree_centre(sum);
	return cell;
}

static void tree_pull(const struct cpu_tree *t, uint32_t cell, uint32_t level, uint32_t i,
		      struct octree_point *pull)
{
	struct octree_point way;
	for (int k = 0; k < 8; k++) {
		const struct cpu_slot *slot = &t->cell[cell].slot[k];
		for (uint32_t j = 0; !slot->cell && j < slot->bodies; j++) {
			uint32_t other = t->order[slot->from + j];
			float range2 = octree_between(&t->at[i], &t->at[other], &way);
			if (other != i)
				octree_pull(pull, &way, range2, t->work->soft2);
		}
		if (!slot->cell)
			continue;
		float range2 = octree_between(&t->at[i], &t->cell[slot->cell].centre, &way);
		if (octree_is_far(level + 1, range2, t->work->theta2))
			octree_pull(pull, &way, range2, t->work->soft2);
		else
			tree_pull(t, slot->cell, level + 1, i, pull);
	}
}

void octree_reference(const struct octree_work *w, uint32_t steps, struct octree_point *at,
		      struct octree_point *speed, struct octree_point *pull)
{
	struct cpu_tree t = {.work = w, .at = at};
	t.order = pr_host_take(w->bodies, sizeof *t.order);
	t.spare = pr_host_take(w->bodies, sizeof *t.spare);
	for (uint32_t step = 0; step < steps; step++) {
		t.count = 0;
		for (uint32_t i = 0; i < w->bodies; i++) {
			if (step)
				octree_move(&at[i], &speed[i], &pull[i], w->time);
			t.order[i] = i;
		}
		tree_make(&t, 0, 0, w->bodies);
		for (uint32_t i = 0; i < w->bodies; i++) {
			pull[i] = (struct octree_point){0, 0, 0, 0};
			tree_pull(&t, 0, 0, i, &pull[i]);
		}
	}
	free(t.cell);
	free(t.order);
	free(t.spare);
}

static void direct_pull(const struct octree_work *w, const struct octree_point *at, uint32_t i,
			double pull[3])
{
	for (uint32_t j = 0; j < w->bodies; j++) {
		double way[3] = {(double)at[j].x - (double)at[i].x,
				 (double)at[j].y - (double)at[i].y,
				 (double)at[j].z - (double)at[i].z};
		double r2 = way[0] * way[0] + way[1] * way[1] + way[2] * way[2] + (double)w->soft2;
		for (int k = 0; k < 3 && j != i; k++)
			pull[k] += (double)at[j].mass * way[k] / (r2 * sqrt(r2));
	}
}

double octree_error(const struct octree_work *w, const struct octree_point *at,
		    const struct octree_point *pull)
{
	uint32_t samples = w->bodies < SAMPLES ? w->bodies : SAMPLES;
	double wrong = 0, size = 0;
	for (uint32_t s = 0; s < samples; s++) {
		uint32_t i = (uint32_t)((uint64_t)s * w->bodies / samples);
		double all[3] = {0, 0, 0};
		direct_pull(w, at, i, all);
		double mine[3] = {(double)pull[i].x, (double)pull[i].y, (double)pull[i].z};
		for (int k = 0; k < 3; k++) {
			wrong += (mine[k] - all[k]) * (mine[k] - all[k]);
			size += all[k] * all[k];
		}
	}
	return size > 0 ? sqrt(wrong / size) : sqrt(wrong);
}
