/* SPDX-License-Identifier: BSD-3-Clause */
/* The one interface to the three layouts, and what a lane does in each kernel. */
#ifndef GRAPH_LANE_H
#define GRAPH_LANE_H

#include "programs/graph/graph_vertices.h"

/* --- the interface: the worker has the vertex for itself --- */

GM_DEVICE void vertex_delete(struct graph_work *w, enum graph_layout l, uint32_t v,
			     const struct graph_edge *run, uint32_t count, struct graph_team t)
{
	if (l == GRAPH_AIM)
		aim_delete(w, v, run, count, t);
	else if (l == GRAPH_FAIM)
		faim_delete(w, v, run, count, t);
	else
		ouro_delete(w, v, run, count, t);
}

/* Insertion and deletion of a run; that of an insertion is changed. Edges that the graph has are
 * not inserted again. */
GM_DEVICE void vertex_change(struct graph_work *w, enum graph_layout l, struct graph_run run,
			     enum graph_kernel k, struct graph_team t)
{
	struct graph_edge *edge = w->edge + run.first;
	bool inserts = k == GRAPH_INSERT_RUN || k == GRAPH_INSERT_EDGE;
	uint32_t v = run.vertex, count = run.count;
	if (k == GRAPH_INSERT_SORTED && l == GRAPH_OURO)
		ouro_insert_sorted(w, v, edge, count, run.checked, t);
	else if (k == GRAPH_INSERT_SORTED)
		sorted_insert(w, l, v, edge, count, false, t);
	else if (k == GRAPH_DELETE_SORTED && l == GRAPH_AIM)
		aim_delete_sorted(w, v, edge, count, t);
	else if (inserts && l == GRAPH_OURO)
		ouro_insert(w, v, edge, count, run.checked, t);
	else if (inserts && l == GRAPH_FAIM)
		faim_insert(w, v, edge, count, t);
	else if (inserts)
		aim_insert(w, v, edge, count, t);
	else
		vertex_delete(w, l, v, edge, count, t); /* in order in the other layouts */
}

GM_DEVICE void vertex_build(struct graph_work *w, enum graph_layout l, uint32_t v,
			    struct graph_team t)
{
	const uint32_t *to = w->column + w->start[v];
	uint32_t count = w->start[v + 1] - w->start[v];
	if (l == GRAPH_AIM)
		aim_build(w, v, to, count, w->offset[v], t);
	else if (l == GRAPH_FAIM)
		faim_build(w, v, to, count, w->offset[v], t);
	else
		ouro_build(w, v, to, count, t);
}

/* --- batches --- */

/* Pieces of the vertex, if its `n` edges are many. True: all of them are listed. */
GM_DEVICE bool pieces_list(struct graph_work *w, uint32_t v, uint32_t n, uint32_t run)
{
	uint32_t pieces = (n + GRAPH_PIECE_EDGES - 1) / GRAPH_PIECE_EDGES;
	if (n < GRAPH_PIECE_EDGES || !w->piece_most)
		return false;
	uint32_t first = gm_add32(&w->pieces, pieces);
	bool fits = first + pieces <= w->piece_most;
	for (uint32_t i = 0; i < pieces && first + i < w->piece_most; i++) {
		struct graph_piece piece = {v, fits ? run : GRAPH_NONE, i * GRAPH_PIECE_EDGES};
		w->piece[first + i] = piece;
	}
	return fits;
}

/* All of these are marked before a run is inserted, and its first edge tells no vertex then. */
GM_DEVICE void team_drop(struct graph_work *w, struct graph_team t, uint32_t item)
{
	uint32_t pieces = w->pieces < w->piece_most ? w->pieces : w->piece_most;
	for (uint32_t i = item; i < pieces; i += graph_droppers(w->piece_most)) {
		struct graph_piece piece = w->piece[i];
		if (piece.run == GRAPH_NONE)
			continue;
		struct graph_run run = w->run[piece.run];
		uint32_t n = vertex_neighbors(w, GRAPH_OURO, piece.vertex);
		uint32_t end =
			n - piece.first < GRAPH_PIECE_EDGES ? n : piece.first + GRAPH_PIECE_EDGES;
		ouro_drop(w, piece.vertex, w->edge + run.first, run.count, piece.first, end, t);
	}
}

/* Where the next run goes; of lanes that are here together, side by side. */
GM_DEVICE uint32_t run_place(struct graph_work *w, bool is_long)
{
	uint32_t mask = gm_active(), longs = gm_ballot(mask, is_long), at = 0;
	uint32_t alike = is_long ? longs : mask & ~longs, leader = gm_leader(alike);
	if (gm_lane() == leader)
		at = gm_add32(is_long ? &w->longs : &w->shorts, gm_popc(alike));
	at = gm_shfl32(mask, at, leader) + gm_rank(alike);
	return is_long ? at : w->edges - 1 - at;
}

/* Long ones first. */
GM_DEVICE struct graph_run run_at(const struct graph_work *w, uint32_t item)
{
	return w->run[item < w->longs ? item : w->edges - 1 - (item - w->longs)];
}

GM_DEVICE void lane_find_run(struct graph_work *w, enum graph_layout l, uint32_t i)
{
	uint32_t v = w->edge[i].from, low = i + 1, high = w->edges;
	if (i && w->edge[i - 1].from == v)
		return;
	uint32_t n = vertex_neighbors(w, l, v);
	/* Most runs are short. */
	for (uint32_t step = 1; low < high && low + step < high; step *= 2)
		if (w->edge[low + step].from == v)
			low += step;
		else
			high = low + step;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (w->edge[middle].from == v)
			low = middle + 1;
		else
			high = middle;
	}
	uint32_t at = run_place(w, low - i >= GRAPH_LONG_RUN || n >= GRAPH_LONG_ADJACENCY);
	struct graph_run run = {i, low - i, v, l == GRAPH_OURO && pieces_list(w, v, n, at)};
	w->run[at] = run;
}

/* Of single edges, other workers may have some of the same vertex; aim deletes without a lock. What
 * the lock protects is inside of the loop, so that no lane waits for the end of another one's. */
GM_DEVICE void team_update(struct graph_work *w, enum graph_layout l, struct graph_team t,
			   struct graph_run run, enum graph_kernel k)
{
	uint32_t v = run.vertex;
	team_sync(t); /* before one of the lanes marks an edge, and with it the vertex of a run of
			 one */
	bool locks = k == GRAPH_INSERT_EDGE || (k == GRAPH_DELETE_EDGE && l != GRAPH_AIM);
	for (bool done = false; !done;) {
		if (locks && !vertex_try_lock(w, l, v, t)) {
			gm_pause(100);
			continue;
		}
		vertex_change(w, l, run, k, t);
		if (locks)
			vertex_unlock(w, l, v, t);
		done = true;
	}
}

GM_DEVICE void team_query(struct graph_work *w, enum graph_layout l, struct graph_team t,
			  uint32_t item)
{
	struct graph_edge edge = w->edge[item];
	bool found = l == GRAPH_OURO && ouro_has(w, edge.from, edge.to, t);
	for (struct graph_span s = span_first(w, l, edge.from); l != GRAPH_OURO && s.edge && !found;
	     s = span_next(w, l, s)) {
		for (uint32_t i = t.rank; i < s.count && !found; i += t.size)
			found = s.edge[i] == edge.to;
		found = team_ballot(t, found) != 0;
	}
	if (found && t.rank == 0)
		graph_sum(w, found, 1);
}

/* --- all edges --- */

GM_DEVICE void team_export(const struct graph_work *w, enum graph_layout l, struct graph_team t,
			   uint32_t v)
{
	struct graph_edge *out = w->edge + w->offset[v];
	for (struct graph_span s = span_first(w, l, v); s.edge; s = span_next(w, l, s))
		for (uint32_t from = 0; from < s.count; from += t.size) {
			uint32_t i = from + t.rank, to = i < s.count ? s.edge[i] : GRAPH_NONE;
			uint32_t mask = team_ballot(t, to != GRAPH_NONE);
			struct graph_edge *place = out + team_before(t, mask);
			if (to != GRAPH_NONE) {
				place->to = to;
				place->from = v;
			}
			out += gm_popc(mask);
		}
}

/* Marks of aim move behind all edges. */
GM_DEVICE void team_restore(const struct graph_work *w, enum graph_layout l, struct graph_team t,
			    uint32_t v)
{
	const struct graph_edge *in = w->edge + w->offset[v];
	uint32_t before = 0, n = w->count[v];
	for (struct graph_span s = span_first(w, l, v); s.edge; s = span_next(w, l, s)) {
		for (uint32_t i = t.rank; i < s.count; i += t.size)
			s.edge[i] = before + i < n ? in[before + i].to : GRAPH_NONE;
		before += s.count;
	}
}

/* --- parts --- */

GM_DEVICE uint32_t lane_parts(const struct graph_work *w, enum graph_layout l, uint32_t v)
{
	if (l == GRAPH_OURO)
		return (vertex_neighbors(w, l, v) + GRAPH_PART_EDGES - 1) / GRAPH_PART_EDGES;
	return *vertex_at(w, l, v, VERTEX_CAPACITY) / GRAPH_PAGE_EDGES;
}

GM_DEVICE void lane_list_parts(const struct graph_work *w, enum graph_layout l, uint32_t v)
{
	struct graph_part *out = w->part + w->offset[v];
	struct graph_part part = {v, GRAPH_NONE, 0};
	if (l == GRAPH_OURO) {
		uint32_t parts = lane_parts(w, l, v);
		for (uint32_t i = 0; i < parts; i++, part.first += GRAPH_PART_EDGES)
			out[i] = part;
		return;
	}
	for (struct graph_span s = span_first(w, l, v); s.edge; s = span_next(w, l, s)) {
		part.page = s.page;
		*out++ = part;
		part.first += s.count;
	}
}

/* Its edges alone. */
GM_DEVICE struct graph_span part_span(const struct graph_work *w, enum graph_layout l,
				      struct graph_part part)
{
	struct graph_span s = {NULL, 0, 0, part.page};
	if (l != GRAPH_OURO) {
		enum vertex_word length = l == GRAPH_AIM ? VERTEX_CAPACITY : VERTEX_NEIGHBORS;
		return span_of(w, l, part.page, *vertex_at(w, l, part.vertex, length) - part.first);
	}
	uint32_t remaining = *vertex_at(w, l, part.vertex, VERTEX_NEIGHBORS) - part.first;
	s.edge = vertex_block(w, part.vertex) + part.first;
	s.count = remaining < GRAPH_PART_EDGES ? remaining : GRAPH_PART_EDGES;
	return s;
}

/* --- PageRank: a push to all neighbours; whole numbers, so that sums are the same in any order ---
 */

GM_DEVICE void team_push(const struct graph_work *w, enum graph_layout l, struct graph_team t,
			 struct graph_part part)
{
	uint32_t n = *vertex_at(w, l, part.vertex, VERTEX_NEIGHBORS);
	uint64_t share = n ? w->rank[part.vertex] / n : 0;
	struct graph_span s = part_span(w, l, part);
	for (uint32_t i = t.rank; i < s.count; i += t.size)
		if (l != GRAPH_AIM || s.edge[i] != GRAPH_NONE)
			graph_add(&w->next[s.edge[i]], share);
}

GM_DEVICE void lane_rank(const struct graph_work *w, uint32_t v)
{
	w->rank[v] = graph_rank(w->next[v]);
	w->next[v] = 0;
}

/* --- triangles --- */

struct graph_cursor {
	struct graph_span span;
	uint32_t i;
};

/* The edge where the cursor is; GRAPH_NONE: behind the last one. */
GM_DEVICE uint32_t cursor_edge(const struct graph_work *w, enum graph_layout l,
			       struct graph_cursor *c)
{
	for (; c->span.edge; c->span = span_next(w, l, c->span), c->i = 0)
		for (; c->i < c->span.count; c->i++)
			if (c->span.edge[c->i] != GRAPH_NONE)
				return c->span.edge[c->i];
	return GRAPH_NONE;
}

/* Neighbours below `most` that u and v have in common. */
GM_DEVICE uint32_t common_count(const struct graph_work *w, enum graph_layout l, uint32_t u,
				uint32_t v, uint32_t most)
{
	struct graph_cursor a = {span_first(w, l, u), 0}, b = {span_first(w, l, v), 0};
	uint32_t x = cursor_edge(w, l, &a), y = cursor_edge(w, l, &b), found = 0;
	while (x < most && y < most) {
		bool forth_a = x <= y, forth_b = y <= x;
		found += x == y;
		a.i += forth_a;
		b.i += forth_b;
		if (forth_a)
			x = cursor_edge(w, l, &a);
		if (forth_b)
			y = cursor_edge(w, l, &b);
	}
	return found;
}

/* Triangles whose largest number is the part's vertex: it leads to the other two, and the middle
 * one to the smallest. Of undirected graphs, all triangles. */
GM_DEVICE void team_triangles(struct graph_work *w, enum graph_layout l, struct graph_team t,
			      struct graph_part part)
{
	uint64_t found = 0;
	struct graph_span s = part_span(w, l, part);
	/* In order: behind a larger one are larger ones, and marks. */
	for (uint32_t i = t.rank; i < s.count && s.edge[i] < part.vertex; i += t.size)
		found += common_count(w, l, part.vertex, s.edge[i], s.edge[i]);
	if (found)
		graph_sum(w, triangles, found);
}

/* --- checks --- */

/* Pages of v, each seen once more. A chain that has no end is cut. */
GM_DEVICE uint32_t lane_chain(const struct graph_work *w, enum graph_layout l, uint32_t v)
{
	uint32_t pages = 0, page = *vertex_at(w, l, v, VERTEX_PLACE);
	for (; page < w->page_count && pages <= w->page_count; pages++) {
		gm_add32(&w->seen[page], 1);
		page = *page_next(w, l, page);
	}
	return page == GRAPH_NONE ? pages : GRAPH_NONE;
}

GM_DEVICE void lane_check(struct graph_work *w, enum graph_layout l, uint32_t v)
{
	uint32_t n = *vertex_at(w, l, v, VERTEX_NEIGHBORS);
	uint32_t capacity = *vertex_at(w, l, v, VERTEX_CAPACITY), edges = 0, wrong = 0, least = 0;
	if (l == GRAPH_OURO) {
		uint64_t address = *vertex_address(w, v);
		wrong += capacity != ouro_capacity(n) || (address != 0) != (n != 0) || address % 16;
	} else {
		uint32_t pages = lane_chain(w, l, v);
		wrong += pages == GRAPH_NONE || pages * GRAPH_PAGE_EDGES != capacity;
		wrong += l == GRAPH_FAIM && pages != pages_of(n);
	}
	wrong += *vertex_lock(w, l, v) % 2 != 0 || n > capacity;
	wrong += n && vertex_is_free(w, v);
	for (struct graph_span s = span_first(w, l, v); s.edge && !wrong; s = span_next(w, l, s))
		for (uint32_t i = 0; i < s.count; i++) {
			bool marked = l == GRAPH_AIM && s.edge[i] == GRAPH_NONE;
			edges += !marked;
			wrong += !marked &&
				 (s.edge[i] >= w->vertices || vertex_is_free(w, s.edge[i]));
			wrong += w->in_order && s.edge[i] < least;
			least = marked ? GRAPH_NONE : s.edge[i] + 1;
		}
	wrong += edges != n;
	if (wrong)
		graph_sum(w, broken, wrong);
}

/* A slot of a queue of numbers below `most`. */
GM_DEVICE void lane_check_queue(struct graph_work *w, const struct graph_queue *q, uint32_t most,
				uint32_t i)
{
	uint32_t number = q->slot[i];
	bool filled = ((i - q->front) & q->mask) < q->filled;
	if (number < most)
		gm_add32(&w->seen[number], 1);
	if (filled != (number < most) || (!filled && number != GRAPH_NONE))
		graph_sum(w, broken, 1);
}

/* --- kernels --- */

#ifdef __CUDACC__
#define GRAPH_CONSTANT constexpr GM_DEVICE_HOST
#else
#define GRAPH_CONSTANT GM_DEVICE_HOST
#endif

/* Those that allocate and free; of ouro they are one kernel, for it has malloc of all policies. */
GRAPH_CONSTANT bool is_change(enum graph_kernel k)
{
	return k == GRAPH_BUILD || k == GRAPH_INSERT_RUN || k == GRAPH_DELETE_RUN ||
	       k == GRAPH_INSERT_EDGE || k == GRAPH_DELETE_EDGE || k == GRAPH_INSERT_SORTED ||
	       k == GRAPH_DELETE_SORTED || k == GRAPH_FREE || k == GRAPH_FORGET;
}

/* Those of one lane an item, whatever the worker is. */
GRAPH_CONSTANT bool is_single(enum graph_kernel k)
{
	return k == GRAPH_COUNT_PAGES || k == GRAPH_FIND_RUNS || k == GRAPH_COUNT_EDGES ||
	       k == GRAPH_COLUMNS || k == GRAPH_COUNT_PARTS || k == GRAPH_LIST_PARTS ||
	       k == GRAPH_RANK || k == GRAPH_CHECK || k == GRAPH_CHECK_PAGES ||
	       k == GRAPH_CHECK_QUEUE || (k >= GRAPH_NAME && k != GRAPH_FORGET);
}

GM_DEVICE void lane_change(struct graph_work *w, enum graph_layout l, struct graph_team t,
			   enum graph_kernel k, uint32_t item)
{
	bool edge = k == GRAPH_INSERT_EDGE || k == GRAPH_DELETE_EDGE;
	if (k == GRAPH_BUILD) {
		vertex_build(w, l, item, t);
	} else if (k == GRAPH_FREE) {
		if (t.rank == 0 && l == GRAPH_OURO)
			ouro_free(w, item);
	} else if (k == GRAPH_FORGET) {
		vertex_forget(w, l, item, t);
	} else {
		struct graph_run run = {item, 1, 0, false};
		if (!edge && item >= w->longs + w->shorts)
			return; /* the host did not know how many there are */
		if (edge)
			run.vertex = w->edge[item].from;
		else
			run = run_at(w, item);
		team_update(w, l, t, run, k);
	}
}

/* Of a sorted batch: warps for the first runs, then a lane for each of the others. */
GM_DEVICE void lane_run(struct graph_work *w, enum graph_layout l, enum graph_kernel k,
			uint32_t thread)
{
	uint32_t runs = w->longs + w->shorts, warps = graph_warps(w->longs, w->shorts);
	struct graph_team warp = {GM_WARP, thread % GM_WARP}, lane = {1, 0};
	uint32_t item = warps + (thread - warps * GM_WARP);
	if (thread / GM_WARP < warps)
		team_update(w, l, warp, run_at(w, thread / GM_WARP), k);
	else if (item < runs)
		team_update(w, l, lane, run_at(w, item), k);
}

GM_DEVICE void lane_read(struct graph_work *w, enum graph_layout l, struct graph_team t,
			 enum graph_kernel k, uint32_t item)
{
	switch (k) {
	case GRAPH_COUNT_PAGES:
		w->count[item] = pages_of(w->start[item + 1] - w->start[item]);
		break;
	case GRAPH_FIND_RUNS:
		lane_find_run(w, l, item);
		break;
	case GRAPH_DROP:
		if (l == GRAPH_OURO)
			team_drop(w, t, item);
		break;
	case GRAPH_QUERY:
		team_query(w, l, t, item);
		break;
	case GRAPH_COUNT_EDGES:
		w->count[item] = *vertex_at(w, l, item, VERTEX_NEIGHBORS);
		break;
	case GRAPH_EXPORT:
		team_export(w, l, t, item);
		break;
	case GRAPH_RESTORE:
		team_restore(w, l, t, item);
		break;
	case GRAPH_COLUMNS:
		w->column[item] = w->edge[item].to;
		break;
	case GRAPH_COUNT_PARTS:
		w->count[item] = lane_parts(w, l, item);
		break;
	case GRAPH_LIST_PARTS:
		lane_list_parts(w, l, item);
		break;
	case GRAPH_PUSH:
		team_push(w, l, t, w->part[item]);
		break;
	case GRAPH_RANK:
		lane_rank(w, item);
		break;
	case GRAPH_TRIANGLES:
		team_triangles(w, l, t, w->part[item]);
		break;
	case GRAPH_CHECK:
		lane_check(w, l, item);
		break;
	case GRAPH_CHECK_PAGES:
		if (w->seen[item] != 1)
			graph_sum(w, broken, 1);
		break;
	case GRAPH_CHECK_QUEUE:
		lane_check_queue(w, &w->queue, w->page_count, item);
		break;
	case GRAPH_CHECK_FREE:
		lane_check_queue(w, &w->free, w->vertices, item);
		break;
	case GRAPH_CHECK_NAMES:
		if (w->seen[item] != vertex_is_free(w, item))
			graph_sum(w, broken, 1);
		break;
	default:
		lane_names(w, l, k, item);
		break;
	}
}

/* --- the heap of a policy --- */

GM_DEVICE_HOST uint64_t heap_policy_bytes(uint32_t policy, uint32_t capacity)
{
	switch (policy) {
#define GM_POLICY(name, n, can) \
	case GRAPH_WAY_##n:     \
		return gm_##n##_bytes(capacity);
#include "heap/device/policy.def"
#undef GM_POLICY
	default:
		return 0;
	}
}

/* By all lanes of one warp, after gm_span_collect by one of them. */
GM_DEVICE void lane_heap_init(struct gm_heap *heap, uint32_t policy, uint32_t thread)
{
	switch (policy) {
#define GM_POLICY(name, n, can)                  \
	case GRAPH_WAY_##n:                      \
		gm_##n##_init(heap, thread, 32); \
		break;
#include "heap/device/policy.def"
#undef GM_POLICY
	default:
		break;
	}
}

#endif
