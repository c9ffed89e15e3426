/* SPDX-License-Identifier: BSD-3-Clause */
/* Every combination of the options' lists: planned before anything is allocated, then run. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ooc.h"

static struct options {
	uint64_t elements, room; /* bytes; 0: 95% of what is free */
	struct pr_list modes, steps, streams;
	uint64_t pinned;
} asked;

const char *const ooc_mode_names[] = {"in-core", "streamed", "out-of-core"};
static const char *const host_names[] = {"pageable", "pinned"};

const struct pr_option ooc_options[] = {
	{"elements", 'n', PR_NUMBER, "N", "16M", &asked.elements, 1, OOC_ELEMENTS_MAX, NULL,
	 "elements of each of the two arrays of floats"},
	{"steps", 't', PR_NUMBERS, "LIST", "1", &asked.steps, 0, OOC_STEPS_MAX, NULL, "steps"},
	{"mode", 'm', PR_NAMES, "LIST", "all", &asked.modes, 0, 3, ooc_mode_names,
	 "in-core, streamed, out-of-core"},
	{"streams", 's', PR_NUMBERS, "LIST", "8", &asked.streams, 1, OOC_STREAMS_MAX, NULL,
	 "streams; in-core uses none"},
	{"room", 0, PR_NUMBER, "BYTES", "95% of what is free", &asked.room, 2 * sizeof(float),
	 UINT64_MAX, NULL, "device memory that out-of-core uses"},
	{"host", 0, PR_NAME, "KIND", "pageable", &asked.pinned, 0, 2, host_names,
	 "memory of the host: pageable, pinned"},
	{0}};

struct session {
	uint64_t room; /* elements of each array */
	float *host[2];
	unsigned wrong; /* runs whose result differs */
};

/* --- memory of the host --- */

static void host_check(void)
{
	uint64_t arrays = 2 + (pr_asked.verify ? ooc_program.reference_arrays : 0);
	uint64_t bytes = arrays * asked.elements * sizeof(float);
	long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
	if (pages > 0 && page > 0 && bytes / (uint64_t)page >= (uint64_t)pages)
		pr_fail(2,
			"%" PRIu64 " elements: %" PRIu64
			" bytes are more than the memory of the host",
			asked.elements, bytes);
}

static void host_alloc(struct session *s)
{
	size_t bytes = asked.elements * sizeof(float);
	for (int array = 0; array < 2; array++) {
		void *memory = NULL;
		cudaError_t error = asked.pinned ? cudaMallocHost(&memory, bytes) : cudaSuccess;
		if (!asked.pinned)
			memory = malloc(bytes);
		if (error != cudaSuccess || !memory)
			pr_fail(1, "no %zu bytes of %s memory on the host%s%s", bytes,
				asked.pinned ? "pinned" : "pageable", error ? ": " : "",
				error ? cudaGetErrorString(error) : "");
		s->host[array] = memory;
	}
}

static void host_free(struct session *s)
{
	for (int array = 0; array < 2; array++)
		if (asked.pinned)
			PR_MUST(cudaFreeHost(s->host[array]));
		else
			free(s->host[array]);
}

/* --- runs --- */

/* Cells at both ends never change: a stencil finds them in both arrays. A map has no use for that.
 */
static void start(const struct session *s, bool stencil)
{
	uint64_t last = asked.elements - 1;
	ooc_fill(s->host, asked.elements);
	if (stencil) {
		s->host[1][0] = s->host[0][0];
		s->host[1][last] = s->host[0][last];
	}
}

static void report_times(const struct ooc_plan *plan, const struct ooc_result *result)
{
	const double *ms = result->kind_ms;
	double seconds = result->total_ms / 1e3;
	double cells = (double)plan->problem.elements * (double)plan->problem.steps;
	double copied =
		(double)result->kind_bytes[OOC_TO_DEVICE] + (double)result->kind_bytes[OOC_TO_HOST];
	printf(" total_ms=%.6g to_device_ms=%.6g kernel_ms=%.6g to_host_ms=%.6g", result->total_ms,
	       ms[OOC_TO_DEVICE], ms[OOC_STEP], ms[OOC_TO_HOST]);
	printf(" link_gbs=%.5g gbs=%.5g gflops=%.5g", copied / seconds / 1e9,
	       cells * ooc_program.words * sizeof(float) / seconds / 1e9,
	       cells * ooc_program.flops / seconds / 1e9);
}

static void report(struct session *s, const struct ooc_plan *plan, const struct ooc_result *result)
{
	const struct ooc_problem *p = &plan->problem;
	const float *cells = s->host[plan->result];
	printf("%s mode=%s host=%s elements=%" PRIu64 " steps=%" PRIu64 " streams=%" PRIu64,
	       pr_program.name, ooc_mode_names[p->mode], asked.pinned ? "pinned" : "pageable",
	       p->elements, p->steps, p->mode == OOC_IN_CORE ? 0 : plan->streams);
	printf(" rounds=%" PRIu64 " sweeps=%u tiles=%" PRIu64 " device_bytes=%" PRIu64,
	       plan->rounds, plan->sweeps, plan->tiles,
	       2 * plan->device_cells * (uint64_t)sizeof(float));
	printf(" to_device_bytes=%" PRIu64 " to_host_bytes=%" PRIu64 " checksum=%016" PRIx64,
	       result->kind_bytes[OOC_TO_DEVICE], result->kind_bytes[OOC_TO_HOST],
	       ooc_checksum(cells, p->elements));
	uint64_t differing =
		pr_asked.verify ? ooc_program.differing(cells, p->elements, p->steps) : 0;
	pr_line_verified(!differing);
	if (!pr_asked.untimed)
		report_times(plan, result);
	s->wrong +=
		pr_line_end(!differing, "%" PRIu64 " of %" PRIu64 " elements differ from the CPU's",
			    differing, p->elements);
}

static void run(struct session *s, const struct ooc_plan *plan)
{
	struct ooc_result result;
	for (uint64_t i = 0; i < pr_asked.repeat; i++) {
		start(s, plan->stencil);
		ooc_run(&ooc_program, plan, s->host, &result);
		report(s, plan, &result);
	}
}

/* do_plan for every combination. In-core has no streams, so it comes once for each number of steps.
 */
static void each_plan(struct session *s, void (*do_plan)(struct session *, const struct ooc_plan *))
{
	const struct options *o = &asked;
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
				if (!ooc_program.plan(&plan, &problem, why))
					pr_fail(2, "%s: %s", ooc_mode_names[problem.mode], why);
				do_plan(s, &plan);
			}
}

static void only_plan(struct session *s, const struct ooc_plan *plan)
{
	(void)s;
	(void)plan;
}

/* What out-of-core may use: two arrays of so many elements. */
static uint64_t room_find(void)
{
	size_t room = asked.room, total;
	if (!room) {
		PR_MUST(cudaMemGetInfo(&room, &total));
		room = room / 100 * 95;
	}
	return room / sizeof(float) / 2;
}

unsigned ooc_runs(void)
{
	struct session s = {0};
	host_check();
	s.room = room_find();
	each_plan(&s, only_plan);
	host_alloc(&s);
	each_plan(&s, run);
	host_free(&s);
	return s.wrong;
}
