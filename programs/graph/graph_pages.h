/* SPDX-License-Identifier: BSD-3-Clause */
/* Pages of aimGraph and faimGraph, the queue of free ones (faimGraph, section 4.2.2), and how all
 * layouts are read: as spans of edges side by side. */
#ifndef GRAPH_PAGES_H
#define GRAPH_PAGES_H

#include "programs/graph/graph_team.h"

/* --- pages --- */

GM_DEVICE uint32_t *page_at(const struct graph_work *w, enum graph_layout l, uint32_t page)
{
	uint64_t words = (uint64_t)page * GRAPH_PAGE_WORDS;
	return l == GRAPH_AIM ? w->page + words : w->page - words;
}

GM_DEVICE uint32_t *page_next(const struct graph_work *w, enum graph_layout l, uint32_t page)
{
	return page_at(w, l, page) + GRAPH_PAGE_EDGES;
}

GM_DEVICE_HOST uint32_t pages_of(uint32_t edges)
{
	return (edges + GRAPH_PAGE_EDGES - 1) / GRAPH_PAGE_EDGES;
}

/* The first page that nobody had yet; GRAPH_NONE: there is none. */
GM_DEVICE uint32_t page_new(struct graph_work *w)
{
	uint32_t page = gm_add32(&w->page_count, 1);
	if (page < w->page_most)
		return page;
	gm_add32(&w->page_count, ~0u);
	return GRAPH_NONE;
}

/* The page that came first; GRAPH_NONE: there is none. `filled` counts pages that are in their
 * slots, but a later slot may be filled before an earlier one: then its taker waits. */
GM_DEVICE uint32_t queue_take(struct graph_queue *q)
{
	if ((int32_t)gm_load32(&q->filled) <= 0)
		return GRAPH_NONE;
	if ((int32_t)gm_add32_sync(&q->filled, ~0u) <= 0) {
		gm_add32(&q->filled, 1);
		return GRAPH_NONE;
	}
	uint32_t *slot = q->slot + (gm_add32(&q->front, 1) & q->mask);
	for (;;) {
		uint32_t page = gm_load32(slot);
		if (page != GRAPH_NONE && gm_cas32(slot, page, GRAPH_NONE) == page)
			return page;
		gm_pause(50);
	}
}

GM_DEVICE void queue_give(struct graph_queue *q, uint32_t page)
{
	uint32_t *slot = q->slot + (gm_add32(&q->back, 1) & q->mask);
	while (gm_cas32(slot, GRAPH_NONE, page) != GRAPH_NONE)
		gm_pause(50);
	gm_add32_sync(&q->filled, 1);
}

GM_DEVICE uint32_t page_take(struct graph_work *w)
{
	uint32_t page = queue_take(&w->queue);
	return page == GRAPH_NONE ? page_new(w) : page;
}

/* --- spans --- */

struct graph_span {
	uint32_t *edge; /* NULL: behind the last span */
	uint32_t count;
	uint32_t remaining; /* edges behind this span; of aim, slots */
	uint32_t page;
};

/* Of a page, with `remaining` edges there and behind it. */
GM_DEVICE struct graph_span span_of(const struct graph_work *w, enum graph_layout l, uint32_t page,
				    uint32_t remaining)
{
	struct graph_span s = {NULL, 0, 0, page};
	if (!remaining)
		return s;
	s.edge = page_at(w, l, page);
	s.count = remaining < GRAPH_PAGE_EDGES ? remaining : GRAPH_PAGE_EDGES;
	s.remaining = remaining - s.count;
	return s;
}

/* The edges of v. Those of aim that are GRAPH_NONE were deleted. */
GM_DEVICE struct graph_span span_first(const struct graph_work *w, enum graph_layout l, uint32_t v)
{
	if (l == GRAPH_OURO) {
		uint32_t n = *vertex_at(w, l, v, VERTEX_NEIGHBORS);
		uint32_t *edge = n ? vertex_block(w, v) : NULL;
		struct graph_span s = {edge, n, 0, GRAPH_NONE};
		return s;
	}
	enum vertex_word length = l == GRAPH_AIM ? VERTEX_CAPACITY : VERTEX_NEIGHBORS;
	return span_of(w, l, *vertex_at(w, l, v, VERTEX_PLACE), *vertex_at(w, l, v, length));
}

GM_DEVICE struct graph_span span_next(const struct graph_work *w, enum graph_layout l,
				      struct graph_span s)
{
	uint32_t next = s.remaining ? *page_next(w, l, s.page) : GRAPH_NONE;
	return span_of(w, l, next, s.remaining);
}

/* Mark what the vertex has in the run. Returns the last page, GRAPH_NONE: there is none. */
GM_DEVICE uint32_t spans_drop(const struct graph_work *w, enum graph_layout l, uint32_t v,
			      struct graph_edge *run, uint32_t count, struct graph_team t)
{
	uint32_t last = GRAPH_NONE;
	for (struct graph_span s = span_first(w, l, v); s.edge; s = span_next(w, l, s)) {
		for (uint32_t i = t.rank; i < s.count; i += t.size)
			if (l != GRAPH_AIM || s.edge[i] != GRAPH_NONE)
				run_drop(run, count, s.edge[i]);
		last = s.page;
	}
	return last;
}

/* Where the next edge goes that stays. */
struct pages_end {
	uint32_t kept; /* edges */
	uint32_t page; /* that has place `kept`, if any */
	uint32_t last; /* the page in front of it; GRAPH_NONE: it is the first */
};

/* The edges of one span of pages that are not in the run move to `end`; they keep their order. */
GM_DEVICE void pages_pack(const struct graph_work *w, enum graph_layout l, struct graph_span s,
			  struct pages_end *end, const struct graph_edge *run, uint32_t count,
			  struct graph_team t)
{
	for (uint32_t from = 0; from < s.count; from += t.size) {
		uint32_t i = from + t.rank, to = i < s.count ? s.edge[i] : GRAPH_NONE;
		bool keep = to != GRAPH_NONE && !edge_leaves(w, run, count, to);
		uint32_t mask = team_ballot(t, keep);
		uint32_t at = end->kept % GRAPH_PAGE_EDGES + team_before(t, mask);
		uint32_t page = end->page;
		team_sync(t);
		if (keep && at >= GRAPH_PAGE_EDGES)
			page = *page_next(w, l, page);
		if (keep && (page != s.page || at != i))
			page_at(w, l, page)[at % GRAPH_PAGE_EDGES] = to;
		team_sync(t);
		uint32_t kept = end->kept + gm_popc(mask);
		if (kept / GRAPH_PAGE_EDGES != end->kept / GRAPH_PAGE_EDGES) {
			end->last = end->page;
			end->page = *page_next(w, l, end->page);
		}
		end->kept = kept;
	}
}

#endif
