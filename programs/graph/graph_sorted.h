/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Updates that keep adjacencies in order (faimGraph, section 4.2.5 and figure 4.7;
 * ouroGraph, 6.2.2): one sweep merges a run into the adjacency. There, an edge of the adjacency
 * that is larger than one of the run changes places with it, and the run is sorted again. Here such
 * edges wait in a ring: they are the ones that were read last, so they are in order already. Marks
 * of aim are behind all edges.
 */
#ifndef GRAPH_SORTED_H
#define GRAPH_SORTED_H

#include "programs/graph/graph_aim.h"
#include "programs/graph/graph_faim.h"
#include "programs/graph/graph_ouro.h"

/* A chunk: as many places side by side as the worker has lanes. */
struct graph_merge {
	const struct graph_edge *run; /* none that the adjacency has */
	uint32_t count;
	uint32_t *ring;	 /* edge x of the adjacency is at x % count */
	uint32_t had;	 /* edges of the adjacency */
	uint32_t place;	 /* of the span's first edge, in the adjacency */
	uint32_t placed; /* edges of the run in front of the chunk */
};

/* Edge x that the adjacency had, where places from `first` on are not yet written. */
GM_DEVICE uint32_t merge_edge(const struct graph_merge *m, struct graph_span s, uint32_t first,
			      uint32_t x)
{
	if (x >= m->had)
		return GRAPH_NONE; /* larger than all */
	return x >= first ? s.edge[x - m->place] : m->ring[x % m->count];
}

/* How many edges of the run are in front of the lane's place. */
GM_DEVICE uint32_t merge_before(const struct graph_merge *m, struct graph_span s, uint32_t first,
				uint32_t rank)
{
	uint32_t low = m->placed, high = low + rank;
	high = high < m->count ? high : m->count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (m->run[middle].to < merge_edge(m, s, first, first + rank - middle - 1))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

GM_DEVICE void merge_chunk(struct graph_merge *m, struct graph_span s, uint32_t from,
			   struct graph_team t)
{
	uint32_t i = from + t.rank, first = m->place + from, at = first + t.rank;
	uint32_t end = m->place + (s.count - from < t.size ? s.count : from + t.size);
	uint32_t was = GRAPH_NONE, to = GRAPH_NONE;
	bool added = false;
	if (i < s.count) {
		uint32_t before = merge_before(m, s, first, t.rank);
		was = s.edge[i];
		to = merge_edge(m, s, first, at - before);
		added = before < m->count && m->run[before].to < to;
		to = added ? m->run[before].to : to;
	}
	m->placed += gm_popc(team_ballot(t, added));
	team_sync(t);
	if (i < s.count && at < m->had && at >= end - m->placed)
		m->ring[at % m->count] = was;
	if (i < s.count && to != was)
		s.edge[i] = to;
	team_sync(t);
}

/* Room for `count` edges behind the first `n`; `last`: the page of the last one. False: there is
 * none, and no edge has changed. */
GM_DEVICE bool vertex_grow(struct graph_work *w, enum graph_layout l, uint32_t v, uint32_t last,
			   uint32_t n, uint32_t count, struct graph_team t)
{
	uint32_t *capacity = vertex_at(w, l, v, VERTEX_CAPACITY), before = *capacity, room = before;
	if (l == GRAPH_FAIM)
		return faim_grow(w, v, last, n, count, t) != GRAPH_NONE;
	if (l == GRAPH_OURO)
		return room == ouro_capacity(n + count) ||
		       ouro_move(w, v, n, ouro_capacity(n + count), t);
	for (; room < n + count; room += GRAPH_PAGE_EDGES) {
		last = aim_extend(w, v, last, NULL, 0, t);
		if (last == GRAPH_NONE)
			break;
	}
	if (t.rank == 0 && room != before)
		*capacity = room;
	return room >= n + count;
}

GM_DEVICE void sorted_insert(struct graph_work *w, enum graph_layout l, uint32_t v,
			     struct graph_edge *run, uint32_t count, bool checked,
			     struct graph_team t)
{
	uint32_t *neighbors = vertex_at(w, l, v, VERTEX_NEIGHBORS), n = *neighbors;
	uint32_t last = GRAPH_NONE;
	if (l == GRAPH_OURO && !checked)
		ouro_drop(w, v, run, count, 0, n, t);
	else if (l != GRAPH_OURO)
		last = spans_drop(w, l, v, run, count, t);
	count = run_pack(run, count, t);
	if (!count)
		return;
	if (!vertex_grow(w, l, v, last, n, count, t)) {
		if (t.rank == 0)
			graph_sum(w, lacking, count);
		return;
	}
	if (t.rank == 0) {
		if (l == GRAPH_FAIM)
			faim_count(w, v, n + count);
		*neighbors = n + count;
		graph_sum(w, inserted, count);
	}
	team_sync(t);
	struct graph_merge m = {run, count, w->displaced + (run - w->edge), n, 0, 0};
	for (struct graph_span s = span_first(w, l, v); s.edge && m.place < n + count;
	     s = span_next(w, l, s)) {
		for (uint32_t from = 0; from < s.count; from += t.size)
			merge_chunk(&m, s, from, t);
		m.place += s.count;
	}
}

/* No inlined copy: its kernel has malloc of all policies, and few registers. */
GM_DEVICE_SLOW void ouro_insert_sorted(struct graph_work *w, uint32_t v, struct graph_edge *run,
				       uint32_t count, bool checked, struct graph_team t)
{
	sorted_insert(w, GRAPH_OURO, v, run, count, checked, t);
}

/* Of aim: edges move to the front, and leave marks behind them. */
GM_DEVICE void aim_delete_sorted(struct graph_work *w, uint32_t v, const struct graph_edge *run,
				 uint32_t count, struct graph_team t)
{
	uint32_t *neighbors = vertex_at(w, GRAPH_AIM, v, VERTEX_NEIGHBORS), n = *neighbors;
	struct graph_span s = span_first(w, GRAPH_AIM, v);
	struct pages_end end = {0, s.page, GRAPH_NONE};
	for (; s.edge; s = span_next(w, GRAPH_AIM, s))
		pages_pack(w, GRAPH_AIM, s, &end, run, count, t);
	if (end.kept == n)
		return;
	uint32_t place = 0;
	for (s = span_first(w, GRAPH_AIM, v); s.edge && place < n;
	     s = span_next(w, GRAPH_AIM, s), place += GRAPH_PAGE_EDGES)
		for (uint32_t i = t.rank; i < s.count; i += t.size)
			if (place + i >= end.kept)
				s.edge[i] = GRAPH_NONE;
	team_sync(t);
	if (t.rank == 0) {
		*neighbors = end.kept;
		graph_sum(w, deleted, n - end.kept);
	}
}

#endif
