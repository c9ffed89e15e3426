/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replaces spgemm_kernels.cu on the simulated driver: the same code of a row, on one lane, and the
 * host's malloc. With SPGEMM_SIM_WRONG in the environment an entry of the result is wrong.
 */
#include "programs/sparse/spgemm_rows.h"

#include <string.h>

struct launch {
	struct sp_work *work;
	char *scratch;
	uint32_t slots;
};

static void upper(void *arg)
{
	struct launch *l = arg;
	for (uint32_t r = 0; r < l->work->matrix.rows; r++)
		row_upper(l->work, r);
	free(l);
}

static void count(void *arg)
{
	struct launch *l = arg;
	while (warp_count_next(l->work, (struct sp_segment *)l->scratch, l->slots))
		;
	free(l);
}

static void rows(void *arg)
{
	struct launch *l = arg;
	while (warp_compute_next(l->work))
		;
	free(l);
}

static void persistent(void *arg)
{
	struct launch *l = arg;
	struct sp_work *w = l->work;
	for (;;) {
		while (warp_compute_next(w))
			;
		if (!w->remaining || w->used >= w->space_bytes)
			break;
		round_begin(w);
	}
	free(l);
}

static void finish(void *arg)
{
	struct launch *l = arg;
	if (getenv("SPGEMM_SIM_WRONG"))
		segment_values(l->work->row[0].first)[0] += 1;
	for (uint32_t r = 0; r < l->work->matrix.rows; r++)
		row_finish(l->work, r);
	free(l);
}

static cudaError_t enqueue(cudaHostFn_t run, struct launch launch)
{
	struct launch *own = malloc(sizeof *own);
	if (!own)
		return cudaErrorUnknown;
	*own = launch;
	return cudaLaunchHostFunc(NULL, run, own);
}

cudaError_t sp_kernel_warps(uint32_t *warps, uint32_t *processors)
{
	*warps = 1;
	*processors = 0;
	return cudaSuccess;
}

cudaError_t sp_kernel_upper(struct sp_work *work)
{
	return enqueue(upper, (struct launch){work, NULL, 0});
}

cudaError_t sp_kernel_count(struct sp_work *work, char *scratch, uint32_t slots, uint32_t warps)
{
	(void)warps;
	return enqueue(count, (struct launch){work, scratch, slots});
}

cudaError_t sp_kernel_rows(struct sp_work *work, uint32_t warps)
{
	(void)warps;
	return enqueue(rows, (struct launch){work, NULL, 0});
}

cudaError_t sp_kernel_persistent(struct sp_work *work, uint32_t warps)
{
	(void)warps;
	return enqueue(persistent, (struct launch){work, NULL, 0});
}

cudaError_t sp_kernel_finish(struct sp_work *work, uint32_t warps)
{
	(void)warps;
	return enqueue(finish, (struct launch){work, NULL, 0});
}
