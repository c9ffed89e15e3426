/* SPDX-License-Identifier: BSD-3-Clause */
/* What oocmap and oocstencil share: options, memory of the host, a run on the device, its report.
 */
#ifndef OOC_H
#define OOC_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "plan.h"
#include "programs/common/program.h"

struct ooc_program {
	unsigned flops; /* of a cell in a step */
	unsigned words; /* that a cell reads and writes in a step, in floats */
	bool (*plan)(struct ooc_plan *out, const struct ooc_problem *problem, char why[OOC_WHY]);
	/* Enqueue a step over cells [from, to) of the device's arrays; it reads `array`. */
	cudaError_t (*step)(float *const device[2], int array, uint64_t from, uint64_t to,
			    cudaStream_t stream);
	/* How many elements of `result` are not what the CPU computes. */
	uint64_t (*differing)(const float *result, uint64_t elements, uint64_t steps);
	unsigned reference_arrays; /* that `differing` allocates */
};

/* What a run took, and moved. The times of copies and kernels are summed over the streams. */
struct ooc_result {
	double total_ms, kind_ms[OOC_KINDS];
	uint64_t kind_bytes[OOC_KINDS]; /* of copies */
};

/* --- host.c --- */

/* part(arg, from, to) for parts of [0, n), by a thread a core; returns when all have ended. */
void ooc_parallel(uint64_t n, void (*part)(void *arg, uint64_t from, uint64_t to), void *arg);

/* Element i of array 0 or 1 at the start: the same everywhere, from 0 to 1. */
float ooc_start(int array, uint64_t i);

/* Both arrays as they start. */
void ooc_fill(float *const host[2], uint64_t elements);

/* The same for equal bits in equal places, everywhere. */
uint64_t ooc_checksum(const float *cells, uint64_t elements);

/* --- run.c --- */

/* Allocate on the device, carry the plan out, free. */
void ooc_run(const struct ooc_program *program, const struct ooc_plan *plan, float *const host[2],
	     struct ooc_result *out);

/* --- main.c --- */

/* Each program has one. */
extern const struct ooc_program ooc_program;

extern const char *const ooc_mode_names[3];

/* Members of pr_program. */
#define OOC_MAIN .options = ooc_options, .numbers = ", as 64, 20M or 2Gi", .run = ooc_runs
extern const struct pr_option ooc_options[];
unsigned ooc_runs(void);

#endif
