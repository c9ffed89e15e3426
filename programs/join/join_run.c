/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables, the CPU's join, and the stages of a join on the device. */
#include <stdlib.h>
#include <string.h>

#include "programs/common/args.h"
#include "programs/join/join.h"

#define PART_BITS 12	 /* most partitions: their ends stay in the cache */
#define PART_TUPLES 8192 /* of a partition, so that its table does, too */

struct join_session {
	struct join_work work; /* as it is before a run */
	struct join_work *on_device;
	struct page_heap *heap;
	enum join_policy policy;
	uint32_t *cursor; /* of the host */
	uint64_t head_bytes;
};

/* --- tables --- */

bool join_tables_make(struct join_tables *t, uint32_t tuples)
{
	t->tuples = tuples;
	for (uint32_t side = 0; side < 2; side++) {
		t->tuple[side] = malloc(tuples * sizeof **t->tuple);
		for (uint32_t i = 0; t->tuple[side] && i < tuples; i++)
			t->tuple[side][i] = (struct join_tuple){
				(uint32_t)((join_mix(side + 1, i) >> 32) * tuples >> 32), i};
	}
	return t->tuple[0] && t->tuple[1];
}

void join_tables_free(struct join_tables *t)
{
	free(t->tuple[0]);
	free(t->tuple[1]);
}

/* Keys are below the number of tuples: a list a key, without a hash. */
bool join_reference(const struct join_tables *t, uint64_t *matches, uint64_t *checksum)
{
	uint32_t *head = calloc(t->tuples, sizeof *head);
	uint32_t *next = malloc(t->tuples * sizeof *next);
	*matches = *checksum = 0;
	for (uint32_t i = 0; head && next && i < t->tuples; i++) {
		uint32_t key = t->tuple[0][i].key;
		next[i] = head[key];
		head[key] = i + 1;
	}
	for (uint32_t i = 0; head && next && i < t->tuples; i++)
		for (uint32_t at = head[t->tuple[1][i].key]; at; at = next[at - 1]) {
			++*matches;
			*checksum += join_mix(t->tuple[0][at - 1].payload, t->tuple[1][i].payload);
		}
	bool done = head && next;
	free(head);
	free(next);
	return done;
}

/* --- the device --- */

static uint32_t bits_of(uint64_t items)
{
	uint32_t bits = 0;
	while (bits < 31 && (UINT64_C(1) << bits) < items)
		bits++;
	return bits;
}

struct join_session *join_open(const struct join_tables *t, uint32_t probes, uint64_t pages,
			       enum join_policy policy)
{
	struct join_session *s = calloc(1, sizeof *s);
	struct join_work *w = s ? &s->work : NULL;
	if (!s)
		pr_fail(1, "no memory of the host");
	w->tuples = t->tuples;
	w->threads = (t->tuples + probes - 1) / probes;
	w->bucket_bits = bits_of(t->tuples);
	w->part_bits = bits_of(t->tuples / PART_TUPLES);
	w->part_bits = w->part_bits < PART_BITS ? w->part_bits : PART_BITS;
	s->policy = policy;
	s->head_bytes = sizeof *w->head << w->bucket_bits;
	s->cursor = malloc(sizeof *s->cursor << w->part_bits);
	uint64_t bytes = t->tuples * sizeof **t->tuple;
	for (int side = 0; side < 2; side++) {
		w->side[side].tuple = pr_take(bytes);
		w->side[side].parted = pr_take(bytes);
		w->side[side].cursor = pr_take(sizeof *s->cursor << w->part_bits);
		PR_MUST(cudaMemcpy(w->side[side].tuple, t->tuple[side], bytes,
				   cudaMemcpyHostToDevice));
	}
	w->head = pr_take(s->head_bytes);
	w->next = pr_take(t->tuples * sizeof *w->next);
	w->first = pr_take(w->threads * sizeof *w->first);
	s->on_device = pr_take(sizeof *w);
	s->heap = join_heap_open(policy, pages);
	w->heap = join_heap_device(s->heap);
	w->page_count = pages;
	w->pages = policy == JOIN_DIRECT ? pr_take(pages * JOIN_PAGE) : NULL;
	return s;
}

void join_close(struct join_session *s)
{
	struct join_work *w = &s->work;
	for (int side = 0; side < 2; side++) {
		PR_MUST(cudaFree(w->side[side].tuple));
		PR_MUST(cudaFree(w->side[side].parted));
		PR_MUST(cudaFree(w->side[side].cursor));
	}
	PR_MUST(cudaFree(w->head));
	PR_MUST(cudaFree(w->next));
	PR_MUST(cudaFree(w->first));
	PR_MUST(cudaFree(w->pages));
	PR_MUST(cudaFree(s->on_device));
	join_heap_close(s->heap);
	free(s->cursor);
	free(s);
}

/* --- stages: each returns its ms --- */

static double partition(struct join_session *s)
{
	double begin = pr_now_ms();
	uint64_t bytes = sizeof *s->cursor << s->work.part_bits;
	for (int side = 0; side < 2; side++) {
		uint32_t *cursor = s->work.side[side].cursor, sum = 0;
		PR_MUST(cudaMemset(cursor, 0, bytes));
		PR_MUST(join_kernel_count(s->on_device, s->work.tuples, side));
		PR_MUST(cudaMemcpy(s->cursor, cursor, bytes, cudaMemcpyDeviceToHost));
		for (uint32_t p = 0; p >> s->work.part_bits == 0; p++) {
			uint32_t has = s->cursor[p];
			s->cursor[p] = sum;
			sum += has;
		}
		PR_MUST(cudaMemcpy(cursor, s->cursor, bytes, cudaMemcpyHostToDevice));
		PR_MUST(join_kernel_scatter(s->on_device, s->work.tuples, side));
	}
	PR_MUST(cudaDeviceSynchronize());
	return pr_now_ms() - begin;
}

static double build(struct join_session *s)
{
	double begin = pr_now_ms();
	PR_MUST(cudaMemset(s->work.head, 0, s->head_bytes));
	PR_MUST(join_kernel_build(s->on_device, s->work.tuples));
	PR_MUST(cudaDeviceSynchronize());
	return pr_now_ms() - begin;
}

static double probe(struct join_session *s)
{
	double begin = pr_now_ms();
	PR_MUST(join_kernel_probe(s->on_device, s->work.threads, s->policy));
	PR_MUST(cudaDeviceSynchronize());
	return pr_now_ms() - begin;
}

static double finish(struct join_session *s)
{
	double begin = pr_now_ms();
	PR_MUST(join_kernel_finish(s->on_device, s->work.threads, s->policy));
	PR_MUST(cudaDeviceSynchronize());
	return pr_now_ms() - begin;
}

void join_run(struct join_session *s, struct join_result *out)
{
	struct join_work after;
	PR_MUST(cudaMemcpy(s->on_device, &s->work, sizeof s->work, cudaMemcpyHostToDevice));
	out->partition_ms = partition(s);
	out->build_ms = build(s);
	out->probe_ms = probe(s);
	out->finish_ms = finish(s);
	PR_MUST(cudaMemcpy(&after, s->on_device, sizeof after, cudaMemcpyDeviceToHost));
	if (after.lacking)
		pr_fail(1, "%llu pairs found no page: more --pages, or natively a larger --heap",
			(unsigned long long)after.lacking);
	out->matches = after.matches;
	out->checksum = after.checksum;
	out->held = after.held;
}
