/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dyngraph: dynamic graphs in device memory in the layouts of aimGraph, faimGraph and ouroGraph (M.
 * Winter, 2022, chapters 3, 4 and 6), behind one interface. doc/programs.md has them.
 */
#ifndef DYNGRAPH_H
#define DYNGRAPH_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "programs/common/both.h"
#include "programs/common/coordinates.h"

#ifdef __cplusplus
extern "C" {
#endif

enum graph_layout { GRAPH_AIM, GRAPH_FAIM, GRAPH_OURO, GRAPH_LAYOUTS };

/* A layout, and who allocates. */
enum graph_way {
#define GRAPH_WAY(name, n, layout) GRAPH_WAY_##n,
#include "programs/graph/ways.def"
#undef GRAPH_WAY
#define GM_POLICY(name, n, can) GRAPH_WAY_##n,
#include "heap/device/policy.def"
#undef GM_POLICY
	GRAPH_WAYS
};

/* In one batch: a worker an edge, behind the lock of its vertex; or the batch sorted, and a worker
 * a vertex; the same, and adjacencies stay in order. */
enum graph_update { GRAPH_EDGES, GRAPH_VERTICES, GRAPH_SORTED, GRAPH_UPDATES };

/* Work of algorithms (thesis, section 4.4.1): a page, or as many edges of ouro. */
#define GRAPH_PART_EDGES 32 /* of ouro */
struct graph_part {
	uint32_t vertex, page;
	uint32_t first; /* of its edges, or of aim slots, in the vertex */
};

/* A worker that is as large as its run wants it to be. */
#define GRAPH_ADAPTS 0
#define GRAPH_LONG_RUN 16	 /* edges of a run that is long, ... */
#define GRAPH_LONG_ADJACENCY 128 /* or its vertex has so many: a lane would be the last to end */
/* Fewer runs do not fill the device, even by a warp each. */
#ifndef GRAPH_FEW_RUNS
#define GRAPH_FEW_RUNS 4096
#endif

#define GRAPH_NONE 0xffffffffu /* no vertex, no page */

/* Sorted as one number: by `from`, then by `to`. */
struct graph_edge {
	uint32_t to, from;
};

/* Of aimGraph (an edge block) and faimGraph: the last word is the number of the next page. */
#define GRAPH_PAGE_WORDS 16
#define GRAPH_PAGE_EDGES 15

/* Numbers of free pages, or of free vertices; a ring of a power of two that all of them fit into.
 */
struct graph_queue {
	uint32_t *slot; /* GRAPH_NONE: empty */
	uint32_t mask;
	uint32_t front, back, filled;
};

struct graph_run {
	uint32_t first, count; /* places in `edge` */
	uint32_t vertex;
	uint32_t checked; /* by GRAPH_DROP */
};

/* A long adjacency of ouro is checked for duplicates in pieces, by many warps. */
#define GRAPH_PIECE_EDGES 1024
struct graph_piece {
	uint32_t vertex, run; /* GRAPH_NONE: of none */
	uint32_t first;
};

/* Since the graph was opened, modulo 2^64; warps that are neighbours add to different ones. */
#define GRAPH_STRIPES 64
struct graph_sums {
	uint64_t inserted, deleted, found, lacking, triangles, broken;
	uint64_t held_bytes; /* ouro: of adjacencies */
	uint64_t pad;
};

/* PageRank in whole numbers: the average is GRAPH_ONE, the damping 0.85. `sum`: of the parts that
 * come from neighbours. */
#define GRAPH_ONE (UINT64_C(1) << 32)
PR_BOTH uint64_t graph_rank(uint64_t sum)
{
	return GRAPH_ONE / 100 * 15 + sum / 100 * 85;
}

/* The argument of all kernels, in device memory. */
struct graph_work {
	uint32_t vertices;    /* numbers that were ever taken */
	uint32_t vertex_most; /* that there is room for */
	uint32_t heap_policy; /* enum graph_way; ouro alone */
	void *heap;	      /* struct gm_heap; NULL: malloc of the kernel */
	uint32_t *vertex;     /* management data */
	uint32_t *page;	      /* page 0; the next ones are behind (aim) or in front of it (faim) */
	uint32_t page_most;
	uint32_t page_count; /* pages that were ever taken from the region */
	struct graph_queue queue;
	/* of vertices; NULL, and no slots: none is ever inserted or deleted */
	uint32_t *id; /* names of the host; GRAPH_NONE: the vertex is free */
	struct graph_queue free;
	uint32_t *mapped; /* of each entry of a batch its vertex; GRAPH_NONE: it was there */
	uint32_t changed; /* vertices, by the last batch of them */
	/* input of the build */
	uint32_t *start, *column;
	/* a batch, and its runs */
	struct graph_edge *edge;
	struct graph_run *run;
	uint32_t edges;
	uint32_t longs, shorts; /* runs: long ones from the front of `run`, others from its end */
	struct graph_piece *piece;
	uint32_t pieces, piece_most; /* there may be more than have room, which are not listed */
	uint32_t *displaced; /* as many as `edge` has: ends of edges, while a run is merged */
	uint32_t in_order;   /* adjacencies are: GRAPH_CHECK */
	struct graph_part *part;
	/* of each vertex: a count, and the sum of those in front of it */
	uint32_t *count, *offset;
	uint64_t *rank, *next;
	uint32_t *seen; /* of each page: how often it was found */
	struct graph_sums sums[GRAPH_STRIPES];
};

/* What a kernel does; an item is a vertex, or as it says here. */
enum graph_kernel {
	GRAPH_COUNT_PAGES, /* count: pages that the vertex' edges need; by one lane */
	GRAPH_BUILD,	   /* from start and column; aim, faim: offset is its first page */
	GRAPH_FIND_RUNS,   /* an edge of the sorted batch; by one lane */
	GRAPH_DROP,	   /* item, item + workers ... of the pieces; marks duplicates; by a warp */
	GRAPH_INSERT_RUN,  /* a run */
	GRAPH_DELETE_RUN,
	GRAPH_INSERT_EDGE, /* an edge of the batch */
	GRAPH_DELETE_EDGE,
	GRAPH_INSERT_SORTED, /* a run; adjacencies are in order, and stay so */
	GRAPH_DELETE_SORTED,
	GRAPH_QUERY,	   /* found: an edge of the batch that the graph has */
	GRAPH_COUNT_EDGES, /* count: edges; by one lane */
	GRAPH_EXPORT,	   /* edge[offset...]: its edges */
	GRAPH_RESTORE,	   /* the same edges again, in the order of edge[offset...] */
	GRAPH_COLUMNS,	   /* column: where edge[item] leads; by one lane */
	GRAPH_COUNT_PARTS, /* count: parts; by one lane */
	GRAPH_LIST_PARTS,  /* part[offset...]; by one lane */
	GRAPH_PUSH,	   /* a part; next: a share of the vertex' PageRank to each neighbour */
	GRAPH_RANK,	   /* rank: of next; by one lane */
	GRAPH_TRIANGLES,   /* a part; triangles; adjacencies are in order */
	GRAPH_CHECK,	   /* broken: what is wrong with the vertex; seen; by one lane */
	GRAPH_CHECK_PAGES, /* a page that was ever taken: neither lost nor owned twice; likewise */
	GRAPH_CHECK_QUEUE, /* a slot of the queue, before GRAPH_CHECK_PAGES */
	GRAPH_FREE,	   /* gives its memory back; ouro */
	/* Batches of vertices: an entry of the sorted batch is {place in the batch, id or vertex}.
	 * All but GRAPH_FORGET by one lane. */
	GRAPH_NAME,   /* id: its number */
	GRAPH_FIRSTS, /* an entry; count: 1, the first with its id */
	GRAPH_KNOWN,  /* count of the entry with its id: 0 */
	GRAPH_TAKE,   /* an entry with count 1 gets the vertex of rank offset[item]; mapped */
	GRAPH_TAKEN,  /* one item: the queue, behind GRAPH_TAKE */
	GRAPH_MARK,   /* an entry; count: 1, the first with a vertex that is there; it is free */
	GRAPH_FORGET, /* if it is free, its edges go; else its edges to free ones do */
	GRAPH_GIVE,   /* an entry with count 1: its vertex to the queue */
	GRAPH_GIVEN,  /* one item: the queue, behind GRAPH_GIVE */
	GRAPH_CHECK_FREE,  /* a slot of the free vertices, before GRAPH_CHECK_NAMES */
	GRAPH_CHECK_NAMES, /* broken: it is free and not in the queue, or the reverse */
	GRAPH_KERNELS
};

/* Runs that have a warp, the first ones. */
PR_BOTH uint32_t graph_warps(uint32_t longs, uint32_t shorts)
{
	return longs + shorts < GRAPH_FEW_RUNS ? longs + shorts : longs;
}

/* Of GRAPH_DROP. */
PR_BOTH uint32_t graph_droppers(uint32_t piece_most)
{
	return piece_most < 4096 ? piece_most : 4096;
}

/* --- graph_kernels.cu: each enqueues on the default stream --- */

/* `worker`: 1, a lane an item, or 32, a warp; GRAPH_ADAPTS: as many lanes as items, for all runs,
 * 32 for each of graph_warps and one for each of the others. */
cudaError_t graph_launch(struct graph_work *work, enum graph_layout layout, uint32_t worker,
			 enum graph_kernel kernel, uint32_t items);
/* Sums of those in front, of `count` numbers below 2^32 in total. `scratch`: graph_scratch bytes.
 */
cudaError_t graph_scan(const uint32_t *in, uint32_t *out, uint32_t count, void *scratch,
		       uint64_t bytes);
/* By the lower 32 + `bits` bits. */
cudaError_t graph_sort(const struct graph_edge *in, struct graph_edge *out, uint32_t count,
		       unsigned bits, void *scratch, uint64_t bytes);
/* Of the larger of a scan and a sort of so many. */
uint64_t graph_scratch(uint32_t count);

struct page_heap;
/* NULL: the way has no policy. Ends the process if memory is lacking. */
struct page_heap *graph_heap_open(enum graph_way way, uint64_t bytes);
void *graph_heap_device(struct page_heap *heap);
void graph_heap_close(struct page_heap *heap);

/* --- graph_make.c --- */

/* A graph by name: rmat, mesh, road, or a file of reader.c; of a generated one about `edges`
 * edges, each in both directions. False: *why says it. The caller frees it by pr_rows_free. */
bool graph_make(const char *name, uint64_t edges, struct pr_rows *out, char why[256]);

/* Edges for round `round`: from any vertex, or one of `range` (not 0) vertices side by side, of
 * which each round has others. No edge ends where it began. */
void graph_batch(struct graph_edge *edge, uint32_t count, uint32_t vertices, uint32_t range,
		 uint32_t round);

uint64_t graph_mix(uint64_t a, uint64_t b);

/* --- graph_names.c: the vertices as the CPU has them, whose names are those of the host --- */

struct graph_names {
	uint32_t vertices; /* numbers that were ever taken */
	uint32_t most;
	uint32_t *id;	       /* GRAPH_NONE: free */
	uint32_t *queue;       /* of free ones, the first that was freed at `front` */
	uint32_t front, free;  /* `most` slots; how many are filled */
	uint32_t *live, lives; /* all that are there */
};

/* These end the process if the host lacks memory. Vertices get their number as a name. */
void graph_names_open(struct graph_names *n, uint32_t vertices, uint32_t most);
void graph_names_close(struct graph_names *n);
/* Names for a batch; of 16 one exists, and one comes twice. */
void graph_names_make(const struct graph_names *n, uint32_t *id, uint32_t count, uint32_t round);
/* Vertices for a batch; of 16 one does not exist, and one comes twice. */
void graph_names_choose(const struct graph_names *n, uint32_t *vertex, uint32_t count,
			uint32_t round);
/* `vertex`: of each entry; GRAPH_NONE: it was there. Each returns how many changed. */
uint32_t graph_names_insert(struct graph_names *n, const uint32_t *id, uint32_t count,
			    uint32_t *vertex);
uint32_t graph_names_delete(struct graph_names *n, const uint32_t *vertex, uint32_t count);
/* Edges of places in `live` become edges of vertices. */
void graph_names_edges(const struct graph_names *n, struct graph_edge *edge, uint32_t count);

/* --- graph_model.c: the CPU's graph, all edges in order --- */

struct graph_model {
	struct graph_edge *edge;
	uint64_t edges;
	uint32_t vertices;
};

/* These end the process if the host lacks memory. */
void graph_model_open(struct graph_model *m, const struct pr_rows *rows);
void graph_model_close(struct graph_model *m);
/* How many there were not yet; how many there were. */
uint64_t graph_model_insert(struct graph_model *m, const struct graph_edge *batch, uint32_t count);
uint64_t graph_model_delete(struct graph_model *m, const struct graph_edge *batch, uint32_t count);
/* Edges from and to vertices that are free. Returns how many there were. */
uint64_t graph_model_forget(struct graph_model *m, const struct graph_names *n);
/* How many of the batch there are; one that comes twice counts twice. */
uint64_t graph_model_query(const struct graph_model *m, const struct graph_edge *batch,
			   uint32_t count);
/* The sum of all vertices' rank, mixed with their numbers. */
uint64_t graph_model_pagerank(const struct graph_model *m, uint32_t iterations);
uint64_t graph_model_triangles(const struct graph_model *m);
void graph_edges_sort(struct graph_edge *edge, uint64_t count);
uint64_t graph_edges_checksum(const struct graph_edge *edge, uint64_t count);
uint64_t graph_ranks_checksum(const uint64_t *rank, uint32_t vertices);

/* --- graph_run.c: one graph on the device --- */

struct graph_session;

struct graph_plan {
	enum graph_way way;
	uint32_t worker; /* 1 or 32 */
	bool adapts;	 /* a sorted batch has GRAPH_ADAPTS */
	uint32_t batch;	 /* most edges of an update */
	uint32_t names;	 /* most vertices of one; 0: vertices stay */
	uint32_t more;	 /* vertices that there is room for, besides those of the build */
	uint64_t room;	 /* aim, faim: bytes of the block; a policy: of its heap */
};

const char *graph_way_name(enum graph_way way);
enum graph_layout graph_way_layout(enum graph_way way);
/* Bytes that suffice for `batches` batches and `more` vertices, with all policies that free. */
uint64_t graph_room(const struct pr_rows *rows, enum graph_way way, uint32_t batch,
		    uint32_t batches, uint32_t more);

/* Each of these ends the process if memory is lacking or a call fails; times are in ms. */
struct graph_session *graph_open(const struct pr_rows *rows, const struct graph_plan *plan);
void graph_close(struct graph_session *s);
double graph_build(struct graph_session *s);
/* `changed`: edges that were inserted or deleted. GRAPH_SORTED wants adjacencies in order. */
double graph_update(struct graph_session *s, const struct graph_edge *batch, uint32_t count,
		    enum graph_update how, bool insert, uint64_t *changed);
/* `found`: edges of the batch that the graph has. */
double graph_query(struct graph_session *s, const struct graph_edge *batch, uint32_t count,
		   uint64_t *found);
/* By names; `vertex`: of each entry, GRAPH_NONE: it was there. `changed`: how many are new. */
double graph_vertices_insert(struct graph_session *s, const uint32_t *id, uint32_t count,
			     uint32_t *vertex, uint32_t *changed);
/* By their numbers, with all edges from and to them. `changed`: how many were there. */
double graph_vertices_delete(struct graph_session *s, const uint32_t *vertex, uint32_t count,
			     uint32_t *changed);
/* The name of each vertex; GRAPH_NONE: it is free. The caller frees them. */
uint32_t *graph_vertices_names(struct graph_session *s, uint32_t *vertices);
/* `checksum`: of the ranks. */
double graph_pagerank(struct graph_session *s, uint32_t iterations, uint64_t *checksum);
/* Reinitialisation (thesis, 4.2.1), allocation and cudaFree included. Into a block of `percent` of
 * the present one, at least 100, by copies: of aim and faim, whose pages have numbers. */
double graph_move(struct graph_session *s, unsigned percent);
/* By rows that are made on the device, as a build would have them. */
double graph_compact(struct graph_session *s);
/* Puts each adjacency in order. */
double graph_order(struct graph_session *s);
/* Wants adjacencies in order. */
double graph_triangles(struct graph_session *s, uint64_t *triangles);
/* Bytes in use: management data, adjacencies, and the queue of faim. */
uint64_t graph_footprint(struct graph_session *s);
/* All edges, in order, *count of them; the caller frees them. */
struct graph_edge *graph_edges(struct graph_session *s, uint64_t *count);
/* How much is wrong with the structure: 0. */
uint64_t graph_broken(struct graph_session *s);

#ifdef __cplusplus
}
#endif

#endif
