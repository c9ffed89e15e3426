/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of hostarrays, the life of its arrays on the device, and a line for each run. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/arrays/arrays.h"
#include "programs/common/program.h"

enum { CASE_KMEANS, CASE_SPMV, CASES };

struct options {
	struct pr_list which;
	uint64_t points, dims, clusters, rows, length, steps;
};

struct result {
	uint64_t steps, checksum;
	double total_ms, steps_ms;
};

struct session {
	struct options options;
	struct kmeans kmeans; /* of the host */
	struct spmv spmv;
	float *vector[2];
	struct result cpu[CASES];
};

static const char *const case_names[CASES] = {"kmeans", "spmv"};

static struct session session;

static const struct pr_option options[] = {
	{"case", 'c', PR_NAMES, "LIST", "all", &session.options.which, 0, CASES, case_names,
	 "kmeans, spmv"},
	{"points", 0, PR_NUMBER, "N", "262144", &session.options.points, 1, 16000000, NULL,
	 "of K-means, 1 to 16M"},
	{"dims", 0, PR_NUMBER, "N", "16", &session.options.dims, 1, 64, NULL,
	 "features of a point"},
	{"clusters", 0, PR_NUMBER, "N", "32", &session.options.clusters, 1, 256, NULL, "1 to 256"},
	{"rows", 0, PR_NUMBER, "N", "262144", &session.options.rows, 1, 16000000, NULL,
	 "of the matrix, 1 to 16M"},
	{"length", 0, PR_NUMBER, "N", "32", &session.options.length, 1, 256, NULL,
	 "of a row, average"},
	{"steps", 's', PR_NUMBER, "N", "20", &session.options.steps, 1, 1000000, NULL,
	 "of K-means at most; products"},
	{0}};

static uint64_t checksum_of(const void *block, uint64_t bytes)
{
	const unsigned char *at = block;
	uint64_t sum = bytes;
	for (uint64_t i = 0; i < bytes; i++)
		sum = (sum ^ at[i]) * UINT64_C(0x100000001b3);
	return sum;
}

/* --- arrays of the device, from those of the host --- */

static void *array_take(const void *from, uint64_t bytes)
{
	void *block = pr_take(bytes);
	PR_MUST(cudaMemcpy(block, from, bytes, cudaMemcpyHostToDevice));
	return block;
}

static void arrays_free(void *const *blocks, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		PR_MUST(cudaFree(blocks[i]));
}

/* --- K-means --- */

static void kmeans_open(struct session *s)
{
	struct kmeans *k = &s->kmeans;
	k->points = (uint32_t)s->options.points;
	k->dims = (uint32_t)s->options.dims;
	k->clusters = (uint32_t)s->options.clusters;
	k->feature = pr_host_take((uint64_t)k->points * k->dims, sizeof *k->feature);
	k->centre = pr_host_take((uint64_t)k->clusters * k->dims, sizeof *k->centre);
	k->member = pr_host_take(k->points, sizeof *k->member);
	k->sum = pr_host_take((uint64_t)k->clusters * k->dims, sizeof *k->sum);
	k->count = pr_host_take(k->clusters, sizeof *k->count);
	for (uint32_t d = 0; d < k->dims; d++)
		for (uint32_t i = 0; i < k->points; i++)
			k->feature[(uint64_t)d * k->points + i] = kmeans_feature(k, i, d);
}

static void kmeans_close(struct session *s)
{
	free(s->kmeans.feature);
	free(s->kmeans.centre);
	free(s->kmeans.member);
	free(s->kmeans.sum);
	free(s->kmeans.count);
}

/* Before the first step: sums are 0, and no point is in a cluster. */
static void kmeans_reset(struct kmeans *k)
{
	kmeans_begin(k, k->feature, k->centre);
	memset(k->member, 0xff, k->points * sizeof *k->member);
	memset(k->sum, 0, (uint64_t)k->clusters * k->dims * sizeof *k->sum);
	memset(k->count, 0, k->clusters * sizeof *k->count);
}

static uint64_t kmeans_checksum(const struct kmeans *k)
{
	return checksum_of(k->member, k->points * sizeof *k->member) * 3 +
	       checksum_of(k->centre, (uint64_t)k->clusters * k->dims);
}

static void kmeans_expect(struct session *s, struct result *out)
{
	kmeans_reset(&s->kmeans);
	out->steps = kmeans_reference(&s->kmeans, (uint32_t)s->options.steps);
	out->checksum = kmeans_checksum(&s->kmeans);
}

static uint64_t kmeans_steps(const struct kmeans *k, uint64_t most)
{
	for (uint64_t step = 1; step <= most; step++) {
		uint32_t moved;
		PR_MUST(cudaMemset(k->moved, 0, sizeof *k->moved));
		PR_MUST(kmeans_kernel_assign(k));
		PR_MUST(kmeans_kernel_centre(k));
		PR_MUST(cudaMemcpy(&moved, k->moved, sizeof moved, cudaMemcpyDeviceToHost));
		if (!moved)
			return step;
	}
	return most;
}

static void kmeans_run(struct session *s, struct result *out)
{
	struct kmeans *h = &s->kmeans, k = *h;
	uint64_t members = k.points * sizeof *k.member, centres = (uint64_t)k.clusters * k.dims;
	kmeans_reset(h);
	double begin = pr_now_ms();
	k.feature = array_take(h->feature, (uint64_t)k.points * k.dims);
	k.centre = array_take(h->centre, centres);
	k.member = array_take(h->member, members);
	k.sum = array_take(h->sum, centres * sizeof *k.sum);
	k.count = array_take(h->count, k.clusters * sizeof *k.count);
	k.moved = pr_take(sizeof *k.moved);
	PR_MUST(cudaDeviceSynchronize());
	double stepped = pr_now_ms();
	out->steps = kmeans_steps(&k, s->options.steps);
	PR_MUST(cudaDeviceSynchronize());
	out->steps_ms = pr_now_ms() - stepped;
	PR_MUST(cudaMemcpy(h->member, k.member, members, cudaMemcpyDeviceToHost));
	PR_MUST(cudaMemcpy(h->centre, k.centre, centres, cudaMemcpyDeviceToHost));
	arrays_free((void *[]){k.feature, k.centre, k.member, k.sum, k.count, k.moved}, 6);
	out->total_ms = pr_now_ms() - begin;
	out->checksum = kmeans_checksum(h);
}

/* --- sparse matrix --- */

static void spmv_reset(struct session *s)
{
	for (uint32_t i = 0; i < s->spmv.rows; i++)
		s->vector[0][i] = (float)(1 + arrays_mix(i, 6) % 1024) / 1024;
}

static void spmv_open(struct session *s)
{
	spmv_make(&s->spmv, (uint32_t)s->options.rows, (uint32_t)s->options.length);
	for (int i = 0; i < 2; i++)
		s->vector[i] = pr_host_take(s->options.rows, sizeof *s->vector[i]);
}

static void spmv_close(struct session *s)
{
	free(s->spmv.row);
	free(s->spmv.length);
	free(s->spmv.column);
	free(s->spmv.value);
	free(s->spmv.start);
	free(s->vector[0]);
	free(s->vector[1]);
}

static void spmv_expect(struct session *s, struct result *out)
{
	spmv_reset(s);
	out->steps = s->options.steps;
	spmv_reference(s->spmv.rows, (uint32_t)s->options.length, (uint32_t)out->steps,
		       s->vector[0], s->vector[1]);
	out->checksum = checksum_of(s->vector[0], s->spmv.rows * sizeof(float));
}

static void spmv_run(struct session *s, struct result *out)
{
	struct spmv *h = &s->spmv, m = *h;
	uint64_t bytes = m.rows * sizeof(float);
	spmv_reset(s);
	double begin = pr_now_ms();
	m.row = array_take(h->row, m.rows * sizeof *m.row);
	m.length = array_take(h->length, m.rows * sizeof *m.length);
	m.column = array_take(h->column, m.entries * sizeof *m.column);
	m.value = array_take(h->value, m.entries * sizeof *m.value);
	m.start = array_take(h->start, m.diagonals * sizeof *m.start);
	float *vector[2] = {array_take(s->vector[0], bytes), pr_take(bytes)};
	PR_MUST(cudaDeviceSynchronize());
	double stepped = pr_now_ms();
	for (; out->steps < s->options.steps; out->steps++)
		PR_MUST(spmv_kernel(&m, vector[out->steps % 2], vector[1 - out->steps % 2]));
	PR_MUST(cudaDeviceSynchronize());
	out->steps_ms = pr_now_ms() - stepped;
	PR_MUST(cudaMemcpy(s->vector[1], vector[out->steps % 2], bytes, cudaMemcpyDeviceToHost));
	arrays_free((void *[]){m.row, m.length, m.column, m.value, m.start, vector[0], vector[1]},
		    7);
	out->total_ms = pr_now_ms() - begin;
	out->checksum = checksum_of(s->vector[1], bytes);
}

/* --- runs --- */

static const struct {
	void (*open)(struct session *s);
	void (*expect)(struct session *s, struct result *out); /* on the CPU */
	void (*run)(struct session *s, struct result *out);
	void (*close)(struct session *s);
} cases[CASES] = {{kmeans_open, kmeans_expect, kmeans_run, kmeans_close},
		  {spmv_open, spmv_expect, spmv_run, spmv_close}};

static unsigned report(const struct session *s, unsigned which, const struct result *r)
{
	const struct result *cpu = &s->cpu[which];
	bool right = r->steps == cpu->steps && r->checksum == cpu->checksum;
	printf("hostarrays way=%s items=%" PRIu64 " steps=%" PRIu64 " checksum=%016" PRIx64,
	       case_names[which], which == CASE_KMEANS ? s->options.points : s->spmv.entries,
	       r->steps, r->checksum);
	pr_line_verified(right);
	if (!pr_asked.untimed)
		printf(" total_ms=%.6g steps_ms=%.6g", r->total_ms, r->steps_ms);
	return pr_line_end(right,
			   "%s: the result differs from the CPU's, which takes %" PRIu64 " steps",
			   case_names[which], cpu->steps);
}

static unsigned case_run(unsigned which)
{
	unsigned wrong = 0;
	cases[which].open(&session);
	if (pr_asked.verify)
		cases[which].expect(&session, &session.cpu[which]);
	for (uint64_t i = 0; i < pr_asked.repeat; i++) {
		struct result result = {0};
		cases[which].run(&session, &result);
		wrong += report(&session, which, &result);
	}
	cases[which].close(&session);
	return wrong;
}

static unsigned cases_run(void)
{
	unsigned wrong = 0;
	for (unsigned c = 0; c < session.options.which.count; c++)
		wrong += case_run((unsigned)session.options.which.value[c]);
	return wrong;
}

const struct pr_program pr_program = {
	.name = "hostarrays",
	.about = "K-means and a sparse matrix, whose arrays the host takes.",
	.options = options,
	.run = cases_run,
};
