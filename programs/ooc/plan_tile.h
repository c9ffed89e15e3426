/* SPDX-License-Identifier: BSD-3-Clause */
/* Between plan.c, which has maps and what both share, and plan_stencil.c. */
#ifndef OOC_PLAN_TILE_H
#define OOC_PLAN_TILE_H

#include "plan.h"

/* Cells [from, to). */
struct ooc_span {
	uint64_t from, to;
};

static inline uint64_t ooc_ceil(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

/* Where tile i of the plan begins; tiles differ by one cell at most. */
static inline uint64_t ooc_cut(const struct ooc_plan *plan, uint64_t i)
{
	uint64_t least = plan->problem.elements / plan->tiles;
	uint64_t longer = plan->problem.elements % plan->tiles;
	return i * least + (i < longer ? i : longer);
}

/* What both kinds of plans refuse. Sets all that does not depend on the tiles. */
bool ooc_plan_begin(struct ooc_plan *out, const struct ooc_problem *problem, bool stencil,
		    char why[OOC_WHY]);

bool ooc_refuse(char why[OOC_WHY], const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Hand on a copy or a step; nothing if it has no cells. `shift` is the device's cell less the
 * host's, by wrapping arithmetic. */
void ooc_issue(const struct ooc_issuer *to, struct ooc_op op, struct ooc_span cells,
	       uint64_t shift);

/* Both sweeps of a stencil. */
void ooc_stencil_issue(const struct ooc_plan *plan, const struct ooc_issuer *to);

#endif
