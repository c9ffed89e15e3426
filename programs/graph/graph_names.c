/* SPDX-License-Identifier: BSD-3-Clause */
/* The CPU's vertices: a model of those on the device, and the source of batches of them. */
#include <stdlib.h>

#include "programs/common/args.h"
#include "programs/graph/dyngraph.h"

static void live_list(struct graph_names *n)
{
	n->lives = 0;
	for (uint32_t v = 0; v < n->vertices; v++)
		if (n->id[v] != GRAPH_NONE)
			n->live[n->lives++] = v;
}

void graph_names_open(struct graph_names *n, uint32_t vertices, uint32_t most)
{
	*n = (struct graph_names){.vertices = vertices, .most = most};
	n->id = pr_host_take(most, sizeof *n->id);
	n->queue = pr_host_take(most, sizeof *n->queue);
	n->live = pr_host_take(most, sizeof *n->live);
	for (uint32_t v = 0; v < vertices; v++)
		n->id[v] = v;
	live_list(n);
}

void graph_names_close(struct graph_names *n)
{
	free(n->id);
	free(n->queue);
	free(n->live);
}

/* --- batches --- */

static uint32_t live_any(const struct graph_names *n, uint64_t random)
{
	return n->live[(random >> 32) * n->lives >> 32];
}

void graph_names_make(const struct graph_names *n, uint32_t *id, uint32_t count, uint32_t round)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t random = graph_mix(i, UINT64_C(2) << 40 | round);
		/* Above the numbers of the build's vertices, and not GRAPH_NONE. */
		id[i] = 0x80000000u + (uint32_t)(random % 0x7fffffffu);
		if (i % 16 == 0)
			id[i] = n->id[live_any(n, random)];
		else if (i % 16 == 2)
			id[i] = id[i - 1];
	}
}

void graph_names_choose(const struct graph_names *n, uint32_t *vertex, uint32_t count,
			uint32_t round)
{
	for (uint32_t i = 0; i < count; i++) {
		vertex[i] = live_any(n, graph_mix(i, UINT64_C(3) << 40 | round));
		if (i % 16 == 0)
			vertex[i] = n->free ? n->queue[n->front] : n->most;
		else if (i % 16 == 2)
			vertex[i] = vertex[i - 1];
	}
}

void graph_names_edges(const struct graph_names *n, struct graph_edge *edge, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		edge[i] = (struct graph_edge){n->live[edge[i].to], n->live[edge[i].from]};
}

/* --- updates --- */

/* In order, with their places; the caller frees them. */
static struct graph_edge *entries_sort(const uint32_t *value, uint32_t count)
{
	struct graph_edge *entry = pr_host_take(count, sizeof *entry);
	for (uint32_t i = 0; i < count; i++)
		entry[i] = (struct graph_edge){i, value[i]};
	graph_edges_sort(entry, count);
	return entry;
}

#define MARKS (1u << 22)

/* A few of them stand for all names: most vertices need no search. */
static uint32_t mark_of(uint32_t id)
{
	return (id * 2654435761u) >> 10;
}

/* The entries whose name a vertex has. */
static bool *known_find(const struct graph_names *n, const struct graph_edge *entry, uint32_t count)
{
	bool *known = pr_host_take(count, sizeof *known), *marked = pr_host_take(MARKS, 1);
	for (uint32_t i = 0; i < count; i++)
		marked[mark_of(entry[i].from)] = true;
	for (uint32_t v = 0; v < n->vertices; v++) {
		uint32_t low = 0, high = count;
		if (n->id[v] == GRAPH_NONE || !marked[mark_of(n->id[v])])
			continue;
		while (low < high) {
			uint32_t middle = low + (high - low) / 2;
			if (entry[middle].from < n->id[v])
				low = middle + 1;
			else
				high = middle;
		}
		for (; low < count && entry[low].from == n->id[v]; low++)
			known[low] = true;
	}
	free(marked);
	return known;
}

static uint32_t number_take(struct graph_names *n)
{
	if (!n->free) {
		if (n->vertices == n->most)
			pr_fail(1, "no room for more than %u vertices", n->most);
		return n->vertices++;
	}
	uint32_t v = n->queue[n->front];
	n->front = (n->front + 1) % n->most;
	n->free--;
	return v;
}

uint32_t graph_names_insert(struct graph_names *n, const uint32_t *id, uint32_t count,
			    uint32_t *vertex)
{
	struct graph_edge *entry = entries_sort(id, count);
	bool *known = known_find(n, entry, count);
	uint32_t changed = 0;
	for (uint32_t i = 0; i < count; i++) {
		bool first = i == 0 || entry[i - 1].from != entry[i].from;
		uint32_t v = first && !known[i] ? number_take(n) : GRAPH_NONE;
		vertex[entry[i].to] = v;
		if (v == GRAPH_NONE)
			continue;
		n->id[v] = entry[i].from;
		changed++;
	}
	free(entry);
	free(known);
	live_list(n);
	return changed;
}

uint32_t graph_names_delete(struct graph_names *n, const uint32_t *vertex, uint32_t count)
{
	struct graph_edge *entry = entries_sort(vertex, count);
	uint32_t changed = 0;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t v = entry[i].from;
		if (v >= n->vertices || n->id[v] == GRAPH_NONE)
			continue;
		n->id[v] = GRAPH_NONE;
		n->queue[(n->front + n->free) % n->most] = v;
		n->free++;
		changed++;
	}
	free(entry);
	live_list(n);
	return changed;
}
