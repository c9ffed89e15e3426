/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "plan_tile.h"

bool ooc_refuse(char why[OOC_WHY], const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(why, OOC_WHY, format, args);
	va_end(args);
	return false;
}

bool ooc_plan_begin(struct ooc_plan *out, const struct ooc_problem *problem, bool stencil,
		    char why[OOC_WHY])
{
	*out = (struct ooc_plan){.problem = *problem, .stencil = stencil, .sweeps = 1, .rounds = 1};
	out->streams = problem->mode == OOC_IN_CORE ? 1 : problem->streams;
	if (problem->elements == 0 || problem->elements > OOC_ELEMENTS_MAX)
		return ooc_refuse(why, "%" PRIu64 " elements: 1 to %" PRIu64 " are possible",
				  problem->elements, OOC_ELEMENTS_MAX);
	if (problem->steps > OOC_STEPS_MAX)
		return ooc_refuse(why, "%" PRIu64 " steps: 0 to %" PRIu64 " are possible",
				  problem->steps, OOC_STEPS_MAX);
	if (out->streams == 0 || out->streams > OOC_STREAMS_MAX)
		return ooc_refuse(why, "%" PRIu64 " streams: 1 to %u are possible", out->streams,
				  OOC_STREAMS_MAX);
	return true;
}

bool ooc_plan_map(struct ooc_plan *out, const struct ooc_problem *problem, char why[OOC_WHY])
{
	if (!ooc_plan_begin(out, problem, false, why))
		return false;
	uint64_t n = problem->elements, streams = out->streams;
	if (n < streams)
		return ooc_refuse(why, "%" PRIu64 " elements are too few for %" PRIu64 " streams",
				  n, streams);
	if (problem->mode == OOC_OUT_OF_CORE) {
		uint64_t most = problem->room / streams;
		if (most == 0)
			return ooc_refuse(why,
					  "a room of %" PRIu64 " elements is too small for %" PRIu64
					  " streams",
					  problem->room, streams);
		out->rounds = ooc_ceil(ooc_ceil(n, most), streams);
	}
	/* As many tiles in the last round as in the others, of the same length. */
	out->tiles = out->rounds * streams < n ? out->rounds * streams : n;
	if (out->tiles > OOC_TILES_MAX)
		return ooc_refuse(why, "%" PRIu64 " tiles are too many: give more room",
				  out->tiles);
	out->slot = ooc_ceil(n, out->tiles);
	out->device_cells = out->slot * streams;
	return true;
}

void ooc_issue(const struct ooc_issuer *to, struct ooc_op op, struct ooc_span cells, uint64_t shift)
{
	if (cells.to <= cells.from)
		return;
	op.host = cells.from;
	op.device = cells.from + shift;
	op.count = cells.to - cells.from;
	to->op(to->arg, &op);
}

/* The tile of a stream in a round, and its shift; no cells where the last round has none for it. */
static struct ooc_span map_tile(const struct ooc_plan *plan, uint64_t round, unsigned stream,
				uint64_t *shift)
{
	uint64_t i = round * plan->streams + stream;
	if (i >= plan->tiles)
		return (struct ooc_span){0, 0};
	struct ooc_span cells = {ooc_cut(plan, i), ooc_cut(plan, i + 1)};
	*shift = stream * plan->slot - cells.from;
	return cells;
}

static void map_issue_round(const struct ooc_plan *plan, uint64_t round, struct ooc_op op,
			    const struct ooc_issuer *to)
{
	uint64_t shift = 0;
	for (op.stream = 0; op.stream < plan->streams; op.stream++) {
		struct ooc_span cells = map_tile(plan, round, op.stream, &shift);
		ooc_issue(to, op, cells, shift);
	}
}

/* All copies to the device, then each step in all streams, then all copies back. */
static void map_issue(const struct ooc_plan *plan, const struct ooc_issuer *to)
{
	for (uint64_t round = 0; round < plan->rounds; round++) {
		for (int array = 0; array < 2; array++)
			map_issue_round(plan, round,
					(struct ooc_op){.kind = OOC_TO_DEVICE, .array = array}, to);
		for (uint64_t step = 1; step <= plan->problem.steps; step++)
			map_issue_round(plan, round,
					(struct ooc_op){.kind = OOC_STEP, .step = step}, to);
		map_issue_round(plan, round, (struct ooc_op){.kind = OOC_TO_HOST}, to);
	}
	to->barrier(to->arg);
}

void ooc_plan_issue(const struct ooc_plan *plan, const struct ooc_issuer *to)
{
	if (plan->stencil)
		ooc_stencil_issue(plan, to);
	else
		map_issue(plan, to);
}
