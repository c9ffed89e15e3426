/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * barneshut: forces between bodies by an octree whose cells kernels make by malloc (J. Barnes, P.
 * Hut, A hierarchical O(N log N) force-calculation algorithm, 1986), as in the use case of Spliet
 * (2013), 3.2.8. doc/programs.md has it.
 *
 * Positions are in a cube of side OCTREE_SIDE. The root is its cell; a cell's side is half of its
 * parent's. A slot of a cell is empty, or has one body, or a cell; in cells of the last level,
 * whose side is 2^(OCTREE_LEVELS - levels + 1), it has any number of bodies as a list. Each
 * operation on floats is rounded by itself and their order does not depend on that of threads, so
 * that the CPU gets the same bits.
 */
#ifndef OCTREE_H
#define OCTREE_H

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "programs/common/both.h"

#ifdef __cplusplus
extern "C" {
#endif

#define OCTREE_LEVELS 21 /* most of them; a float has all positions of the finest ones */
#define OCTREE_TALLIES 256
#define OCTREE_SIDE (1u << OCTREE_LEVELS)

enum octree_way { OCTREE_BUMP, OCTREE_MALLOC, OCTREE_WAYS };

typedef unsigned long long octree_word;

struct octree_point {
	float x, y, z, mass;
};

/* A slot: 0, or the address of a cell, or (body << 1 | 1) of the first body of its list. */
struct octree_cell {
	octree_word slot[8], parent;
	struct octree_point centre; /* of mass */
	uint32_t level, place;	    /* of the root: 0; which slot of the parent */
	uint32_t taken;		    /* slots that are not empty, once the tree is complete */
	uint32_t summed, gone;	    /* how many of them are ready, are to be freed */
};

struct octree_tally {
	octree_word allocated, freed, lacking;
};

/* The argument of all kernels, in device memory. */
struct octree_work {
	uint32_t bodies, levels;
	struct octree_point *at, *speed, *pull; /* pull: acceleration */
	uint32_t *next;				/* list of a slot: body + 1, 0: the last one */
	octree_word *holder; /* of each body that is the first of its list: its cell; else 0 */
	octree_word root;
	float theta2, soft2, time; /* opening angle, softening: squares; of a step */
	/* bump: cells of a block, all of which are free again at the next step */
	struct octree_cell *cells;
	octree_word cell_count, used;
	/* Set to 0 before a run. Of many threads each, for one counter would be what is measured.
	 */
	struct octree_tally tally[OCTREE_TALLIES];
};

PR_BOTH uint32_t octree_grid(float x)
{
	return x >= (float)OCTREE_SIDE ? OCTREE_SIDE - 1 : x > 0 ? (uint32_t)x : 0;
}

/* The slot of the cell of that level, one bit a direction. */
PR_BOTH uint32_t octree_place(const struct octree_point *p, uint32_t level)
{
	uint32_t shift = OCTREE_LEVELS - 1 - level;
	return (octree_grid(p->x) >> shift & 1) | (octree_grid(p->y) >> shift & 1) << 1 |
	       (octree_grid(p->z) >> shift & 1) << 2;
}

/* `sum` has masses, and products of mass and position. */
PR_BOTH void octree_weigh(struct octree_point *sum, const struct octree_point *p)
{
	sum->x += p->mass * p->x;
	sum->y += p->mass * p->y;
	sum->z += p->mass * p->z;
	sum->mass += p->mass;
}

PR_BOTH struct octree_point octree_centre(struct octree_point sum)
{
	sum.x /= sum.mass;
	sum.y /= sum.mass;
	sum.z /= sum.mass;
	return sum;
}

/* Square of the distance; `way` gets its components. */
PR_BOTH float octree_between(const struct octree_point *from, const struct octree_point *to,
			     struct octree_point *way)
{
	way->x = to->x - from->x;
	way->y = to->y - from->y;
	way->z = to->z - from->z;
	way->mass = to->mass;
	return way->x * way->x + way->y * way->y + way->z * way->z;
}

/* A cell of that level is seen as one body from that distance. */
PR_BOTH bool octree_is_far(uint32_t level, float range2, float theta2)
{
	float side = (float)(OCTREE_SIDE >> level);
	return side * side < theta2 * range2;
}

PR_BOTH void octree_pull(struct octree_point *pull, const struct octree_point *way, float range2,
			 float soft2)
{
	float r2 = range2 + soft2, by = way->mass / (r2 * sqrtf(r2));
	pull->x += by * way->x;
	pull->y += by * way->y;
	pull->z += by * way->z;
}

PR_BOTH void octree_move_one(float *x, float *speed, float pull, float time)
{
	*speed += pull * time;
	*x += *speed * time;
	*x = *x < 0 ? 0 : *x > (float)OCTREE_SIDE ? (float)OCTREE_SIDE : *x;
}

/* A body after a step; it stays in the cube. */
PR_BOTH void octree_move(struct octree_point *at, struct octree_point *speed,
			 const struct octree_point *pull, float time)
{
	octree_move_one(&at->x, &speed->x, pull->x, time);
	octree_move_one(&at->y, &speed->y, pull->y, time);
	octree_move_one(&at->z, &speed->z, pull->z, time);
}

/* --- octree_cpu.c --- */

/* Accelerations by a tree of the CPU's own, of as many steps; bodies move between two steps. The
 * last ones are in `pull`. */
void octree_reference(const struct octree_work *w, uint32_t steps, struct octree_point *at,
		      struct octree_point *speed, struct octree_point *pull);
/* Of some bodies: the error of `pull` beside the sum over all pairs in double, and that sum's size;
 * the quotient of the two. */
double octree_error(const struct octree_work *w, const struct octree_point *at,
		    const struct octree_point *pull);

/* --- octree_kernels.cu: each enqueues one kernel on the default stream --- */

/* Make the root. */
cudaError_t octree_kernel_root(struct octree_work *work, enum octree_way way);
/* A thread a body: put it into the tree. */
cudaError_t octree_kernel_put(struct octree_work *work, uint32_t bodies, enum octree_way way);
/* A thread a body: centres of mass, from the last cells to the root. */
cudaError_t octree_kernel_sum(struct octree_work *work, uint32_t bodies);
/* A thread a body: its acceleration. */
cudaError_t octree_kernel_pull(struct octree_work *work, uint32_t bodies);
cudaError_t octree_kernel_move(struct octree_work *work, uint32_t bodies);
/* A thread a body: free the tree, from the last cells to the root. */
cudaError_t octree_kernel_free(struct octree_work *work, uint32_t bodies, enum octree_way way);

#ifdef __cplusplus
}
#endif

#endif
