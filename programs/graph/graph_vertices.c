/* SPDX-License-Identifier: BSD-3-Clause */
/* Batches of vertices: what the host asks for. */
#include <stdlib.h>

#include "programs/graph/graph_session.h"

/* The batch, as entries that remember their place. */
static void batch_put(struct graph_session *s, const uint32_t *value, uint32_t count)
{
	struct graph_edge *entry = pr_host_take(count, sizeof *entry);
	if (count > s->plan.names)
		pr_fail(1, "%s: %u vertices in a batch, and there is room for %u",
			graph_way_name(s->plan.way), count, s->plan.names);
	for (uint32_t i = 0; i < count; i++)
		entry[i] = (struct graph_edge){i, value[i]};
	PR_MUST(cudaMemcpy(s->batch, entry, count * sizeof *entry, cudaMemcpyHostToDevice));
	free(entry);
	WORK_SET(s, edge, s->sorted);
	WORK_SET(s, edges, count);
	PR_MUST(cudaDeviceSynchronize());
}

static void batch_sort(struct graph_session *s, uint32_t count)
{
	PR_MUST(graph_sort(s->batch, s->sorted, count, 32, s->scratch, s->scratch_bytes));
}

/* The rank of each entry among those that count. */
static void batch_rank(struct graph_session *s, uint32_t count)
{
	PR_MUST(graph_scan(s->work.count, s->work.offset, count + 1, s->scratch, s->scratch_bytes));
}

static uint32_t changed_read(struct graph_session *s)
{
	struct graph_work now;
	struct graph_sums sum;
	graph_session_read(s, &now, &sum);
	if (now.vertices > now.vertex_most)
		pr_fail(1, "%s: %u vertices are needed, and there is room for %u",
			graph_way_name(s->plan.way), now.vertices, now.vertex_most);
	s->work.vertices = now.vertices;
	return now.changed;
}

double graph_vertices_insert(struct graph_session *s, const uint32_t *id, uint32_t count,
			     uint32_t *vertex, uint32_t *changed)
{
	batch_put(s, id, count);
	double begin = pr_now_ms();
	batch_sort(s, count);
	graph_session_launch(s, GRAPH_FIRSTS, count);
	graph_session_launch(s, GRAPH_KNOWN, s->work.vertices);
	batch_rank(s, count);
	graph_session_launch(s, GRAPH_TAKE, count);
	graph_session_launch(s, GRAPH_TAKEN, 1);
	PR_MUST(cudaMemcpy(vertex, s->work.mapped, count * sizeof *vertex, cudaMemcpyDeviceToHost));
	double ms = pr_now_ms() - begin;
	*changed = changed_read(s);
	return ms;
}

double graph_vertices_delete(struct graph_session *s, const uint32_t *vertex, uint32_t count,
			     uint32_t *changed)
{
	batch_put(s, vertex, count);
	double begin = pr_now_ms();
	batch_sort(s, count);
	graph_session_launch(s, GRAPH_MARK, count);
	batch_rank(s, count);
	graph_session_launch(s, GRAPH_FORGET, s->work.vertices);
	graph_session_launch(s, GRAPH_GIVE, count);
	graph_session_launch(s, GRAPH_GIVEN, 1);
	PR_MUST(cudaDeviceSynchronize());
	double ms = pr_now_ms() - begin;
	*changed = changed_read(s);
	return ms;
}

uint32_t *graph_vertices_names(struct graph_session *s, uint32_t *vertices)
{
	struct graph_work now;
	struct graph_sums sum;
	graph_session_read(s, &now, &sum);
	uint32_t *id = pr_host_take(now.vertices, sizeof *id);
	PR_MUST(cudaMemcpy(id, now.id, now.vertices * sizeof *id, cudaMemcpyDeviceToHost));
	*vertices = now.vertices;
	return id;
}
