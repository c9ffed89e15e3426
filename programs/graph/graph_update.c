/* SPDX-License-Identifier: BSD-3-Clause */
/* Batches of edges: what the host asks for. */
#include "programs/graph/graph_session.h"

static const enum graph_kernel update_kernels[GRAPH_UPDATES][2] = {
	[GRAPH_EDGES] = {GRAPH_DELETE_EDGE, GRAPH_INSERT_EDGE},
	[GRAPH_VERTICES] = {GRAPH_DELETE_RUN, GRAPH_INSERT_RUN},
	[GRAPH_SORTED] = {GRAPH_DELETE_SORTED, GRAPH_INSERT_SORTED}};

/* Of a batch: workers without a run are cheaper than a wait for their number. */
#define FEW_EDGES 16384

/* The batch in order, and a worker a vertex. */
static void update_vertices(struct graph_session *s, uint32_t count, enum graph_kernel kernel)
{
	uint32_t runs[2] = {count, 0}; /* long ones, others */
	unsigned bits = 0;
	while (bits < 32 && s->work.vertices >> bits)
		bits++;
	PR_MUST(graph_sort(s->batch, s->sorted, count, bits, s->scratch, s->scratch_bytes));
	graph_session_launch(s, GRAPH_FIND_RUNS, count);
	if (kernel == GRAPH_INSERT_RUN || kernel == GRAPH_INSERT_SORTED)
		graph_session_launch_by(s, 32, GRAPH_DROP, graph_droppers(s->pieces));
	if (count > FEW_EDGES) {
		PR_MUST(cudaMemcpy(runs, &s->on_device->longs, sizeof runs,
				   cudaMemcpyDeviceToHost));
	}
	uint32_t all = runs[0] + runs[1], warps = graph_warps(runs[0], runs[1]);
	if (s->plan.adapts)
		graph_session_launch_by(s, GRAPH_ADAPTS, kernel, 32 * warps + (all - warps));
	else
		graph_session_launch(s, kernel, all);
}

static void update_edges(struct graph_session *s, uint32_t count, enum graph_kernel kernel)
{
	PR_MUST(cudaMemcpyAsync(s->sorted, s->batch, count * sizeof *s->batch,
				cudaMemcpyDeviceToDevice, NULL));
	graph_session_launch(s, kernel, count);
}

double graph_update(struct graph_session *s, const struct graph_edge *batch, uint32_t count,
		    enum graph_update how, bool insert, uint64_t *changed)
{
	struct graph_work w;
	struct graph_sums before, after;
	graph_session_read(s, &w, &before);
	WORK_SET(s, edge, s->sorted);
	WORK_SET(s, edges, count);
	WORK_SET(s, longs, 0);
	WORK_SET(s, shorts, 0);
	WORK_SET(s, pieces, 0);
	WORK_SET(s, piece_most, insert ? s->pieces : 0);
	WORK_SET(s, in_order, how == GRAPH_SORTED);
	PR_MUST(cudaMemcpy(s->batch, batch, count * sizeof *batch, cudaMemcpyHostToDevice));
	double begin = pr_now_ms();
	(how == GRAPH_EDGES ? update_edges : update_vertices)(s, count,
							      update_kernels[how][insert]);
	PR_MUST(cudaDeviceSynchronize());
	double ms = pr_now_ms() - begin;
	graph_session_read(s, &w, &after);
	*changed = insert ? after.inserted - before.inserted : after.deleted - before.deleted;
	return ms;
}

double graph_query(struct graph_session *s, const struct graph_edge *batch, uint32_t count,
		   uint64_t *found)
{
	struct graph_work w;
	struct graph_sums before, after;
	graph_session_read(s, &w, &before);
	WORK_SET(s, edge, s->batch);
	PR_MUST(cudaMemcpy(s->batch, batch, count * sizeof *batch, cudaMemcpyHostToDevice));
	double begin = pr_now_ms();
	graph_session_launch(s, GRAPH_QUERY, count);
	PR_MUST(cudaDeviceSynchronize());
	double ms = pr_now_ms() - begin;
	graph_session_read(s, &w, &after);
	*found = after.found - before.found;
	return ms;
}
