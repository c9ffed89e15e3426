/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the layouts are made of: workers of one lane or of a warp, management data of vertices,
 * runs of a batch. For nvcc, and for the emulation of lanes.
 */
#ifndef GRAPH_TEAM_H
#define GRAPH_TEAM_H

#include "heap/device/simt.h"
#include "programs/graph/dyngraph.h"

/* --- workers: calls of a warp's are made by all of its lanes --- */

struct graph_team {
	uint32_t size; /* 1 or 32, a constant where it matters */
	uint32_t rank; /* the caller's */
};

#ifdef __CUDACC__
#define GRAPH_BALLOT(yes) __ballot_sync(~0u, (yes))
#define GRAPH_SHFL32(value) __shfl_sync(~0u, (value), 0)
#define GRAPH_SYNC() __syncwarp(~0u)
#define graph_add(at, value) \
	((void)atomicAdd((unsigned long long *)(at), (unsigned long long)(value)))
#define graph_own64(at) (*(at))
#else
#define GRAPH_BALLOT(yes) gm_ballot(~0u, (yes))
#define GRAPH_SHFL32(value) gm_shfl32(~0u, (value), 0)
#define GRAPH_SYNC() gm_syncwarp(~0u)
#define graph_add(at, value) ((void)gm_add64((at), (value)))
/* ThreadSanitizer takes a compare-and-swap that fails for a write. */
#define graph_own64(at) __atomic_load_n((at), __ATOMIC_RELAXED)
#endif

#define graph_sum(w, name, value) graph_add(&(w)->sums[gm_seat() % GRAPH_STRIPES].name, (value))

/* A bit for each lane that says yes. */
GM_DEVICE uint32_t team_ballot(struct graph_team t, bool yes)
{
	return t.size == 1 ? yes : GRAPH_BALLOT(yes);
}

/* What the first lane has. */
GM_DEVICE uint32_t team_first(struct graph_team t, uint32_t value)
{
	return t.size == 1 ? value : GRAPH_SHFL32(value);
}

GM_DEVICE uint64_t team_first64(struct graph_team t, uint64_t value)
{
	uint32_t high = team_first(t, (uint32_t)(value >> 32));
	return (uint64_t)high << 32 | team_first(t, (uint32_t)value);
}

/* What a lane wrote is there for the others. */
GM_DEVICE void team_sync(struct graph_team t)
{
	if (t.size != 1)
		GRAPH_SYNC();
}

/* How many lanes of `mask` are in front of the caller. */
GM_DEVICE uint32_t team_before(struct graph_team t, uint32_t mask)
{
	return t.size == 1 ? 0 : gm_popc(mask & ((1u << t.rank) - 1));
}

/* --- vertices: a structure of arrays in aimGraph, an array of structures in the others --- */

enum vertex_word {
	VERTEX_PLACE, /* of its first page; ouro: the address, two words */
	VERTEX_NEIGHBORS,
	VERTEX_CAPACITY,
	VERTEX_LOCK, /* ouro: the lowest bit of the address, which makes it 8 bytes less a vertex */
	VERTEX_WORDS
};

GM_DEVICE uint32_t *vertex_at(const struct graph_work *w, enum graph_layout l, uint32_t v,
			      enum vertex_word word)
{
	if (l == GRAPH_AIM)
		return w->vertex + (uint64_t)word * w->vertex_most + v;
	return w->vertex + (uint64_t)v * VERTEX_WORDS + word +
	       (l == GRAPH_OURO && word != VERTEX_PLACE);
}

/* With the lock. */
GM_DEVICE uint64_t *vertex_address(const struct graph_work *w, uint32_t v)
{
	return (uint64_t *)vertex_at(w, GRAPH_OURO, v, VERTEX_PLACE);
}

/* Of ouro; NULL: it has no edges. Others may only try to take a lock that the caller has. */
GM_DEVICE uint32_t *vertex_block(const struct graph_work *w, uint32_t v)
{
	return (uint32_t *)(uintptr_t)(graph_own64(vertex_address(w, v)) & ~UINT64_C(1));
}

GM_DEVICE uint32_t vertex_neighbors(const struct graph_work *w, enum graph_layout l, uint32_t v)
{
	return gm_load32(vertex_at(w, l, v, VERTEX_NEIGHBORS));
}

GM_DEVICE uint32_t *vertex_lock(const struct graph_work *w, enum graph_layout l, uint32_t v)
{
	return vertex_at(w, l, v, l == GRAPH_OURO ? VERTEX_PLACE : VERTEX_LOCK);
}

/* True, for all lanes of the worker: it has the lock, which orders what they read behind it. */
GM_DEVICE bool vertex_try_lock(const struct graph_work *w, enum graph_layout l, uint32_t v,
			       struct graph_team t)
{
	uint32_t holds = 0;
	if (t.rank == 0) {
		uint32_t *lock = vertex_lock(w, l, v), was = gm_load32(lock);
		holds = was % 2 == 0 && gm_cas32(lock, was, was | 1) == was;
	}
	holds = team_first(t, holds);
	team_sync(t);
	return holds;
}

GM_DEVICE void vertex_unlock(const struct graph_work *w, enum graph_layout l, uint32_t v,
			     struct graph_team t)
{
	uint32_t *lock = vertex_lock(w, l, v);
	team_sync(t);
	if (t.rank == 0)
		gm_store32_release(lock, gm_load32(lock) & ~1u);
}

/* --- runs: edges of one vertex, in order; the worker has them for itself --- */

/* The place of the first edge that does not lead to a vertex below `to`. */
GM_DEVICE uint32_t run_find(const struct graph_edge *run, uint32_t count, uint32_t to)
{
	uint32_t low = 0;
	while (low < count) {
		uint32_t middle = low + (count - low) / 2;
		if (run[middle].to < to)
			low = middle + 1;
		else
			count = middle;
	}
	return low;
}

GM_DEVICE bool run_has(const struct graph_edge *run, uint32_t count, uint32_t to)
{
	uint32_t at = run_find(run, count, to);
	return at < count && run[at].to == to;
}

/* An edge that leaves its vertex: one of the run; without a run, one to a free vertex. */
GM_DEVICE bool edge_leaves(const struct graph_work *w, const struct graph_edge *run, uint32_t count,
			   uint32_t to)
{
	return run ? run_has(run, count, to) : w->id[to] == GRAPH_NONE;
}

/* The graph has that edge: it is not to be inserted. */
GM_DEVICE void run_drop(struct graph_edge *run, uint32_t count, uint32_t to)
{
	uint32_t at = run_find(run, count, to);
	if (at < count && run[at].to == to)
		run[at].from = GRAPH_NONE;
}

/* Behind run_drop of all edges of the vertex: those to be inserted to the front, each once. Returns
 * how many. */
GM_DEVICE uint32_t run_pack(struct graph_edge *run, uint32_t count, struct graph_team t)
{
	uint32_t kept = 0;
	team_sync(t);
	for (uint32_t from = 0; from < count; from += t.size) {
		uint32_t i = from + t.rank;
		struct graph_edge edge = {0, GRAPH_NONE};
		bool keep = false;
		if (i < count) {
			edge = run[i];
			/* No other edge was put there yet. */
			keep = edge.from != GRAPH_NONE && (i == 0 || run[i - 1].to != edge.to);
		}
		uint32_t mask = team_ballot(t, keep);
		team_sync(t);
		uint32_t place = kept + team_before(t, mask);
		if (keep && place != i)
			run[place] = edge;
		kept += gm_popc(mask);
	}
	team_sync(t);
	return kept;
}

#endif
