/* SPDX-License-Identifier: BSD-3-Clause */
/* The heat equation in one dimension: the 3-point stencil of the thesis. */
#include <stdlib.h>
#include <string.h>

#include "cells.h"
#include "kernels.h"
#include "ooc.h"

static cudaError_t step(float *const device[2], int array, uint64_t from, uint64_t to,
			cudaStream_t stream)
{
	return ooc_kernel_heat(device[array], device[!array], from, to, stream);
}

struct sweep {
	float *arrays[2];
	const float *result;
	int in;
	uint64_t differing;
};

/* Of the cells between the first and the last one. */
static void step_part(void *arg, uint64_t from, uint64_t to)
{
	struct sweep *sweep = arg;
	ooc_heat_cells(sweep->arrays[sweep->in], sweep->arrays[!sweep->in], from + 1, to + 1, 0, 1);
}

static void check_part(void *arg, uint64_t from, uint64_t to)
{
	struct sweep *sweep = arg;
	uint64_t differing = 0;
	for (uint64_t i = from; i < to; i++)
		differing += sweep->arrays[sweep->in][i] != sweep->result[i];
	__atomic_fetch_add(&sweep->differing, differing, __ATOMIC_RELAXED);
}

static uint64_t differing(const float *result, uint64_t elements, uint64_t steps)
{
	struct sweep sweep = {.result = result};
	for (int array = 0; array < 2; array++)
		if (!(sweep.arrays[array] = malloc(elements * sizeof(float))))
			pr_fail(1, "no memory on the host to verify the result");
	ooc_fill(sweep.arrays, elements);
	/* Cells that never change are in both. */
	sweep.arrays[1][0] = sweep.arrays[0][0];
	sweep.arrays[1][elements - 1] = sweep.arrays[0][elements - 1];
	for (uint64_t k = 0; k < steps; k++, sweep.in = !sweep.in)
		if (elements > 2)
			ooc_parallel(elements - 2, step_part, &sweep);
	ooc_parallel(elements, check_part, &sweep);
	free(sweep.arrays[0]);
	free(sweep.arrays[1]);
	return sweep.differing;
}

const struct ooc_program ooc_program = {
	.flops = 5,
	.words = 4,
	.plan = ooc_plan_stencil,
	.step = step,
	.differing = differing,
	.reference_arrays = 2,
};

const struct pr_program pr_program = {
	.name = "oocstencil",
	.about = "step the heat equation on a line, a 3-point stencil.",
	OOC_MAIN,
};
