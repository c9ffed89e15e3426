/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vertices that come and go (faimGraph, section 4.2.4; ouroGraph, 6.2.1). A batch takes numbers
 * from the queue of free ones, and then new ones, by the rank of an entry among those that change:
 * so lanes do not wait for one another, and each layout gives the same numbers. Blocks of aim stay
 * with the number.
 */
#ifndef GRAPH_VERTICES_H
#define GRAPH_VERTICES_H

#include "programs/graph/graph_sorted.h"

GM_DEVICE bool vertex_is_free(const struct graph_work *w, uint32_t v)
{
	return w->id && w->id[v] == GRAPH_NONE;
}

/* --- insertion --- */

GM_DEVICE bool entry_is_first(const struct graph_work *w, uint32_t i)
{
	return i == 0 || w->edge[i - 1].from != w->edge[i].from;
}

/* The check for duplicates is reversed: a vertex looks itself up in the batch, which is in order.
 */
GM_DEVICE void lane_known(struct graph_work *w, uint32_t v)
{
	uint32_t id = w->id[v], low = 0, high = w->edges;
	if (id == GRAPH_NONE)
		return;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (w->edge[middle].from < id)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < w->edges && w->edge[low].from == id)
		w->count[low] = 0;
}

/* One that nobody had yet. */
GM_DEVICE void vertex_clear(const struct graph_work *w, enum graph_layout l, uint32_t v)
{
	*vertex_at(w, l, v, VERTEX_NEIGHBORS) = 0;
	*vertex_at(w, l, v, VERTEX_CAPACITY) = 0;
	if (l == GRAPH_OURO) {
		*vertex_address(w, v) = 0;
		return;
	}
	*vertex_at(w, l, v, VERTEX_PLACE) = GRAPH_NONE;
	*vertex_at(w, l, v, VERTEX_LOCK) = 0;
}

GM_DEVICE void lane_take(struct graph_work *w, enum graph_layout l, uint32_t i)
{
	struct graph_queue *q = &w->free;
	uint32_t rank = w->offset[i], v = GRAPH_NONE;
	if (w->count[i] && rank < q->filled) {
		uint32_t *slot = q->slot + ((q->front + rank) & q->mask);
		v = *slot;
		*slot = GRAPH_NONE;
	} else if (w->count[i] && w->vertices + (rank - q->filled) < w->vertex_most) {
		v = w->vertices + (rank - q->filled);
		vertex_clear(w, l, v);
	}
	if (v != GRAPH_NONE)
		w->id[v] = w->edge[i].from;
	w->mapped[w->edge[i].to] = v;
}

/* There may be more than `vertex_most` then: the host says it. */
GM_DEVICE void lane_taken(struct graph_work *w)
{
	uint32_t all = w->offset[w->edges], from_queue = all;
	if (from_queue > w->free.filled)
		from_queue = w->free.filled;
	w->free.front += from_queue;
	w->free.filled -= from_queue;
	w->vertices += all - from_queue;
	w->changed = all;
}

/* --- deletion --- */

GM_DEVICE void lane_mark(struct graph_work *w, uint32_t i)
{
	uint32_t v = w->edge[i].from;
	bool there = entry_is_first(w, i) && v < w->vertices && w->id[v] != GRAPH_NONE;
	w->count[i] = there;
	if (there)
		w->id[v] = GRAPH_NONE;
}

/* All edges of v. Memory goes back, except for aim's. */
GM_DEVICE void vertex_empty(struct graph_work *w, enum graph_layout l, uint32_t v,
			    struct graph_team t)
{
	uint32_t n = *vertex_at(w, l, v, VERTEX_NEIGHBORS);
	for (struct graph_span s = span_first(w, l, v); l == GRAPH_AIM && s.edge;
	     s = span_next(w, l, s))
		for (uint32_t i = t.rank; i < s.count; i += t.size)
			s.edge[i] = GRAPH_NONE;
	team_sync(t);
	if (t.rank != 0 || !n)
		return;
	if (l == GRAPH_FAIM) {
		struct pages_end none = {0, GRAPH_NONE, GRAPH_NONE};
		faim_shorten(w, v, none);
	} else if (l == GRAPH_OURO) {
		ouro_free(w, v);
		vertex_clear(w, l, v);
	}
	*vertex_at(w, l, v, VERTEX_NEIGHBORS) = 0;
	graph_sum(w, deleted, n);
}

/* An edge leaves if its end has no name: a word for each edge, and no search in the batch. */
GM_DEVICE void vertex_forget(struct graph_work *w, enum graph_layout l, uint32_t v,
			     struct graph_team t)
{
	if (w->id[v] == GRAPH_NONE)
		vertex_empty(w, l, v, t);
	else if (l == GRAPH_AIM && w->in_order)
		aim_delete_sorted(w, v, NULL, 0, t);
	else if (l == GRAPH_AIM)
		aim_delete(w, v, NULL, 0, t);
	else if (l == GRAPH_FAIM)
		faim_delete(w, v, NULL, 0, t);
	else
		ouro_delete(w, v, NULL, 0, t);
}

GM_DEVICE void lane_give(struct graph_work *w, uint32_t i)
{
	struct graph_queue *q = &w->free;
	if (w->count[i])
		q->slot[(q->back + w->offset[i]) & q->mask] = w->edge[i].from;
}

GM_DEVICE void lane_given(struct graph_work *w)
{
	w->changed = w->offset[w->edges];
	w->free.back += w->changed;
	w->free.filled += w->changed;
}

/* --- kernels --- */

GM_DEVICE void lane_names(struct graph_work *w, enum graph_layout l, enum graph_kernel k,
			  uint32_t item)
{
	switch (k) {
	case GRAPH_NAME:
		w->id[item] = item;
		break;
	case GRAPH_FIRSTS:
		w->count[item] = entry_is_first(w, item);
		break;
	case GRAPH_KNOWN:
		lane_known(w, item);
		break;
	case GRAPH_TAKE:
		lane_take(w, l, item);
		break;
	case GRAPH_TAKEN:
		lane_taken(w);
		break;
	case GRAPH_MARK:
		lane_mark(w, item);
		break;
	case GRAPH_GIVE:
		lane_give(w, item);
		break;
	case GRAPH_GIVEN:
		lane_given(w);
		break;
	default:
		break;
	}
}

#endif
