/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ouroGraph (chapter 6): the edges of a vertex side by side, in one block of a power of two, which
 * an allocator gives. As the authors chose, a block is never larger than the edges need.
 */
#ifndef GRAPH_OURO_H
#define GRAPH_OURO_H

#include "heap/device/policies.h"
#include "programs/graph/graph_pages.h"

#ifndef __CUDACC__
#include <stdlib.h>
#endif

#define OURO_LEAST 4 /* edges of a block: 16 bytes */

/* Edges that the block has room for. */
GM_DEVICE_HOST uint32_t ouro_capacity(uint32_t edges)
{
	uint32_t capacity = OURO_LEAST;
	while (capacity < edges)
		capacity *= 2;
	return edges ? capacity : 0;
}

/* No inlined copies: malloc of every policy is here. */
GM_DEVICE_SLOW void *ouro_take(struct graph_work *w, uint64_t bytes)
{
	switch (w->heap_policy) {
#define GM_POLICY(name, n, can) \
	case GRAPH_WAY_##n:     \
		return gm_##n##_malloc((struct gm_heap *)w->heap, bytes);
#include "heap/device/policy.def"
#undef GM_POLICY
	default:
		return malloc(bytes);
	}
}

GM_DEVICE_SLOW void ouro_give(struct graph_work *w, void *block)
{
	switch (w->heap_policy) {
#define GM_POLICY(name, n, can)                                  \
	case GRAPH_WAY_##n:                                      \
		gm_##n##_free((struct gm_heap *)w->heap, block); \
		break;
#include "heap/device/policy.def"
#undef GM_POLICY
	default:
		free(block);
	}
}

/* By one lane. The vertex is built again, or never used. */
GM_DEVICE void ouro_free(struct graph_work *w, uint32_t v)
{
	uint32_t *block = vertex_block(w, v);
	if (!block)
		return;
	ouro_give(w, block);
	graph_sum(w, held_bytes,
		  0 - *vertex_at(w, GRAPH_OURO, v, VERTEX_CAPACITY) * (uint64_t)sizeof(uint32_t));
}

/* --- edges four at a time: blocks are of 16 bytes, so that the last four are in the block, too ---
 */

struct ouro_quad {
	uint32_t to[4];
} __attribute__((aligned(16)));

GM_DEVICE struct ouro_quad *ouro_quads(const struct graph_work *w, uint32_t v)
{
	return (struct ouro_quad *)vertex_block(w, v);
}

/* Of places from `at` on; behind `n` it has edges to GRAPH_NONE. */
GM_DEVICE struct ouro_quad quad_load(const struct ouro_quad *quad, uint32_t at, uint32_t n)
{
	struct ouro_quad q = {{GRAPH_NONE, GRAPH_NONE, GRAPH_NONE, GRAPH_NONE}};
	if (at >= n)
		return q;
	q = quad[at / 4];
	for (uint32_t k = 1; k < 4; k++)
		q.to[k] = at + k < n ? q.to[k] : GRAPH_NONE;
	return q;
}

/* Mark what the vertex has in the run, of its places from `from` to below `n`. Two loads of a lane
 * are in flight, or an adjacency of thousands of edges would take as many latencies. */
GM_DEVICE void ouro_drop(const struct graph_work *w, uint32_t v, struct graph_edge *run,
			 uint32_t count, uint32_t from, uint32_t n, struct graph_team t)
{
	const struct ouro_quad *quad = ouro_quads(w, v);
	uint32_t least = run[0].to, most = run[count - 1].to;
	for (uint32_t at = from + 4 * t.rank; at < n; at += 8 * t.size) {
		struct ouro_quad a = quad_load(quad, at, n);
		struct ouro_quad b = quad_load(quad, at + 4 * t.size, n);
		for (uint32_t k = 0; k < 8; k++) {
			uint32_t to = k < 4 ? a.to[k] : b.to[k - 4];
			if (to >= least && to <= most)
				run_drop(run, count, to);
		}
	}
}

/* For all lanes of the worker. */
GM_DEVICE bool ouro_has(const struct graph_work *w, uint32_t v, uint32_t to, struct graph_team t)
{
	const struct ouro_quad *quad = ouro_quads(w, v);
	uint32_t n = *vertex_at(w, GRAPH_OURO, v, VERTEX_NEIGHBORS);
	bool found = false;
	for (uint32_t from = 0; from < n && !found; from += 8 * t.size) {
		uint32_t at = from + 4 * t.rank;
		struct ouro_quad a = quad_load(quad, at, n);
		struct ouro_quad b = quad_load(quad, at + 4 * t.size, n);
		for (uint32_t k = 0; k < 4; k++)
			found |= a.to[k] == to || b.to[k] == to;
		found = team_ballot(t, found) != 0;
	}
	return found;
}

/* --- changes --- */

/* The first `n` edges into a block of `capacity`, 0: none. False: there is no memory, and nothing
 * has changed. */
GM_DEVICE bool ouro_move(struct graph_work *w, uint32_t v, uint32_t n, uint32_t capacity,
			 struct graph_team t)
{
	uint64_t *address = vertex_address(w, v), block = 0;
	uint32_t *length = vertex_at(w, GRAPH_OURO, v, VERTEX_CAPACITY), before = *length;
	struct ouro_quad *old = ouro_quads(w, v);
	if (t.rank == 0 && capacity)
		block = (uint64_t)(uintptr_t)ouro_take(w, capacity * sizeof(uint32_t));
	block = team_first64(t, block);
	team_sync(t); /* whoever had the block before has ended */
	if (capacity && !block)
		return false;
	struct ouro_quad *quad = (struct ouro_quad *)(uintptr_t)block;
	for (uint32_t i = 4 * t.rank; i < n; i += 8 * t.size) {
		uint32_t next = i + 4 * t.size;
		struct ouro_quad a = quad_load(old, i, n), b = quad_load(old, next, n);
		quad[i / 4] = a;
		if (next < n)
			quad[next / 4] = b;
	}
	team_sync(t);
	if (t.rank == 0) {
		if (old)
			ouro_give(w, old);
		/* Who has the lock keeps it. */
		gm_store64(address, block | (graph_own64(address) & 1));
		*length = capacity;
		graph_sum(w, held_bytes, ((uint64_t)capacity - before) * sizeof(uint32_t));
	}
	team_sync(t);
	return true;
}

GM_DEVICE void ouro_insert(struct graph_work *w, uint32_t v, struct graph_edge *run, uint32_t count,
			   bool checked, struct graph_team t)
{
	uint32_t n = *vertex_at(w, GRAPH_OURO, v, VERTEX_NEIGHBORS);
	if (!checked)
		ouro_drop(w, v, run, count, 0, n, t);
	count = run_pack(run, count, t);
	uint32_t capacity = ouro_capacity(n + count);
	if (capacity != *vertex_at(w, GRAPH_OURO, v, VERTEX_CAPACITY) &&
	    !ouro_move(w, v, n, capacity, t)) {
		if (t.rank == 0)
			graph_sum(w, lacking, count);
		return;
	}
	uint32_t *edge = vertex_block(w, v);
	for (uint32_t i = t.rank; i < count; i += t.size)
		edge[n + i] = run[i].to;
	team_sync(t);
	if (t.rank == 0 && count) {
		*vertex_at(w, GRAPH_OURO, v, VERTEX_NEIGHBORS) = n + count;
		graph_sum(w, inserted, count);
	}
}

/* The edges that stay, to the front, in their order. Returns how many. The next ones are loaded
 * before these are stored, which lie in front of them. */
GM_DEVICE uint32_t ouro_pack(const struct graph_work *w, uint32_t v, uint32_t n,
			     const struct graph_edge *run, uint32_t count, struct graph_team t)
{
	struct ouro_quad *quad = ouro_quads(w, v), next = quad_load(quad, 4 * t.rank, n);
	uint32_t *edge = (uint32_t *)quad, kept = 0;
	uint32_t least = run ? run[0].to : 0, most = run ? run[count - 1].to : GRAPH_NONE;
	for (uint32_t from = 0; from < n; from += 4 * t.size) {
		uint32_t at = from + 4 * t.rank, place = kept;
		struct ouro_quad now = next;
		next = quad_load(quad, at + 4 * t.size, n);
		for (uint32_t k = 0; k < 4; k++) {
			uint32_t to = now.to[k];
			if (to >= least && to <= most && to != GRAPH_NONE &&
			    edge_leaves(w, run, count, to))
				now.to[k] = GRAPH_NONE;
			uint32_t mask = team_ballot(t, now.to[k] != GRAPH_NONE);
			place += team_before(t, mask);
			kept += gm_popc(mask);
		}
		team_sync(t);
		for (uint32_t k = 0; k < 4; k++) {
			if (now.to[k] != GRAPH_NONE && place != at + k)
				edge[place] = now.to[k];
			place += now.to[k] != GRAPH_NONE;
		}
	}
	team_sync(t);
	return kept;
}

GM_DEVICE void ouro_delete(struct graph_work *w, uint32_t v, const struct graph_edge *run,
			   uint32_t count, struct graph_team t)
{
	uint32_t *neighbors = vertex_at(w, GRAPH_OURO, v, VERTEX_NEIGHBORS), n = *neighbors;
	uint32_t kept = ouro_pack(w, v, n, run, count, t);
	if (kept == n)
		return;
	/* A block that stays too large, as there is no other memory, is no error. */
	uint32_t capacity = ouro_capacity(kept);
	if (capacity != *vertex_at(w, GRAPH_OURO, v, VERTEX_CAPACITY))
		ouro_move(w, v, kept, capacity, t);
	if (t.rank == 0) {
		*neighbors = kept;
		graph_sum(w, deleted, n - kept);
	}
}

GM_DEVICE void ouro_build(struct graph_work *w, uint32_t v, const uint32_t *to, uint32_t count,
			  struct graph_team t)
{
	uint32_t capacity = ouro_capacity(count);
	uint64_t block = 0;
	if (t.rank == 0 && capacity)
		block = (uint64_t)(uintptr_t)ouro_take(w, capacity * sizeof(uint32_t));
	block = team_first64(t, block);
	team_sync(t);
	bool lacks = capacity && !block;
	uint32_t *edge = (uint32_t *)(uintptr_t)block;
	for (uint32_t i = t.rank; i < count && !lacks; i += t.size)
		edge[i] = to[i];
	if (t.rank != 0)
		return;
	*vertex_address(w, v) = block;
	*vertex_at(w, GRAPH_OURO, v, VERTEX_NEIGHBORS) = lacks ? 0 : count;
	*vertex_at(w, GRAPH_OURO, v, VERTEX_CAPACITY) = lacks ? 0 : capacity;
	if (lacks)
		graph_sum(w, lacking, count);
	else
		graph_sum(w, held_bytes, capacity * sizeof(uint32_t));
}

#endif
