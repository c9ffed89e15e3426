/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of barneshut, its bodies and memory on the device, and a line for each run. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/common/program.h"
#include "programs/octree/octree.h"

struct options {
	struct pr_list way;
	uint64_t bodies, levels, angle, steps, cells, heap;
};

struct result {
	uint64_t checksum, allocated;
	double error, build_ms, sum_ms, pull_ms, finish_ms;
};

struct session {
	struct options options;
	struct octree_work work; /* as it is before a run */
	struct octree_work *on_device;
	struct octree_point *at, *still;   /* of the host: before the first step */
	struct octree_point *pull, *place; /* of the host: after the last one */
	uint64_t cpu_checksum;
};

static const char *const way_names[OCTREE_WAYS] = {"bump", "malloc"};

static struct session session;

static const struct pr_option options[] = {
	{"way", 'w', PR_NAMES, "LIST", "all", &session.options.way, 0, OCTREE_WAYS, way_names,
	 "bump, malloc"},
	{"bodies", 'n', PR_NUMBER, "N", "16384", &session.options.bodies, 1, 16000000, NULL,
	 "1 to 16M"},
	{"steps", 's', PR_NUMBER, "N", "4", &session.options.steps, 1, 1000000, NULL,
	 "of time, each with a tree of its own"},
	{"angle", 0, PR_NUMBER, "N", "500", &session.options.angle, 0, 2000, NULL,
	 "opening angle, thousandths, 0 to 2000"},
	{"levels", 0, PR_NUMBER, "N", "21", &session.options.levels, 1, OCTREE_LEVELS, NULL,
	 "of cells, 1 to 21"},
	{"cells", 0, PR_NUMBER, "N", "twice the bodies", &session.options.cells, 1, 64000000, NULL,
	 "that bump has"},
	PR_HEAP(&session.options.heap, "256Mi"),
	{0}};

static void check(void)
{
	if (!session.options.cells)
		session.options.cells = 2 * session.options.bodies;
}

/* --- bodies --- */

/* From 0 to 1, without either. */
static double uniform(uint64_t *state)
{
	*state += UINT64_C(0x9e3779b97f4a7c15);
	uint64_t x = (*state ^ *state >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return ((double)((x ^ x >> 31) >> 12) + .5) / (double)(UINT64_C(1) << 52);
}

/* Plummer's sphere, whose radius is a 32nd of the cube's side, cut at 12 radii; the mean mass
 * is 1.5. Nothing moves. */
static void bodies_make(struct session *s)
{
	const double radius = OCTREE_SIDE / 32.0, centre = OCTREE_SIDE / 2.0;
	uint64_t state = 1;
	s->at = pr_host_take(s->options.bodies, sizeof *s->at);
	s->still = pr_host_take(s->options.bodies, sizeof *s->still);
	s->pull = pr_host_take(s->options.bodies, sizeof *s->pull);
	s->place = pr_host_take(s->options.bodies, sizeof *s->place);
	for (uint64_t i = 0; i < s->options.bodies; i++) {
		double r, z = 2 * uniform(&state) - 1,
			  turn = 2 * 3.14159265358979 * uniform(&state);
		do
			r = 1 / sqrt(pow(uniform(&state), -2.0 / 3) - 1);
		while (r > 12);
		double flat = r * radius * sqrt(1 - z * z);
		s->at[i].x = (float)(centre + flat * cos(turn));
		s->at[i].y = (float)(centre + flat * sin(turn));
		s->at[i].z = (float)(centre + r * radius * z);
		s->at[i].mass = (float)(1 + i % 2);
	}
	s->work.soft2 = (float)(radius * radius / 4096);
	s->work.time =
		(float)(.02 * sqrt(radius * radius * radius / (1.5 * (double)s->options.bodies)));
}

static uint64_t bits_sum(const struct octree_point *point, uint64_t points)
{
	uint64_t sum = 0;
	for (uint64_t i = 0; i < points; i++) {
		uint32_t word[3];
		memcpy(word, &point[i], sizeof word);
		for (int k = 0; k < 3; k++)
			sum = (sum ^ word[k]) * UINT64_C(0x100000001b3) + (sum >> 32);
	}
	return sum;
}

static uint64_t checksum_of(const struct octree_point *at, const struct octree_point *pull,
			    uint64_t bodies)
{
	return bits_sum(at, bodies) * 3 + bits_sum(pull, bodies);
}

static void reference(struct session *s)
{
	uint64_t n = s->options.bodies;
	struct octree_point *at = pr_host_take(n, sizeof *at),
			    *speed = pr_host_take(n, sizeof *speed);
	memcpy(at, s->at, n * sizeof *at);
	octree_reference(&s->work, (uint32_t)s->options.steps, at, speed, s->pull);
	s->cpu_checksum = checksum_of(at, s->pull, n);
	free(at);
	free(speed);
}

/* --- the device --- */

static void session_open(struct session *s)
{
	struct octree_work *w = &s->work;
	const struct options *o = &s->options;
	w->bodies = (uint32_t)o->bodies;
	w->levels = (uint32_t)o->levels;
	w->theta2 = (float)(o->angle * o->angle) / 1e6f;
	bodies_make(s);
	if (pr_asked.verify)
		reference(s);
	w->at = pr_take(o->bodies * sizeof *w->at);
	w->speed = pr_take(o->bodies * sizeof *w->speed);
	w->pull = pr_take(o->bodies * sizeof *w->pull);
	w->next = pr_take(o->bodies * sizeof *w->next);
	w->holder = pr_take(o->bodies * sizeof *w->holder);
	w->cells = pr_take(o->cells * sizeof *w->cells);
	w->cell_count = o->cells;
	s->on_device = pr_take(sizeof *w);
}

static void session_close(struct session *s)
{
	const struct octree_work *w = &s->work;
	void *blocks[] = {w->at, w->speed, w->pull, w->next, w->holder, w->cells, s->on_device};
	for (unsigned i = 0; i < sizeof blocks / sizeof *blocks; i++)
		PR_MUST(cudaFree(blocks[i]));
	free(s->at);
	free(s->still);
	free(s->pull);
	free(s->place);
}

/* Milliseconds since `begin`, with all kernels at their end. */
static double waited_ms(double begin)
{
	PR_MUST(cudaDeviceSynchronize());
	return pr_now_ms() - begin;
}

/* All cells of bump are free again. */
static void cells_reset(struct session *s)
{
	PR_MUST(cudaMemset((char *)s->on_device + offsetof(struct octree_work, used), 0,
			   sizeof s->work.used));
}

static void step_run(struct session *s, enum octree_way way, bool moves, struct result *out)
{
	struct octree_work *w = s->on_device;
	uint32_t bodies = s->work.bodies;
	if (moves)
		PR_MUST(octree_kernel_move(w, bodies));
	PR_MUST(cudaDeviceSynchronize());
	double begin = pr_now_ms();
	cells_reset(s);
	PR_MUST(octree_kernel_root(w, way));
	PR_MUST(octree_kernel_put(w, bodies, way));
	out->build_ms += waited_ms(begin);
	begin = pr_now_ms();
	PR_MUST(octree_kernel_sum(w, bodies));
	out->sum_ms += waited_ms(begin);
	begin = pr_now_ms();
	PR_MUST(octree_kernel_pull(w, bodies));
	out->pull_ms += waited_ms(begin);
	begin = pr_now_ms();
	PR_MUST(octree_kernel_free(w, bodies, way));
	out->finish_ms += waited_ms(begin);
}

static void result_read(struct session *s, struct result *out)
{
	struct octree_work after;
	struct octree_tally all = {0, 0, 0};
	uint64_t bytes = s->options.bodies * sizeof *s->at;
	PR_MUST(cudaMemcpy(&after, s->on_device, sizeof after, cudaMemcpyDeviceToHost));
	PR_MUST(cudaMemcpy(s->place, s->work.at, bytes, cudaMemcpyDeviceToHost));
	PR_MUST(cudaMemcpy(s->pull, s->work.pull, bytes, cudaMemcpyDeviceToHost));
	for (int i = 0; i < OCTREE_TALLIES; i++) {
		all.allocated += after.tally[i].allocated;
		all.freed += after.tally[i].freed;
		all.lacking += after.tally[i].lacking;
	}
	if (all.lacking)
		pr_fail(1,
			"%llu cells had no memory: bump needs more --cells, malloc natively a "
			"larger --heap",
			all.lacking);
	if (all.freed != all.allocated)
		pr_fail(1, "of %llu cells %llu were freed", all.allocated, all.freed);
	out->allocated = all.allocated;
	out->checksum = checksum_of(s->place, s->pull, s->options.bodies);
}

static void run(struct session *s, enum octree_way way, struct result *out)
{
	uint64_t bytes = s->options.bodies * sizeof *s->at;
	PR_MUST(cudaMemcpy(s->on_device, &s->work, sizeof s->work, cudaMemcpyHostToDevice));
	PR_MUST(cudaMemcpy(s->work.at, s->at, bytes, cudaMemcpyHostToDevice));
	PR_MUST(cudaMemcpy(s->work.speed, s->still, bytes, cudaMemcpyHostToDevice));
	for (uint64_t step = 0; step < s->options.steps; step++)
		step_run(s, way, step > 0, out);
	result_read(s, out);
	if (pr_asked.verify)
		out->error = octree_error(&s->work, s->place, s->pull);
}

/* What a tree without higher moments may lose, and the rounding of sums of floats. */
static double error_bound(const struct session *s)
{
	return 1e-4 + .1 * (double)s->work.theta2;
}

static unsigned report(const struct session *s, enum octree_way way, const struct result *r)
{
	bool same = r->checksum == s->cpu_checksum, near = r->error <= error_bound(s);
	char far[80];
	snprintf(far, sizeof far, "error %.3g beside all pairs, not at most %.3g", r->error,
		 error_bound(s));
	printf("barneshut way=%s bodies=%" PRIu64 " steps=%" PRIu64 " checksum=%016" PRIx64,
	       way_names[way], s->options.bodies, s->options.steps, r->checksum);
	pr_line_verified(same && near);
	if (pr_asked.verify)
		printf(" error=%.3g", r->error);
	if (!pr_asked.untimed)
		printf(" allocated=%" PRIu64 " total_ms=%.6g build_ms=%.6g sum_ms=%.6g "
		       "pull_ms=%.6g finish_ms=%.6g",
		       r->allocated, r->build_ms + r->sum_ms + r->pull_ms + r->finish_ms,
		       r->build_ms, r->sum_ms, r->pull_ms, r->finish_ms);
	return pr_line_end(same && near, "%s: %s", way_names[way],
			   same ? far : "the result differs from the CPU's");
}

static unsigned way_run(void *arg, uint64_t way)
{
	struct session *s = arg;
	struct result result = {0};
	run(s, (enum octree_way)way, &result);
	return report(s, (enum octree_way)way, &result);
}

static unsigned ways_run(void)
{
	PR_MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, session.options.heap));
	session_open(&session);
	unsigned wrong = pr_each(&session.options.way, way_run, &session);
	session_close(&session);
	return wrong;
}

const struct pr_program pr_program = {
	.name = "barneshut",
	.about = "forces between bodies by an octree that kernels make.",
	.options = options,
	.check = check,
	.run = ways_run,
};
