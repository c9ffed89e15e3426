/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of expressions, its memory on the device and the CPU's results, and a line for each run.
 */
#include <inttypes.h>
#include <stdio.h>

#include "programs/common/program.h"
#include "programs/objects/objects.h"

/* Of a thread: expressions are nested, and so are calls. */
enum { STACK_BYTES = 4096, DEPTH_MOST = 8 };

struct options {
	struct pr_list way;
	uint64_t trees, depth, x, space, heap;
};

struct result {
	struct objects_work after;
	uint64_t made, deleted;
	double ms[OBJECTS_STAGES], total_ms;
};

/* A value, and its derivative. */
struct pair {
	uint32_t value, slope;
};

struct session {
	struct options options;
	struct objects_work work; /* as it is before a run */
	struct objects_work *on_device;
	uint64_t value, slope; /* digests of the CPU's */
};

static const char *const way_names[OBJECTS_WAYS] = {"bump", "new"};

static struct session session;

static const struct pr_option options[] = {
	{"way", 'w', PR_NAMES, "LIST", "all", &session.options.way, 0, OBJECTS_WAYS, way_names,
	 "bump, new"},
	{"trees", 'n', PR_NUMBER, "N", "16384", &session.options.trees, 1, 16000000, NULL,
	 "expressions, one a thread, 1 to 16M"},
	{"depth", 0, PR_NUMBER, "N", "4", &session.options.depth, 0, DEPTH_MOST, NULL,
	 "of an expression at most, 0 to 8"},
	{"x", 'x', PR_NUMBER, "N", "3", &session.options.x, 0, UINT32_MAX, NULL,
	 "where they have values"},
	{"space", 0, PR_NUMBER, "BYTES", "8 KiB a tree", &session.options.space, 1, UINT64_MAX,
	 NULL, "that bump has"},
	PR_HEAP(&session.options.heap, "1Gi"),
	{0}};

static void check(void)
{
	if (!session.options.space)
		session.options.space = session.options.trees << 13;
}

/* Without objects: by the rules for sums and products. */
static struct pair reference(uint64_t seed, uint32_t depth, uint32_t x)
{
	enum objects_kind kind = objects_kind(seed, depth);
	if (kind == OBJECTS_NUMBER)
		return (struct pair){objects_number(seed), 0};
	if (kind == OBJECTS_X)
		return (struct pair){x, 1};
	struct pair all = reference(objects_operand(seed, 0), depth - 1, x);
	uint32_t operands = kind == OBJECTS_SUM ? objects_operands(seed) : 2;
	for (uint32_t k = 1; k < operands; k++) {
		struct pair one = reference(objects_operand(seed, k), depth - 1, x);
		if (kind == OBJECTS_SUM)
			all = (struct pair){all.value + one.value, all.slope + one.slope};
		else
			all = (struct pair){all.value * one.value,
					    all.slope * one.value + all.value * one.slope};
	}
	return all;
}

static void session_open(struct session *s)
{
	struct objects_work *w = &s->work;
	const struct options *o = &s->options;
	w->trees = (uint32_t)o->trees;
	w->depth = (uint32_t)o->depth;
	w->x = (uint32_t)o->x;
	for (uint32_t i = 0; pr_asked.verify && i < w->trees; i++) {
		struct pair pair = reference(objects_mix(i, 0), w->depth, w->x);
		s->value += objects_mix(pair.value, i);
		s->slope += objects_mix(pair.slope, i);
	}
	w->tree = pr_take(o->trees * sizeof *w->tree);
	w->slope = pr_take(o->trees * sizeof *w->slope);
	w->space_bytes = o->space;
	w->space = pr_take(o->space);
	s->on_device = pr_take(sizeof *w);
}

static void session_close(struct session *s)
{
	PR_MUST(cudaFree(s->work.tree));
	PR_MUST(cudaFree(s->work.slope));
	PR_MUST(cudaFree(s->work.space));
	PR_MUST(cudaFree(s->on_device));
}

static void run(struct session *s, enum objects_way way, struct result *out)
{
	PR_MUST(cudaMemcpy(s->on_device, &s->work, sizeof s->work, cudaMemcpyHostToDevice));
	PR_MUST(cudaMemset(s->work.slope, 0, s->options.trees * sizeof *s->work.slope));
	for (int stage = 0; stage < OBJECTS_STAGES; stage++) {
		double begin = pr_now_ms();
		PR_MUST(objects_kernel(s->on_device, s->work.trees, (enum objects_stage)stage,
				       way));
		PR_MUST(cudaDeviceSynchronize());
		out->ms[stage] = pr_now_ms() - begin;
		out->total_ms += out->ms[stage];
	}
	PR_MUST(cudaMemcpy(&out->after, s->on_device, sizeof out->after, cudaMemcpyDeviceToHost));
	for (int i = 0; i < OBJECTS_TALLIES; i++) {
		out->made += out->after.made[i];
		out->deleted += out->after.deleted[i];
	}
}

/* What differs; NULL: nothing. */
static const char *difference(const struct session *s, const struct result *r)
{
	if (r->after.value != s->value)
		return "the values differ from the CPU's";
	if (r->after.slope_value != s->slope)
		return "the derivatives differ from the CPU's";
	if (r->made != r->deleted)
		return "not every object was deleted";
	return NULL;
}

static unsigned report(const struct session *s, enum objects_way way, const struct result *r)
{
	const char *wrong = difference(s, r);
	printf("expressions way=%s trees=%" PRIu64 " objects=%" PRIu64 " checksum=%016llx",
	       way_names[way], s->options.trees, r->made,
	       r->after.value * 3 + r->after.slope_value);
	pr_line_verified(!wrong);
	if (!pr_asked.untimed)
		printf(" total_ms=%.6g make_ms=%.6g value_ms=%.6g derive_ms=%.6g simplify_ms=%.6g "
		       "slope_ms=%.6g delete_ms=%.6g",
		       r->total_ms, r->ms[OBJECTS_MAKE], r->ms[OBJECTS_VALUE],
		       r->ms[OBJECTS_DERIVE], r->ms[OBJECTS_SIMPLIFY], r->ms[OBJECTS_SLOPE],
		       r->ms[OBJECTS_DROP]);
	return pr_line_end(!wrong, "%s: %s", way_names[way], wrong);
}

static unsigned way_run(void *arg, uint64_t way)
{
	struct session *s = arg;
	struct result result = {0};
	run(s, (enum objects_way)way, &result);
	return report(s, (enum objects_way)way, &result);
}

static unsigned ways_run(void)
{
	PR_MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, session.options.heap));
	PR_MUST(cudaDeviceSetLimit(cudaLimitStackSize, STACK_BYTES));
	session_open(&session);
	unsigned wrong = pr_each(&session.options.way, way_run, &session);
	session_close(&session);
	return wrong;
}

const struct pr_program pr_program = {
	.name = "expressions",
	.about = "expressions of objects that kernels make by new, or of one block.",
	.options = options,
	.check = check,
	.run = ways_run,
};
