/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How two arrays of the host go through the memory of a device: which part is copied where, in
 * which stream, and which cells each step computes. Nothing here calls CUDA. All figures are
 * elements. After P. van Beurden, Blueprints for out-of-core code generation using CUDA (2022),
 * sections 3.1 and 3.2: a map is cut into tiles; a 3-point stencil is cut into trapezoids, of which
 * the even ones lose a cell a step at each side, and the odd ones, in a second sweep, win it (split
 * tiling). doc/programs.md draws both.
 */
#ifndef OOC_PLAN_H
#define OOC_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#define OOC_ELEMENTS_MAX ((uint64_t)1 << 42)
#define OOC_STEPS_MAX ((uint64_t)1 << 31)
#define OOC_STREAMS_MAX 1024u
#define OOC_TILES_MAX ((uint64_t)1 << 20)
#define OOC_WHY 200 /* bytes of a reason, with its end */

enum ooc_mode {
	OOC_IN_CORE,	/* all at once, without streams */
	OOC_STREAMED,	/* all fits, a tile (stencil: two) a stream */
	OOC_OUT_OF_CORE /* by rounds through as much memory as there is */
};

struct ooc_problem {
	enum ooc_mode mode;
	uint64_t elements; /* of each of the two arrays */
	uint64_t steps;
	uint64_t streams; /* in-core: ignored */
	uint64_t room;	  /* out-of-core: elements that the device has for each array */
};

/* The caller fills none of it in. */
struct ooc_plan {
	struct ooc_problem problem;
	bool stencil;
	uint64_t streams;
	uint64_t tiles;
	uint64_t rounds; /* of a sweep: how often each stream takes a tile, at most */
	unsigned sweeps; /* 2 where tiles depend on each other */
	uint64_t slot;	 /* of each array, per stream; 0: cells are where they are on the host */
	uint64_t device_cells; /* of each array on the device */
	int result;	       /* the array of the host that has the result at the end: 0 or 1 */
};

enum ooc_kind { OOC_TO_DEVICE, OOC_STEP, OOC_TO_HOST };
#define OOC_KINDS 3

struct ooc_op {
	enum ooc_kind kind;
	unsigned stream;
	int array;     /* copies: which of the two. Steps of a stencil: which is read; the other is
			  written */
	uint64_t host; /* first cell on the host */
	uint64_t device; /* the same cell on the device */
	uint64_t count;	 /* cells, at least 1 */
	uint64_t step;	 /* 1 to steps; 0 for copies */
};

/* Takes the operations in the order in which they are issued. Those of one stream run in that
 * order, those of different streams in any. barrier: all that was issued has to end first. */
struct ooc_issuer {
	void (*op)(void *arg, const struct ooc_op *op);
	void (*barrier)(void *arg);
	void *arg;
};

/* Vector addition, a += b in each step: a is array 0, b array 1. false, and why as one line of
 * text, if the problem cannot be planned. */
bool ooc_plan_map(struct ooc_plan *out, const struct ooc_problem *problem, char why[OOC_WHY]);

/* A stencil on [1, elements - 1): step k reads array (k - 1) % 2 and writes array k % 2. Both
 * arrays of the host have the first and the last cell, and array 0 the start; both are written. */
bool ooc_plan_stencil(struct ooc_plan *out, const struct ooc_problem *problem, char why[OOC_WHY]);

void ooc_plan_issue(const struct ooc_plan *plan, const struct ooc_issuer *to);

#endif
