/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * aimGraph (chapter 3): adjacencies on linked edge blocks, which come from a counter and stay with
 * their vertex. A deleted edge leaves a mark, GRAPH_NONE, which the next insertion overwrites; a
 * slot that was never used has it too.
 */
#ifndef GRAPH_AIM_H
#define GRAPH_AIM_H

#include "programs/graph/graph_pages.h"

/* Edges into slots with marks. Returns how many found one. */
GM_DEVICE uint32_t aim_fill(const struct graph_work *w, uint32_t v, const struct graph_edge *run,
			    uint32_t count, struct graph_team t)
{
	uint32_t done = 0;
	struct graph_span s = span_first(w, GRAPH_AIM, v);
	for (; s.edge && done < count; s = span_next(w, GRAPH_AIM, s))
		for (uint32_t from = 0; from < s.count && done < count; from += t.size) {
			uint32_t i = from + t.rank;
			bool marked = i < s.count && s.edge[i] == GRAPH_NONE;
			uint32_t mask = team_ballot(t, marked);
			uint32_t at = done + team_before(t, mask);
			if (marked && at < count)
				s.edge[i] = run[at].to;
			done += gm_popc(mask);
		}
	return done < count ? done : count;
}

/* One more block behind `last`, or the first one, with the first edges of the run. Returns it;
 * GRAPH_NONE: there is none. */
GM_DEVICE uint32_t aim_extend(struct graph_work *w, uint32_t v, uint32_t last,
			      const struct graph_edge *run, uint32_t count, struct graph_team t)
{
	uint32_t page = team_first(t, t.rank == 0 ? page_new(w) : 0);
	if (page == GRAPH_NONE)
		return GRAPH_NONE;
	for (uint32_t i = t.rank; i < GRAPH_PAGE_WORDS; i += t.size)
		page_at(w, GRAPH_AIM, page)[i] =
			i < count && i < GRAPH_PAGE_EDGES ? run[i].to : GRAPH_NONE;
	if (t.rank == 0)
		*(last == GRAPH_NONE ? vertex_at(w, GRAPH_AIM, v, VERTEX_PLACE)
				     : page_next(w, GRAPH_AIM, last)) = page;
	team_sync(t);
	return page;
}

GM_DEVICE void aim_insert(struct graph_work *w, uint32_t v, struct graph_edge *run, uint32_t count,
			  struct graph_team t)
{
	uint32_t *neighbors = vertex_at(w, GRAPH_AIM, v, VERTEX_NEIGHBORS), n = *neighbors;
	uint32_t capacity = *vertex_at(w, GRAPH_AIM, v, VERTEX_CAPACITY);
	uint32_t last = spans_drop(w, GRAPH_AIM, v, run, count, t);
	count = run_pack(run, count, t);
	uint32_t done = n < capacity ? aim_fill(w, v, run, count, t) : 0;
	while (done < count) {
		last = aim_extend(w, v, last, run + done, count - done, t);
		if (last == GRAPH_NONE)
			break;
		capacity += GRAPH_PAGE_EDGES;
		done += count - done < GRAPH_PAGE_EDGES ? count - done : GRAPH_PAGE_EDGES;
	}
	team_sync(t);
	if (t.rank != 0 || !count)
		return;
	*neighbors = n + done;
	*vertex_at(w, GRAPH_AIM, v, VERTEX_CAPACITY) = capacity;
	graph_sum(w, inserted, done);
	if (done < count)
		graph_sum(w, lacking, count - done);
}

/* Without a lock: other workers may delete edges of the same vertex. */
GM_DEVICE void aim_delete(struct graph_work *w, uint32_t v, const struct graph_edge *run,
			  uint32_t count, struct graph_team t)
{
	uint32_t deleted = 0;
	for (struct graph_span s = span_first(w, GRAPH_AIM, v); s.edge;
	     s = span_next(w, GRAPH_AIM, s)) {
		for (uint32_t i = t.rank; i < s.count; i += t.size) {
			uint32_t to = gm_load32(&s.edge[i]);
			if (to != GRAPH_NONE && edge_leaves(w, run, count, to))
				deleted += gm_cas32(&s.edge[i], to, GRAPH_NONE) == to;
		}
		/* An edge comes once. */
		if (count == 1 && team_ballot(t, deleted != 0))
			break;
	}
	if (deleted) {
		gm_add32(vertex_at(w, GRAPH_AIM, v, VERTEX_NEIGHBORS), 0u - deleted);
		graph_sum(w, deleted, deleted);
	}
}

/* `count` edges; `first`: its first block, of as many as it needs side by side. */
GM_DEVICE void aim_build(const struct graph_work *w, uint32_t v, const uint32_t *to, uint32_t count,
			 uint32_t first, struct graph_team t)
{
	uint32_t pages = pages_of(count);
	for (uint32_t i = t.rank; i < pages * GRAPH_PAGE_EDGES; i += t.size)
		page_at(w, GRAPH_AIM, first + i / GRAPH_PAGE_EDGES)[i % GRAPH_PAGE_EDGES] =
			i < count ? to[i] : GRAPH_NONE;
	for (uint32_t i = t.rank; i < pages; i += t.size)
		*page_next(w, GRAPH_AIM, first + i) = i + 1 < pages ? first + i + 1 : GRAPH_NONE;
	if (t.rank != 0)
		return;
	*vertex_at(w, GRAPH_AIM, v, VERTEX_PLACE) = pages ? first : GRAPH_NONE;
	*vertex_at(w, GRAPH_AIM, v, VERTEX_NEIGHBORS) = count;
	*vertex_at(w, GRAPH_AIM, v, VERTEX_CAPACITY) = pages * GRAPH_PAGE_EDGES;
	*vertex_at(w, GRAPH_AIM, v, VERTEX_LOCK) = 0;
}

#endif
