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
	uint64_t address = *vertex_address(w, v);
	if (!address)
		return;
	ouro_give(w, (void *)(uintptr_t)address);
	graph_sum(w, held_bytes,
		  0 - *vertex_at(w, GRAPH_OURO, v, VERTEX_CAPACITY) * (uint64_t)sizeof(uint32_t));
}

/* The first `n` edges into a block of `capacity`, 0: none. False: there is no memory, and nothing
 * has changed. */
GM_DEVICE bool ouro_move(struct graph_work *w, uint32_t v, uint32_t n, uint32_t capacity,
			 struct graph_team t)
{
	uint64_t *address = vertex_address(w, v), block = 0;
	uint32_t *length = vertex_at(w, GRAPH_OURO, v, VERTEX_CAPACITY), before = *length;
	const uint32_t *old = (const uint32_t *)(uintptr_t)*address;
	if (t.rank == 0 && capacity)
		block = (uint64_t)(uintptr_t)ouro_take(w, capacity * sizeof(uint32_t));
	block = team_first64(t, block);
	if (capacity && !block)
		return false;
	uint32_t *edge = (uint32_t *)(uintptr_t)block;
	for (uint32_t i = t.rank; i < n; i += t.size)
		edge[i] = old[i];
	team_sync(t);
	if (t.rank == 0) {
		if (old)
			ouro_give(w, (void *)(uintptr_t)*address);
		*address = block;
		*length = capacity;
		graph_sum(w, held_bytes, ((uint64_t)capacity - before) * sizeof(uint32_t));
	}
	team_sync(t);
	return true;
}

GM_DEVICE void ouro_insert(struct graph_work *w, uint32_t v, struct graph_edge *run, uint32_t count,
			   struct graph_team t)
{
	uint32_t n = *vertex_at(w, GRAPH_OURO, v, VERTEX_NEIGHBORS);
	spans_drop(w, GRAPH_OURO, v, run, count, t);
	count = run_pack(run, count, t);
	uint32_t capacity = ouro_capacity(n + count);
	if (capacity != *vertex_at(w, GRAPH_OURO, v, VERTEX_CAPACITY) &&
	    !ouro_move(w, v, n, capacity, t)) {
		if (t.rank == 0)
			graph_sum(w, lacking, count);
		return;
	}
	uint32_t *edge = (uint32_t *)(uintptr_t)*vertex_address(w, v);
	for (uint32_t i = t.rank; i < count; i += t.size)
		edge[n + i] = run[i].to;
	team_sync(t);
	if (t.rank == 0 && count) {
		*vertex_at(w, GRAPH_OURO, v, VERTEX_NEIGHBORS) = n + count;
		graph_sum(w, inserted, count);
	}
}

GM_DEVICE void ouro_delete(struct graph_work *w, uint32_t v, const struct graph_edge *run,
			   uint32_t count, struct graph_team t)
{
	uint32_t *neighbors = vertex_at(w, GRAPH_OURO, v, VERTEX_NEIGHBORS);
	uint32_t n = *neighbors, kept = 0;
	uint32_t *edge = (uint32_t *)(uintptr_t)*vertex_address(w, v);
	for (uint32_t from = 0; from < n; from += t.size) {
		uint32_t i = from + t.rank, to = i < n ? edge[i] : GRAPH_NONE;
		bool keep = i < n && !edge_leaves(w, run, count, to);
		uint32_t mask = team_ballot(t, keep), at = kept + team_before(t, mask);
		team_sync(t);
		if (keep && at != i)
			edge[at] = to;
		kept += gm_popc(mask);
	}
	team_sync(t);
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
	bool lacks = capacity && !block;
	uint32_t *edge = (uint32_t *)(uintptr_t)block;
	for (uint32_t i = t.rank; i < count && !lacks; i += t.size)
		edge[i] = to[i];
	if (t.rank != 0)
		return;
	*vertex_address(w, v) = block;
	*vertex_at(w, GRAPH_OURO, v, VERTEX_NEIGHBORS) = lacks ? 0 : count;
	*vertex_at(w, GRAPH_OURO, v, VERTEX_CAPACITY) = lacks ? 0 : capacity;
	*vertex_at(w, GRAPH_OURO, v, VERTEX_LOCK) = 0;
	if (lacks)
		graph_sum(w, lacking, count);
	else
		graph_sum(w, held_bytes, capacity * sizeof(uint32_t));
}

#endif
