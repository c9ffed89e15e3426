/* SPDX-License-Identifier: BSD-3-Clause */
/* Vector addition, a += b, again and again: the map of the thesis. */
#include "cells.h"
#include "kernels.h"
#include "ooc.h"

static cudaError_t step(float *const device[2], int array, uint64_t from, uint64_t to,
			cudaStream_t stream)
{
	return ooc_kernel_add(device[array], device[!array], from, to, stream);
}

struct check {
	const float *result;
	uint64_t steps, differing;
};

static void check_part(void *arg, uint64_t from, uint64_t to)
{
	struct check *check = arg;
	uint64_t differing = 0;
	for (uint64_t i = from; i < to; i++) {
		float a = ooc_start(0, i), b = ooc_start(1, i);
		for (uint64_t k = 0; k < check->steps; k++)
			ooc_add_cells(&a, &b, 0, 1, 0, 1);
		differing += a != check->result[i];
	}
	__atomic_fetch_add(&check->differing, differing, __ATOMIC_RELAXED);
}

static uint64_t differing(const float *result, uint64_t elements, uint64_t steps)
{
	struct check check = {.result = result, .steps = steps};
	ooc_parallel(elements, check_part, &check);
	return check.differing;
}

const struct ooc_program ooc_program = {
	.flops = 1,
	.words = 3,
	.plan = ooc_plan_map,
	.step = step,
	.differing = differing,
};

const struct pr_program pr_program = {
	.name = "oocmap",
	.about = "add a vector to another one, again and again.",
	OOC_MAIN,
};
