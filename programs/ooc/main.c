/* SPDX-License-Identifier: BSD-3-Clause */
/* Every combination of the options' lists: planned before anything is allocated, then run. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ooc.h"

struct session {
	const struct ooc_program *program;
	struct ooc_options options;
	uint64_t room; /* elements of each array */
	float *host[2];
	uint64_t wrong; /* runs whose result differs */
};

/* --- memory of the host --- */

static void host_check(const struct session *s)
{
	uint64_t arrays = 2 + (s->options.verify ? s->program->reference_arrays : 0);
	uint64_t bytes = arrays * s->options.elements * sizeof(float);
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	if (pages > 0 && page > 0 && bytes / (uint64_t)page >= (uint64_t)pages)
		ooc_fail(OOC_USAGE,
			 "%" PRIu64 " elements: %" PRIu64
			 " bytes are more than the memory of the host",
			 s->options.elements, bytes);
}

static void host_alloc(struct session *s)
{
	size_t bytes = s->options.elements * sizeof(float);
	for (int array = 0; array < 2; array++) {
		void *memory = NULL;
		cudaError_t error =
			s->options.pinned ? cudaMallocHost(&memory, bytes) : cudaSuccess;
		if (!s->options.pinned)
			memory = malloc(bytes);
		if (error != cudaSuccess || !memory)
			ooc_fail(OOC_FAILED, "no %zu bytes of %s memory on the host%s%s", bytes,
				 s->options.pinned ? "pinned" : "pageable", error ? ": " : "",
				 error ? cudaGetErrorString(error) : "");
		s->host[array] = memory;
	}
}

static void host_free(struct session *s)
{
	for (int array = 0; array < 2; array++)
		if (s->options.pinned)
			OOC_MUST(cudaFreeHost(s->host[array]));
		else
			free(s->host[array]);
}

/* --- runs --- */

/* Cells at both ends never change: a stencil finds them in both arrays. A map has no use for that.
 */
static void start(const struct session *s, bool stencil)
{
	uint64_t last = s->options.elements - 1;
	ooc_fill(s->host, s->options.elements);
	if (stencil) {
		s->host[1][0] = s->host[0][0];
		s->host[1][last] = s->host[0][last];
	}
}

static void report_times(const struct session *s, const struct ooc_plan *plan,
			 const struct ooc_result *result)
{
	const double *ms = result->kind_ms;
	double seconds = result->total_ms / 1e3;
	double cells = (double)plan->problem.elements * (double)plan->problem.steps;
	double copied =
		(double)result->kind_bytes[OOC_TO_DEVICE] + (double)result->kind_bytes[OOC_TO_HOST];
	printf(" total_ms=%.6g to_device_ms=%.6g kernel_ms=%.6g to_host_ms=%.6g", result->total_ms,
	       ms[OOC_TO_DEVICE], ms[OOC_STEP], ms[OOC_TO_HOST]);
	printf(" link_gbs=%.5g gbs=%.5g gflops=%.5g", copied / seconds / 1e9,
	       cells * s->program->words * sizeof(float) / seconds / 1e9,
	       cells * s->program->flops / seconds / 1e9);
}

static void report(struct session *s, const struct ooc_plan *plan, const struct ooc_result *result)
{
	const struct ooc_problem *p = &plan->problem;
	const float *cells = s->host[plan->result];
	printf("%s mode=%s host=%s elements=%" PRIu64 " steps=%" PRIu64 " streams=%" PRIu64,
	       s->program->name, ooc_mode_names[p->mode], s->options.pinned ? "pinned" : "pageable",
	       p->elements, p->steps, p->mode == OOC_IN_CORE ? 0 : plan->streams);
	printf(" rounds=%" PRIu64 " sweeps=%u tiles=%" PRIu64 " device_bytes=%" PRIu64,
	       plan->rounds, plan->sweeps, plan->tiles,
	       2 * plan->device_cells * (uint64_t)sizeof(float));
	printf(" to_device_bytes=%" PRIu64 " to_host_bytes=%" PRIu64 " checksum=%016" PRIx64,
	       result->kind_bytes[OOC_TO_DEVICE], result->kind_bytes[OOC_TO_HOST],
	       ooc_checksum(cells, p->elements));
	uint64_t differing = 0;
	if (s->options.verify) {
		differing = s->program->differing(cells, p->elements, p->steps);
		printf(" verified=%s", differing ? "no" : "yes");
	}
	if (!s->options.untimed)
		report_times(s, plan, result);
	putchar('\n');
	fflush(stdout);
	s->wrong += differing != 0;
	if (differing)
		fprintf(stderr, "%s: %" PRIu64 " of %" PRIu64 " elements differ from the CPU's\n",
			s->program->name, differing, p->elements);
}

static void run(struct session *s, const struct ooc_plan *plan)
{
	struct ooc_result result;
	for (uint64_t i = 0; i < s->options.repeat; i++) {
		start(s, plan->stencil);
		ooc_run(s->program, plan, s->host, &result);
		report(s, plan, &result);
	}
}

/* do_plan for every combination. In-core has no streams, so it comes once for each number of steps.
 */
static void each_plan(struct session *s, void (*do_plan)(struct session *, const struct ooc_plan *))
{
	const struct ooc_options *o = &s->options;
	for (unsigned t = 0; t < o->steps.count; t++)
		for (unsigned m = 0; m < o->modes.count; m++)
			for (unsigned k = 0; k < o->streams.count; k++) {
				struct ooc_problem problem = {
					.mode = (enum ooc_mode)o->modes.value[m],
					.elements = o->elements,
					.steps = o->steps.value[t],
					.streams = o->streams.value[k],
					.room = s->room};
				struct ooc_plan plan;
				char why[OOC_WHY];
				if (k > 0 && problem.mode == OOC_IN_CORE)
					continue;
				if (!s->program->plan(&plan, &problem, why))
					ooc_fail(OOC_USAGE, "%s: %s", ooc_mode_names[problem.mode],
						 why);
				do_plan(s, &plan);
			}
}

static void only_plan(struct session *s, const struct ooc_plan *plan)
{
	(void)s;
	(void)plan;
}

/* What out-of-core may use: two arrays of so many elements. */
static uint64_t room_find(const struct ooc_options *options)
{
	size_t room = options->room, total;
	if (!room) {
		OOC_MUST(cudaMemGetInfo(&room, &total));
		room = room / 100 * 95;
	}
	return room / sizeof(float) / 2;
}

int ooc_main(const struct ooc_program *program, int argc, char **argv)
{
	struct session s = {.program = program};
	ooc_options_read(program, argc, argv, &s.options);
	host_check(&s);
	s.room = room_find(&s.options);
	each_plan(&s, only_plan);
	host_alloc(&s);
	each_plan(&s, run);
	host_free(&s);
	return s.wrong ? OOC_FAILED : OOC_DONE;
}
