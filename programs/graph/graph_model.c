/* SPDX-License-Identifier: BSD-3-Clause */
/* The CPU's graph: one array of all edges in order, which each batch is merged into. */
#include <stdlib.h>
#include <string.h>

#include "programs/common/args.h"
#include "programs/graph/dyngraph.h"

static void *host_take(uint64_t count, uint64_t size)
{
	void *block = malloc((count ? count : 1) * size);
	if (!block)
		pr_fail(1, "no memory of the host");
	return block;
}

static uint64_t edge_key(struct graph_edge e)
{
	return (uint64_t)e.from << 32 | e.to;
}

static int edge_compare(const void *a, const void *b)
{
	uint64_t x = edge_key(*(const struct graph_edge *)a);
	uint64_t y = edge_key(*(const struct graph_edge *)b);
	return (x > y) - (x < y);
}

void graph_edges_sort(struct graph_edge *edge, uint64_t count)
{
	qsort(edge, count, sizeof *edge, edge_compare);
}

uint64_t graph_edges_checksum(const struct graph_edge *edge, uint64_t count)
{
	uint64_t sum = 0;
	for (uint64_t i = 0; i < count; i++)
		sum += graph_mix(edge[i].from, edge[i].to);
	return sum;
}

uint64_t graph_ranks_checksum(const uint64_t *rank, uint32_t vertices)
{
	uint64_t sum = 0;
	for (uint32_t v = 0; v < vertices; v++)
		sum += graph_mix(v, rank[v]);
	return sum;
}

void graph_model_open(struct graph_model *m, const struct pr_rows *rows)
{
	m->vertices = rows->rows;
	m->edges = rows->start[rows->rows];
	m->edge = host_take(m->edges, sizeof *m->edge);
	for (uint32_t v = 0; v < rows->rows; v++)
		for (uint32_t i = rows->start[v]; i < rows->start[v + 1]; i++)
			m->edge[i] = (struct graph_edge){rows->column[i], v};
}

void graph_model_close(struct graph_model *m)
{
	free(m->edge);
}

/* --- updates --- */

/* In order, each edge once; the caller frees them. */
static struct graph_edge *batch_sort(const struct graph_edge *batch, uint32_t *count)
{
	struct graph_edge *own = host_take(*count, sizeof *own);
	uint32_t kept = 0;
	memcpy(own, batch, *count * sizeof *own);
	graph_edges_sort(own, *count);
	for (uint32_t i = 0; i < *count; i++)
		if (!kept || edge_key(own[kept - 1]) != edge_key(own[i]))
			own[kept++] = own[i];
	*count = kept;
	return own;
}

uint64_t graph_model_insert(struct graph_model *m, const struct graph_edge *batch, uint32_t count)
{
	struct graph_edge *own = batch_sort(batch, &count);
	struct graph_edge *merged = host_take(m->edges + count, sizeof *merged);
	uint64_t n = 0, i = 0, before = m->edges;
	for (uint32_t j = 0; i < m->edges || j < count; n++) {
		bool old = i < m->edges && (j == count || edge_key(m->edge[i]) <= edge_key(own[j]));
		if (old && j < count && edge_key(m->edge[i]) == edge_key(own[j]))
			j++;
		merged[n] = old ? m->edge[i++] : own[j++];
	}
	free(m->edge);
	free(own);
	m->edge = merged;
	m->edges = n;
	return n - before;
}

uint64_t graph_model_delete(struct graph_model *m, const struct graph_edge *batch, uint32_t count)
{
	struct graph_edge *own = batch_sort(batch, &count);
	uint64_t n = 0, before = m->edges;
	uint32_t j = 0;
	for (uint64_t i = 0; i < before; i++) {
		while (j < count && edge_key(own[j]) < edge_key(m->edge[i]))
			j++;
		if (j == count || edge_key(own[j]) != edge_key(m->edge[i]))
			m->edge[n++] = m->edge[i];
	}
	free(own);
	m->edges = n;
	return before - n;
}

uint64_t graph_model_forget(struct graph_model *m, const struct graph_names *n)
{
	uint64_t kept = 0, before = m->edges;
	for (uint64_t i = 0; i < before; i++)
		if (n->id[m->edge[i].from] != GRAPH_NONE && n->id[m->edge[i].to] != GRAPH_NONE)
			m->edge[kept++] = m->edge[i];
	m->edges = kept;
	return before - kept;
}

uint64_t graph_model_query(const struct graph_model *m, const struct graph_edge *batch,
			   uint32_t count)
{
	uint64_t found = 0;
	for (uint32_t i = 0; i < count; i++)
		found += bsearch(&batch[i], m->edge, m->edges, sizeof *m->edge, edge_compare) !=
			 NULL;
	return found;
}

/* --- algorithms --- */

/* Where the edges of each vertex begin; the caller frees it. */
static uint64_t *starts_make(const struct graph_model *m)
{
	uint64_t *start = host_take(m->vertices + UINT64_C(1), sizeof *start), i = 0;
	for (uint32_t v = 0; v < m->vertices; v++) {
		start[v] = i;
		while (i < m->edges && m->edge[i].from == v)
			i++;
	}
	start[m->vertices] = i;
	return start;
}

uint64_t graph_model_pagerank(const struct graph_model *m, uint32_t iterations)
{
	uint64_t *start = starts_make(m), *rank = host_take(m->vertices, sizeof *rank);
	uint64_t *next = host_take(m->vertices, sizeof *next);
	for (uint32_t v = 0; v < m->vertices; v++)
		rank[v] = GRAPH_ONE;
	for (uint32_t round = 0; round < iterations; round++) {
		memset(next, 0, m->vertices * sizeof *next);
		for (uint32_t v = 0; v < m->vertices; v++)
			for (uint64_t i = start[v]; i < start[v + 1]; i++)
				next[m->edge[i].to] += rank[v] / (start[v + 1] - start[v]);
		for (uint32_t v = 0; v < m->vertices; v++)
			rank[v] = graph_rank(next[v]);
	}
	uint64_t sum = graph_ranks_checksum(rank, m->vertices);
	free(start);
	free(rank);
	free(next);
	return sum;
}

uint64_t graph_model_triangles(const struct graph_model *m)
{
	uint64_t *start = starts_make(m), found = 0;
	for (uint64_t e = 0; e < m->edges; e++) {
		uint32_t c = m->edge[e].from, b = m->edge[e].to;
		if (b >= c)
			continue;
		uint64_t i = start[c], j = start[b];
		while (i < start[c + 1] && j < start[b + 1] && m->edge[i].to < b &&
		       m->edge[j].to < b) {
			uint32_t x = m->edge[i].to, y = m->edge[j].to;
			found += x == y;
			i += x <= y;
			j += y <= x;
		}
	}
	free(start);
	return found;
}
