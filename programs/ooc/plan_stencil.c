/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tile i has the cells [cut(i), cut(i + 1)) and more than `steps` of them. An even tile begins with
 * `steps` cells of the next one, so that in the last step it has its own but for the first `steps`;
 * an odd one begins with what is left of it, and ends with `steps` cells of the next one. The cell
 * at distance m outside of an odd tile's first cells was last computed in step m - 1 by the even
 * tile there: levels m - 1 and m - 2, one in each array, and the odd tile needs just these, for m
 * up to steps + 1. So nothing but the two arrays is kept between the sweeps.
 */
#include <inttypes.h>

#include "plan_tile.h"

/* --- tiles --- */

static bool tile_is_last(const struct ooc_plan *plan, uint64_t i)
{
	return i + 1 == plan->tiles;
}

/* Its cells at level 0. */
static struct ooc_span tile_base(const struct ooc_plan *plan, uint64_t i)
{
	uint64_t end = ooc_cut(plan, i + 1), steps = plan->problem.steps;
	if (i % 2 == 0)
		return (struct ooc_span){ooc_cut(plan, i),
					 tile_is_last(plan, i) ? end : end + steps};
	return (struct ooc_span){ooc_cut(plan, i) + steps, end};
}

/* What it computes in that step. The first and the last cell of the array keep their value. */
static struct ooc_span tile_cells(const struct ooc_plan *plan, uint64_t i, uint64_t step)
{
	struct ooc_span base = tile_base(plan, i);
	if (i == 0)
		base.from = 1;
	else
		base.from += i % 2 ? -step : step;
	if (tile_is_last(plan, i))
		base.to = plan->problem.elements - 1;
	else
		base.to += i % 2 ? step : -step;
	return base;
}

/* What is on the device for it where it has a slot. */
static struct ooc_span tile_slot(const struct ooc_plan *plan, uint64_t i)
{
	struct ooc_span base = tile_base(plan, i);
	if (i % 2) {
		base.from -= plan->problem.steps + 1;
		base.to += tile_is_last(plan, i) ? 0 : plan->problem.steps + 1;
	}
	return base;
}

/* What is final behind its last step. */
static struct ooc_span tile_final(const struct ooc_plan *plan, uint64_t i)
{
	struct ooc_span cells = tile_cells(plan, i, plan->problem.steps);
	if (i == 0)
		cells.from = 0;
	if (tile_is_last(plan, i))
		cells.to = plan->problem.elements;
	return cells;
}

/* --- the plan --- */

/* Tiles for slots of `most` cells, as many in each round; 0 and why if there are none. */
static uint64_t tiles_in_slots(const struct ooc_plan *plan, uint64_t most, char why[OOC_WHY])
{
	uint64_t n = plan->problem.elements, steps = plan->problem.steps;
	if (most >= 2 * steps + 3) {
		uint64_t round = 2 * plan->streams;
		uint64_t tiles = ooc_ceil(ooc_ceil(n, most - steps - 2), round) * round;
		if (tiles > n / (steps + 1)) /* they would be too short */
			tiles = n / (steps + 1);
		if (tiles && ooc_ceil(n, tiles) + steps + 2 <= most)
			return tiles;
	}
	if (n <= most)
		return 1;
	return ooc_refuse(why,
			  "a room of %" PRIu64 " elements gives each of %" PRIu64
			  " streams %" PRIu64 "; %" PRIu64 " steps need at least %" PRIu64,
			  plan->problem.room, plan->streams, most, steps, 3 * steps + 6);
}

bool ooc_plan_stencil(struct ooc_plan *out, const struct ooc_problem *problem, char why[OOC_WHY])
{
	if (!ooc_plan_begin(out, problem, true, why))
		return false;
	uint64_t n = problem->elements, steps = problem->steps;
	out->result = (int)(steps % 2);
	out->device_cells = n;
	if (problem->mode == OOC_IN_CORE) {
		out->tiles = 1;
	} else if (problem->mode == OOC_STREAMED) {
		out->tiles = 2 * out->streams;
		if (n / out->tiles <= steps)
			return ooc_refuse(why,
					  "%" PRIu64 " tiles of %" PRIu64 " elements have %" PRIu64
					  " each; %" PRIu64 " steps need more than that: "
					  "use fewer streams or steps",
					  out->tiles, n, n / out->tiles, steps);
	} else {
		out->tiles = tiles_in_slots(out, problem->room / out->streams, why);
		if (!out->tiles)
			return false;
		out->slot = out->tiles == 1 ? n : ooc_ceil(n, out->tiles) + steps + 2;
		out->device_cells = out->slot * out->streams;
	}
	if (out->tiles > OOC_TILES_MAX)
		return ooc_refuse(why, "%" PRIu64 " tiles are too many: give more room",
				  out->tiles);
	out->rounds = ooc_ceil(ooc_ceil(out->tiles, 2), out->streams);
	out->sweeps = out->tiles > 1 ? 2 : 1;
	return true;
}

/* --- operations --- */

static void tile_load(const struct ooc_plan *plan, const struct ooc_issuer *to, unsigned stream,
		      uint64_t i, uint64_t shift)
{
	struct ooc_span cells = plan->slot ? tile_slot(plan, i) : tile_base(plan, i);
	for (int array = 0; array < 2; array++)
		ooc_issue(to,
			  (struct ooc_op){.kind = OOC_TO_DEVICE, .stream = stream, .array = array},
			  cells, shift);
}

static void tile_step(const struct ooc_plan *plan, const struct ooc_issuer *to, unsigned stream,
		      uint64_t i, uint64_t shift, uint64_t step)
{
	ooc_issue(to,
		  (struct ooc_op){.kind = OOC_STEP,
				  .stream = stream,
				  .array = (int)((step - 1) % 2),
				  .step = step},
		  tile_cells(plan, i, step), shift);
}

/* An even tile whose slot is about to be used again leaves on the host, too, what its odd
 * neighbours need: of the array of the result all, of the other `steps` cells at each side. */
static void tile_store(const struct ooc_plan *plan, const struct ooc_issuer *to, unsigned stream,
		       uint64_t i, uint64_t shift)
{
	uint64_t steps = plan->problem.steps;
	struct ooc_op op = {.kind = OOC_TO_HOST, .stream = stream, .array = plan->result};
	if (i % 2 || !plan->slot) {
		ooc_issue(to, op, tile_final(plan, i), shift);
		return;
	}
	struct ooc_span base = tile_base(plan, i);
	ooc_issue(to, op, base, shift);
	op.array = !plan->result;
	if (i > 0)
		ooc_issue(to, op, (struct ooc_span){base.from + 1, base.from + steps + 1}, shift);
	if (!tile_is_last(plan, i))
		ooc_issue(to, op, (struct ooc_span){base.to - steps - 1, base.to - 1}, shift);
}

/* The tile that a stream has in a round of the sweep, and its shift. */
static bool sweep_tile(const struct ooc_plan *plan, unsigned sweep, uint64_t round, unsigned stream,
		       uint64_t *i, uint64_t *shift)
{
	*i = 2 * (round * plan->streams + stream) + sweep;
	if (*i >= plan->tiles)
		return false;
	*shift = plan->slot ? stream * plan->slot - tile_slot(plan, *i).from : 0;
	return true;
}

static void sweep_issue(const struct ooc_plan *plan, const struct ooc_issuer *to, unsigned sweep,
			uint64_t round)
{
	uint64_t i, shift;
	for (unsigned s = 0; s < plan->streams; s++)
		if (sweep_tile(plan, sweep, round, s, &i, &shift))
			tile_load(plan, to, s, i, shift);
	for (uint64_t step = 1; step <= plan->problem.steps; step++)
		for (unsigned s = 0; s < plan->streams; s++)
			if (sweep_tile(plan, sweep, round, s, &i, &shift))
				tile_step(plan, to, s, i, shift, step);
	for (unsigned s = 0; s < plan->streams; s++)
		if (sweep_tile(plan, sweep, round, s, &i, &shift))
			tile_store(plan, to, s, i, shift);
}

void ooc_stencil_issue(const struct ooc_plan *plan, const struct ooc_issuer *to)
{
	for (unsigned sweep = 0; sweep < plan->sweeps; sweep++) {
		for (uint64_t round = 0; round < plan->rounds; round++)
			sweep_issue(plan, to, sweep, round);
		to->barrier(to->arg);
	}
}
