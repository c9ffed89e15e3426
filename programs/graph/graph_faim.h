/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faimGraph (chapter 4): adjacencies on linked pages, in order and without holes. Pages that are
 * left empty go to the queue, and come from there first.
 */
#ifndef GRAPH_FAIM_H
#define GRAPH_FAIM_H

#include "programs/graph/graph_pages.h"

/* By one lane: a chain of so many pages behind `last`, or of a vertex without pages. Returns the
 * first of them; GRAPH_NONE: there are too few, and none was taken. */
GM_DEVICE uint32_t faim_extend(struct graph_work *w, uint32_t v, uint32_t last, uint32_t pages)
{
	uint32_t first = GRAPH_NONE;
	for (uint32_t i = 0; i < pages; i++) {
		uint32_t page = page_take(w);
		if (page == GRAPH_NONE) {
			while (first != GRAPH_NONE) {
				uint32_t next = *page_next(w, GRAPH_FAIM, first);
				queue_give(&w->queue, first);
				first = next;
			}
			return GRAPH_NONE;
		}
		*page_next(w, GRAPH_FAIM, page) = first;
		first = page;
	}
	*(last == GRAPH_NONE ? vertex_at(w, GRAPH_FAIM, v, VERTEX_PLACE)
			     : page_next(w, GRAPH_FAIM, last)) = first;
	return first;
}

/* Edges to places from `n` on; `page` has place n. */
GM_DEVICE void faim_append(const struct graph_work *w, uint32_t page, uint32_t n,
			   const struct graph_edge *run, uint32_t count, struct graph_team t)
{
	uint32_t at = n / GRAPH_PAGE_EDGES; /* of `page` in the chain */
	for (uint32_t i = t.rank; i < count; i += t.size) {
		for (; at < (n + i) / GRAPH_PAGE_EDGES; at++)
			page = *page_next(w, GRAPH_FAIM, page);
		page_at(w, GRAPH_FAIM, page)[(n + i) % GRAPH_PAGE_EDGES] = run[i].to;
	}
}

/* Pages for `count` edges behind the first `n`; `last`: the page of the last one. Returns the page
 * of place n; GRAPH_NONE: there is none, and nothing has changed. */
GM_DEVICE uint32_t faim_grow(struct graph_work *w, uint32_t v, uint32_t last, uint32_t n,
			     uint32_t count, struct graph_team t)
{
	uint32_t pages = pages_of(n + count) - pages_of(n), first = GRAPH_NONE;
	if (pages && t.rank == 0)
		first = faim_extend(w, v, last, pages);
	first = team_first(t, first);
	team_sync(t);
	return pages && (first == GRAPH_NONE || n % GRAPH_PAGE_EDGES == 0) ? first : last;
}

/* By one lane. */
GM_DEVICE void faim_count(const struct graph_work *w, uint32_t v, uint32_t edges)
{
	*vertex_at(w, GRAPH_FAIM, v, VERTEX_NEIGHBORS) = edges;
	*vertex_at(w, GRAPH_FAIM, v, VERTEX_CAPACITY) = pages_of(edges) * GRAPH_PAGE_EDGES;
}

GM_DEVICE void faim_insert(struct graph_work *w, uint32_t v, struct graph_edge *run, uint32_t count,
			   struct graph_team t)
{
	uint32_t n = *vertex_at(w, GRAPH_FAIM, v, VERTEX_NEIGHBORS);
	uint32_t page = spans_drop(w, GRAPH_FAIM, v, run, count, t);
	count = run_pack(run, count, t);
	if (!count)
		return;
	page = faim_grow(w, v, page, n, count, t);
	if (page == GRAPH_NONE) {
		if (t.rank == 0)
			graph_sum(w, lacking, count);
		return;
	}
	faim_append(w, page, n, run, count, t);
	if (t.rank == 0) {
		faim_count(w, v, n + count);
		graph_sum(w, inserted, count);
	}
}

/* By one lane: the pages behind the last edge that stayed go to the queue. */
GM_DEVICE void faim_shorten(struct graph_work *w, uint32_t v, struct pages_end end)
{
	uint32_t *link = end.last == GRAPH_NONE ? vertex_at(w, GRAPH_FAIM, v, VERTEX_PLACE)
						: page_next(w, GRAPH_FAIM, end.last);
	if (end.kept % GRAPH_PAGE_EDGES)
		link = page_next(w, GRAPH_FAIM, end.page);
	uint32_t page = *link;
	*link = GRAPH_NONE;
	while (page != GRAPH_NONE) {
		uint32_t next = *page_next(w, GRAPH_FAIM, page);
		queue_give(&w->queue, page);
		page = next;
	}
	faim_count(w, v, end.kept);
}

GM_DEVICE void faim_delete(struct graph_work *w, uint32_t v, const struct graph_edge *run,
			   uint32_t count, struct graph_team t)
{
	uint32_t n = *vertex_at(w, GRAPH_FAIM, v, VERTEX_NEIGHBORS);
	struct graph_span s = span_first(w, GRAPH_FAIM, v);
	struct pages_end end = {0, s.page, GRAPH_NONE};
	for (; s.edge; s = span_next(w, GRAPH_FAIM, s))
		pages_pack(w, GRAPH_FAIM, s, &end, run, count, t);
	team_sync(t);
	if (t.rank == 0 && end.kept != n) {
		faim_shorten(w, v, end);
		graph_sum(w, deleted, n - end.kept);
	}
}

/* `count` edges that are in order; `first`: its first page, of as many as it needs side by side. */
GM_DEVICE void faim_build(const struct graph_work *w, uint32_t v, const uint32_t *to,
			  uint32_t count, uint32_t first, struct graph_team t)
{
	uint32_t pages = pages_of(count);
	for (uint32_t i = t.rank; i < count; i += t.size)
		page_at(w, GRAPH_FAIM, first + i / GRAPH_PAGE_EDGES)[i % GRAPH_PAGE_EDGES] = to[i];
	for (uint32_t i = t.rank; i < pages; i += t.size)
		*page_next(w, GRAPH_FAIM, first + i) = i + 1 < pages ? first + i + 1 : GRAPH_NONE;
	if (t.rank != 0)
		return;
	*vertex_at(w, GRAPH_FAIM, v, VERTEX_PLACE) = pages ? first : GRAPH_NONE;
	faim_count(w, v, count);
	*vertex_at(w, GRAPH_FAIM, v, VERTEX_LOCK) = 0;
}

#endif
