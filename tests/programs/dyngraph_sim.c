/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replaces graph_kernels.cu on the simulated driver: the same code of a lane, on the emulation of
 * lanes; sorts, sums and malloc are the host's. With DYNGRAPH_SIM_WRONG in the environment an edge
 * of vertex 0 has another target, or (=lost) a free page is forgotten, or (=order) two edges of
 * vertex 0 change places, or (=name) vertex 0 has no name any more, or (=free) a free vertex is
 * forgotten, or (=race) a lane that inserts an edge writes to the vertex without its lock.
 * DYNGRAPH_SIM_WORKERS: a file, which gets a line for each launch with GRAPH_ADAPTS.
 */
#include <stdio.h>
#include <string.h>

#include "programs/common/page_heap.h"
#include "programs/graph/graph_lane.h"

struct launch {
	struct graph_work *work;
	enum graph_layout layout;
	uint32_t worker;
	enum graph_kernel kernel;
	uint32_t items;
	bool adapts, races;
};

static void items_run(void *arg, uint32_t thread)
{
	const struct launch *l = arg;
	struct graph_team team = {l->worker, thread % l->worker};
	if (l->adapts) {
		if (thread < l->items)
			lane_run(l->work, l->layout, l->kernel, thread);
		return;
	}
	if (l->races && thread / l->worker < l->items) {
		uint32_t *length =
			vertex_at(l->work, l->layout, l->work->edge[thread / l->worker].from,
				  VERTEX_NEIGHBORS);
		*(volatile uint32_t *)length = *length;
	}
	if (thread / l->worker < l->items)
		(is_change(l->kernel) ? lane_change : lane_read)(l->work, l->layout, team,
								 l->kernel, thread / l->worker);
}

static void wrong_make(const struct launch *l)
{
	const char *how = getenv("DYNGRAPH_SIM_WRONG");
	struct graph_span s = span_first(l->work, l->layout, 0);
	uint32_t first;
	if (!how || l->kernel != GRAPH_COUNT_EDGES)
		return;
	if (strcmp(how, "name") == 0)
		l->work->id[0] = GRAPH_NONE;
	else if (strcmp(how, "free") == 0 && l->work->free.filled)
		l->work->free.filled--;
	else if (strcmp(how, "race") == 0)
		return;
	else if (strcmp(how, "lost") == 0)
		l->work->page_count++;
	else if (strcmp(how, "order") == 0 && s.count > 1) {
		first = s.edge[0];
		s.edge[0] = s.edge[1];
		s.edge[1] = first;
	} else if (s.edge)
		s.edge[0] = s.edge[0] == 1 ? 2 : 1;
}

static void workers_tell(const struct graph_work *w)
{
	const char *path = getenv("DYNGRAPH_SIM_WORKERS");
	FILE *file = path ? fopen(path, "a") : NULL;
	uint32_t warps = graph_warps(w->longs, w->shorts);
	if (!file)
		return;
	fprintf(file, "warps=%u lanes=%u\n", warps, w->longs + w->shorts - warps);
	fclose(file);
}

cudaError_t graph_launch(struct graph_work *work, enum graph_layout layout, uint32_t worker,
			 enum graph_kernel kernel, uint32_t items)
{
	const char *how = getenv("DYNGRAPH_SIM_WRONG");
	bool races = how && strcmp(how, "race") == 0 && kernel == GRAPH_INSERT_EDGE;
	bool adapts = worker == GRAPH_ADAPTS;
	uint32_t lanes = adapts || is_single(kernel) ? 1 : worker;
	struct launch l = {work, layout, lanes, kernel, items, adapts, races};
	struct gm_simt shape = {(items * l.worker + 31) / 32, 8, 1, GM_SIMT_FAIR};
	wrong_make(&l);
	if (adapts)
		workers_tell(work);
	return gm_simt_launch(&shape, items_run, &l) ? cudaSuccess : cudaErrorUnknown;
}

cudaError_t graph_scan(const uint32_t *in, uint32_t *out, uint32_t count, void *scratch,
		       uint64_t bytes)
{
	uint32_t sum = 0;
	(void)scratch;
	(void)bytes;
	for (uint32_t i = 0; i < count; i++) {
		out[i] = sum;
		sum += in[i];
	}
	return cudaSuccess;
}

cudaError_t graph_sort(const struct graph_edge *in, struct graph_edge *out, uint32_t count,
		       unsigned bits, void *scratch, uint64_t bytes)
{
	(void)bits;
	(void)scratch;
	(void)bytes;
	memcpy(out, in, count * sizeof *out);
	graph_edges_sort(out, count);
	return cudaSuccess;
}

uint64_t graph_scratch(uint32_t count)
{
	return count;
}

struct heap_launch {
	struct gm_heap *heap;
	uint32_t policy;
};

static void heap_init(void *arg, uint32_t thread)
{
	const struct heap_launch *l = arg;
	lane_heap_init(l->heap, l->policy, thread);
}

struct page_heap *graph_heap_open(enum graph_way way, uint64_t bytes)
{
	uint32_t capacity = (uint32_t)((bytes + GM_GRANULE - 1) / GM_GRANULE);
	struct gm_simt shape = {1, 1, 1, GM_SIMT_FAIR};
	if (!heap_policy_bytes(way, capacity))
		return NULL;
	struct page_heap *heap = malloc(sizeof *heap);
	if (!heap)
		pr_fail(1, "no memory of the host");
	page_heap_open(heap, capacity, heap_policy_bytes(way, capacity));
	gm_span_collect(heap->device);
	struct heap_launch l = {heap->device, way};
	if (!gm_simt_launch(&shape, heap_init, &l))
		pr_fail(1, "the heap was not made");
	return heap;
}

void *graph_heap_device(struct page_heap *heap)
{
	return heap ? heap->device : NULL;
}

void graph_heap_close(struct page_heap *heap)
{
	if (heap)
		page_heap_close(heap);
	free(heap);
}
