/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Graphs that kernels launch. A launch of a graph for such launches ends with three steps without
 * work, and what its kernels launch is inserted before one of them:
 *
 *     nodes | fired | tails | siblings | later work of the stream
 *           F       T       S
 *
 * So the order of the stream covers all of it, as on the GPU. Fired work may run beside the nodes
 * there; here it follows them. A graph that a kernel launches has F and T of its own; its siblings
 * are inserted where it was, for they belong to the launch around it.
 */
#include <stdlib.h>

#include "sim/internal.h"

struct sim_launched {
	unsigned refs; /* one a step */
	struct sim_stream *stream;
	struct sim_step *fired, *tails, *siblings; /* F, T and S, while a node is in the queue */
};

void sim_launched_release(struct sim_launched *launched)
{
	if (launched && --launched->refs == 0)
		free(launched);
}

/* One more step of the launch: before `next`, or the last of its stream. */
static struct sim_step *launched_add(struct sim_launched *launched, struct sim_step *next,
				     struct sim_work *work)
{
	struct sim_step *step = next ? sim_step_insert(launched->stream, next, work)
				     : sim_step_append(launched->stream, work);
	if (!step)
		abort(); /* half a graph would be wrong, too */
	if (work)
		work->refs++;
	step->launched = launched;
	launched->refs++;
	return step;
}

/* NULL as `next`: a launch by the host. */
static CUresult launched_make(struct sim_exec *exec, struct sim_stream *stream,
			      struct sim_step *next)
{
	struct sim_launched *launched = calloc(1, sizeof *launched);
	if (!launched)
		return CUDA_ERROR_OUT_OF_MEMORY;
	launched->stream = stream;
	for (size_t i = 0; i < exec->steps.n; i++)
		launched_add(launched, next, exec->steps.at[i]);
	launched->fired = launched_add(launched, next, NULL);
	launched->tails = launched_add(launched, next, NULL);
	launched->siblings = next ? next : launched_add(launched, NULL, NULL);
	return CUDA_SUCCESS;
}

CUresult sim_launched_begin(struct sim_exec *exec, struct sim_stream *stream)
{
	CUresult result = sim_capture_implicit(stream);
	if (result == CUDA_SUCCESS)
		result = launched_make(exec, stream, NULL);
	if (result != CUDA_SUCCESS)
		return result;
	exec->uploaded = true;
	sim_streams_run();
	return CUDA_SUCCESS;
}

CUresult gm_sim_launch_from_kernel(CUgraphExec handle, enum gm_sim_from_kernel how)
{
	struct sim_exec *exec;
	sim_lock_driver();
	const struct sim_launched *from = sim_me.launched;
	CUresult result = sim_exec_of(handle, &exec);
	if (result == CUDA_SUCCESS && (!from || !exec->on_device || !exec->uploaded))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = launched_make(exec, from->stream,
				       how == GM_SIM_FIRE_AND_FORGET ? from->fired
				       : how == GM_SIM_TAIL	     ? from->tails
								     : from->siblings);
	sim_unlock_driver();
	return result;
}
