/* SPDX-License-Identifier: BSD-3-Clause */
/* A plan on the device: copies and kernels in streams, and events where their kind changes. */
#include <stdlib.h>

#include "ooc.h"

/* From here on the stream does that kind of work; OOC_KINDS: nothing. */
struct mark {
	cudaEvent_t event;
	unsigned stream, kind;
};

struct run {
	const struct ooc_program *program;
	const struct ooc_plan *plan;
	float *const *host;
	float *device[2];
	cudaStream_t streams[OOC_STREAMS_MAX]; /* in-core: the default stream */
	unsigned doing[OOC_STREAMS_MAX];       /* the kind of its last mark */
	struct mark *marks;
	uint64_t marked, room;
	struct ooc_result *out;
};

static bool is_in_core(const struct run *run)
{
	return run->plan->problem.mode == OOC_IN_CORE;
}

/* --- marks --- */

static void mark_add(struct run *run, unsigned stream, unsigned kind)
{
	if (run->doing[stream] == kind)
		return;
	if (run->marked == run->room)
		pr_fail(1, "more changes of work than the plan has");
	struct mark *mark = &run->marks[run->marked++];
	PR_MUST(cudaEventRecord(mark->event, run->streams[stream]));
	mark->stream = stream;
	mark->kind = run->doing[stream] = kind;
}

/* A copy in, steps, a copy out for each tile, and nothing at the end of each sweep. */
static void marks_create(struct run *run)
{
	run->room = 3 * run->plan->tiles + run->plan->sweeps * run->plan->streams;
	run->marks = calloc(run->room, sizeof *run->marks);
	if (!run->marks)
		pr_fail(1, "no memory on the host for events");
	for (uint64_t i = 0; i < run->room; i++)
		PR_MUST(cudaEventCreate(&run->marks[i].event));
}

/* The time between two marks of a stream is that of the first one's work. */
static void marks_sum(struct run *run)
{
	const struct mark *last[OOC_STREAMS_MAX] = {NULL};
	for (uint64_t i = 0; i < run->marked; i++) {
		const struct mark *mark = &run->marks[i], *before = last[mark->stream];
		if (before && before->kind < OOC_KINDS) {
			float ms;
			PR_MUST(cudaEventElapsedTime(&ms, before->event, mark->event));
			run->out->kind_ms[before->kind] += (double)ms;
		}
		last[mark->stream] = mark;
	}
	for (uint64_t i = 0; i < run->room; i++)
		PR_MUST(cudaEventDestroy(run->marks[i].event));
	free(run->marks);
}

/* --- operations --- */

static cudaError_t copy(const struct run *run, const struct ooc_op *op)
{
	float *device = run->device[op->array] + op->device,
	      *host = run->host[op->array] + op->host;
	bool in = op->kind == OOC_TO_DEVICE;
	enum cudaMemcpyKind kind = in ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
	void *to = in ? device : host;
	const void *from = in ? host : device;
	size_t bytes = op->count * sizeof(float);
	return is_in_core(run) ? cudaMemcpy(to, from, bytes, kind)
			       : cudaMemcpyAsync(to, from, bytes, kind, run->streams[op->stream]);
}

static void on_op(void *arg, const struct ooc_op *op)
{
	struct run *run = arg;
	mark_add(run, op->stream, op->kind);
	if (op->kind == OOC_STEP) {
		PR_MUST(run->program->step(run->device, op->array, op->device,
					   op->device + op->count, run->streams[op->stream]));
		return;
	}
	PR_MUST(copy(run, op));
	run->out->kind_bytes[op->kind] += op->count * sizeof(float);
}

static void on_barrier(void *arg)
{
	struct run *run = arg;
	for (unsigned s = 0; s < run->plan->streams; s++)
		mark_add(run, s, OOC_KINDS);
	PR_MUST(cudaDeviceSynchronize());
}

/* --- the run --- */

static void device_alloc(struct run *run)
{
	size_t bytes = run->plan->device_cells * sizeof(float);
	for (int array = 0; array < 2; array++) {
		cudaError_t error = cudaMalloc((void **)&run->device[array], bytes);
		if (error == cudaErrorMemoryAllocation)
			pr_fail(1,
				"%s: two arrays of %zu bytes do not fit into the memory of the "
				"device: use --mode=out-of-core, or a smaller --room",
				ooc_mode_names[run->plan->problem.mode], bytes);
		PR_MUST(error);
	}
}

void ooc_run(const struct ooc_program *program, const struct ooc_plan *plan, float *const host[2],
	     struct ooc_result *out)
{
	struct run run = {.program = program, .plan = plan, .host = host, .out = out};
	*out = (struct ooc_result){0};
	device_alloc(&run);
	for (unsigned s = 0; s < plan->streams; s++) {
		run.doing[s] = OOC_KINDS;
		if (!is_in_core(&run))
			PR_MUST(cudaStreamCreate(&run.streams[s]));
	}
	marks_create(&run);
	PR_MUST(cudaDeviceSynchronize());
	double begin = pr_now_ms();
	ooc_plan_issue(plan, &(struct ooc_issuer){on_op, on_barrier, &run});
	out->total_ms = pr_now_ms() - begin;
	marks_sum(&run);
	for (unsigned s = 0; s < plan->streams && !is_in_core(&run); s++)
		PR_MUST(cudaStreamDestroy(run.streams[s]));
	PR_MUST(cudaFree(run.device[0]));
	PR_MUST(cudaFree(run.device[1]));
}
