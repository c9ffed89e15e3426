/* SPDX-License-Identifier: BSD-3-Clause */
/* A graph on the device: its memory, and what the host asks for. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "programs/graph/graph_session.h"

static const struct {
	const char *name;
	enum graph_layout layout;
} ways[GRAPH_WAYS] = {
#define GRAPH_WAY(name, n, layout) {name, layout},
#include "programs/graph/ways.def"
#undef GRAPH_WAY
#define GM_POLICY(name, n, can) {name, GRAPH_OURO},
#include "heap/device/policy.def"
#undef GM_POLICY
};

const char *graph_way_name(enum graph_way way)
{
	return ways[way].name;
}

enum graph_layout graph_way_layout(enum graph_way way)
{
	return ways[way].layout;
}

/* --- memory --- */

static uint64_t words_bytes(uint64_t words)
{
	return (words * sizeof(uint32_t) + 127) / 128 * 128;
}

static uint64_t vertices_bytes(uint32_t vertices)
{
	return words_bytes(UINT64_C(4) * vertices);
}

static uint64_t ring_words(uint32_t most)
{
	uint64_t words = 1;
	while (words < most)
		words *= 2;
	return words;
}

/* The names of vertices, and the queue of free ones; only if vertices come and go. */
static uint64_t names_bytes(uint32_t most)
{
	return words_bytes(most) + words_bytes(ring_words(most));
}

/* Bytes of pages, or of blocks of powers of two. */
static uint64_t adjacencies_bytes(const struct pr_rows *rows, enum graph_layout layout)
{
	uint64_t sum = 0;
	for (uint32_t v = 0; v < rows->rows; v++) {
		uint32_t edges = rows->start[v + 1] - rows->start[v];
		uint64_t pages = (edges + GRAPH_PAGE_EDGES - 1) / GRAPH_PAGE_EDGES, block = 16;
		while (block < edges * sizeof(uint32_t))
			block *= 2;
		sum += layout != GRAPH_OURO ? pages * PAGE_BYTES : edges ? block : 0;
	}
	return sum;
}

uint64_t graph_room(const struct pr_rows *rows, enum graph_way way, uint32_t batch,
		    uint32_t batches, uint32_t more)
{
	enum graph_layout layout = ways[way].layout;
	uint64_t names = more ? names_bytes(rows->rows + more) : 0;
	uint64_t built = adjacencies_bytes(rows, layout), updates = (uint64_t)batch * batches;
	/* A page an edge, at most, and its slot of the queue. */
	if (layout != GRAPH_OURO)
		return vertices_bytes(rows->rows + more) + names +
		       (built / PAGE_BYTES + updates + 64) * (PAGE_BYTES + 2 * sizeof(uint32_t));
	/* An edge may move all others of its vertex, to a block of another size. 2 MiB at least for
	 * each size, of which there are 32 at most: a policy may keep a granule for blocks of one.
	 */
	return 6 * built + 128 * updates + (80u << 20);
}

/* The front of the block; `array`: bytes of the vertices themselves. */
static void vertices_divide(struct graph_session *s, uint64_t array)
{
	struct graph_work *w = &s->work;
	w->vertex = s->block;
	if (!s->plan.names)
		return;
	w->id = (uint32_t *)((char *)s->block + array);
	w->free.slot = (uint32_t *)((char *)w->id + words_bytes(w->vertex_most));
	w->free.mask = (uint32_t)(ring_words(w->vertex_most) - 1);
}

static void block_divide(struct graph_session *s)
{
	struct graph_work *w = &s->work;
	uint64_t queue = sizeof(uint32_t), most = s->room;
	uint64_t array = vertices_bytes(w->vertex_most);
	s->vertices = array + (s->plan.names ? names_bytes(w->vertex_most) : 0);
	w->queue.mask = 0;
	if (s->layout == GRAPH_OURO) {
		s->block = pr_take(s->vertices);
		vertices_divide(s, array);
		return;
	}
	uint64_t pages = most > s->vertices ? (most - s->vertices) / (PAGE_BYTES + 8) : 0;
	pages = pages < UINT32_MAX / 4 ? pages : UINT32_MAX / 4;
	while (s->layout == GRAPH_FAIM && queue < pages * sizeof(uint32_t))
		queue *= 2;
	s->block = pr_take(s->vertices + pages * PAGE_BYTES + queue);
	vertices_divide(s, array);
	w->page_most = (uint32_t)pages;
	char *region = (char *)s->block + s->vertices, *end = region + pages * PAGE_BYTES;
	w->page = (uint32_t *)(s->layout == GRAPH_AIM || !pages ? region : end - PAGE_BYTES);
	w->queue.slot = (uint32_t *)end;
	w->queue.mask = (uint32_t)(queue / sizeof(uint32_t) - 1);
}

static void work_take(struct graph_session *s, const struct pr_rows *rows)
{
	struct graph_work *w = &s->work;
	uint64_t starts = (w->vertices + UINT64_C(1)) * sizeof(uint32_t);
	uint64_t edges = rows->start[rows->rows] * sizeof(uint32_t), batch = s->plan.batch;
	uint64_t most = w->vertex_most, names = s->plan.names;
	batch = batch > names ? batch : names;
	uint64_t numbers = ((most > names ? most : names) + 1) * sizeof(uint32_t);
	w->start = pr_take(starts);
	w->column = pr_take(edges);
	w->count = pr_take(numbers);
	w->offset = pr_take(numbers);
	w->rank = pr_take(most * sizeof *w->rank);
	w->next = pr_take(most * sizeof *w->next);
	w->mapped = pr_take(names * sizeof *w->mapped);
	/* Twice as many as all edges fill, for the last piece of each vertex. */
	if (s->layout == GRAPH_OURO && most > GRAPH_PIECE_EDGES)
		s->pieces = (uint32_t)(2 * (s->first + batch) / GRAPH_PIECE_EDGES + 64);
	w->piece = pr_take(s->pieces * sizeof *w->piece);
	w->run = pr_take(batch * sizeof *w->run);
	w->displaced = pr_take(batch * sizeof *w->displaced);
	s->batch = pr_take(batch * sizeof *s->batch);
	s->sorted = pr_take(batch * sizeof *s->sorted);
	s->scratch_bytes = graph_scratch((uint32_t)(batch > most ? batch : most) + 1);
	s->scratch = pr_take(s->scratch_bytes);
	s->on_device = pr_take(sizeof *w);
	PR_MUST(cudaMemcpy(w->start, rows->start, starts, cudaMemcpyHostToDevice));
	PR_MUST(cudaMemcpy(w->column, rows->column, edges, cudaMemcpyHostToDevice));
	PR_MUST(cudaMemset(w->count, 0, numbers));
}

struct graph_session *graph_open(const struct pr_rows *rows, const struct graph_plan *plan)
{
	struct graph_session *s = calloc(1, sizeof *s);
	if (!s)
		pr_fail(1, "no memory of the host");
	s->plan = *plan;
	s->layout = ways[plan->way].layout;
	s->first = rows->start[rows->rows];
	s->rows = s->work.vertices = rows->rows;
	s->work.vertex_most = rows->rows + (plan->names ? plan->more : 0);
	s->work.heap_policy = plan->way;
	s->work.in_order = 1;
	s->room = plan->room;
	block_divide(s);
	work_take(s, rows);
	s->heap = graph_heap_open(plan->way, plan->room);
	s->work.heap = graph_heap_device(s->heap);
	return s;
}

void graph_session_launch_by(struct graph_session *s, uint32_t worker, enum graph_kernel kernel,
			     uint32_t items)
{
	if (items)
		PR_MUST(graph_launch(s->on_device, s->layout, worker, kernel, items));
}

void graph_session_launch(struct graph_session *s, enum graph_kernel kernel, uint32_t items)
{
	graph_session_launch_by(s, s->plan.worker, kernel, items);
}

static void adjacencies_free(struct graph_session *s)
{
	if (s->built && s->layout == GRAPH_OURO)
		graph_session_launch(s, GRAPH_FREE, s->work.vertices);
	PR_MUST(cudaDeviceSynchronize());
	s->built = false;
}

void graph_close(struct graph_session *s)
{
	struct graph_work *w = &s->work;
	adjacencies_free(s);
	void *blocks[] = {w->start, w->column, w->count,     w->offset,	   w->rank,
			  w->next,  w->run,    w->displaced, w->mapped,	   w->piece,
			  s->batch, s->sorted, s->scratch,   s->on_device, s->block};
	for (unsigned i = 0; i < sizeof blocks / sizeof *blocks; i++)
		PR_MUST(cudaFree(blocks[i]));
	graph_heap_close(s->heap);
	free(s);
}

/* --- the argument of kernels --- */

void graph_session_read(struct graph_session *s, struct graph_work *out, struct graph_sums *sum)
{
	PR_MUST(cudaMemcpy(out, s->on_device, sizeof *out, cudaMemcpyDeviceToHost));
	*sum = (struct graph_sums){0};
	for (unsigned i = 0; i < GRAPH_STRIPES; i++) {
		sum->inserted += out->sums[i].inserted;
		sum->deleted += out->sums[i].deleted;
		sum->found += out->sums[i].found;
		sum->lacking += out->sums[i].lacking;
		sum->triangles += out->sums[i].triangles;
		sum->broken += out->sums[i].broken;
		sum->held_bytes += out->sums[i].held_bytes;
	}
	if (sum->lacking)
		pr_fail(1, "%s: %llu edges had no memory: a larger --room is needed",
			ways[s->plan.way].name, (unsigned long long)sum->lacking);
}

static uint64_t edges_now(struct graph_session *s)
{
	struct graph_work w;
	struct graph_sums sum;
	graph_session_read(s, &w, &sum);
	return s->first + sum.inserted - sum.deleted;
}

/* --- build --- */

/* Of the rows that kernels have. */
static void adjacencies_make(struct graph_session *s)
{
	const struct graph_work *w = &s->work;
	uint32_t pages = 0, vertices = w->vertices;
	if (s->layout == GRAPH_FAIM)
		PR_MUST(cudaMemset(w->queue.slot, 0xff, (w->queue.mask + 1) * sizeof(uint32_t)));
	if (s->layout != GRAPH_OURO) {
		graph_session_launch(s, GRAPH_COUNT_PAGES, vertices);
		PR_MUST(graph_scan(w->count, w->offset, vertices + 1, s->scratch,
				   s->scratch_bytes));
		PR_MUST(cudaMemcpy(&pages, w->offset + vertices, sizeof pages,
				   cudaMemcpyDeviceToHost));
		if (pages > w->page_most)
			pr_fail(1,
				"%s: %u pages are needed, and there are %u: a larger --room is "
				"needed",
				ways[s->plan.way].name, pages, w->page_most);
		WORK_SET(s, page_count, pages);
	}
	graph_session_launch(s, GRAPH_BUILD, vertices);
	PR_MUST(cudaDeviceSynchronize());
	s->built = true;
}

double graph_build(struct graph_session *s)
{
	struct graph_work now;
	struct graph_sums sum;
	adjacencies_free(s);
	if (s->room != s->plan.room) {
		PR_MUST(cudaFree(s->block));
		s->room = s->plan.room;
		block_divide(s);
	}
	s->work.vertices = s->rows;
	PR_MUST(cudaMemcpy(s->on_device, &s->work, sizeof s->work, cudaMemcpyHostToDevice));
	double begin = pr_now_ms();
	if (s->plan.names) {
		uint64_t slots = s->work.free.mask + UINT64_C(1);
		PR_MUST(cudaMemset(s->work.free.slot, 0xff, slots * sizeof(uint32_t)));
		graph_session_launch(s, GRAPH_NAME, s->rows);
	}
	adjacencies_make(s);
	double ms = pr_now_ms() - begin;
	graph_session_read(s, &now, &sum);
	return ms;
}

/* --- algorithms --- */

/* Room for the parts, which parts_list finds; the caller frees it. */
static struct graph_part *parts_take(struct graph_session *s)
{
	struct graph_work w;
	struct graph_sums sum;
	graph_session_read(s, &w, &sum);
	uint64_t edges = s->first + sum.inserted - sum.deleted;
	uint64_t most =
		s->layout == GRAPH_OURO ? w.vertices + edges / GRAPH_PART_EDGES : w.page_count;
	struct graph_part *part = pr_take(most * sizeof *part);
	WORK_SET(s, part, part);
	PR_MUST(cudaDeviceSynchronize());
	return part;
}

/* Returns how many. */
static uint32_t parts_list(struct graph_session *s)
{
	const struct graph_work *w = &s->work;
	uint32_t parts;
	graph_session_launch(s, GRAPH_COUNT_PARTS, w->vertices);
	PR_MUST(graph_scan(w->count, w->offset, w->vertices + 1, s->scratch, s->scratch_bytes));
	graph_session_launch(s, GRAPH_LIST_PARTS, w->vertices);
	PR_MUST(cudaMemcpy(&parts, w->offset + w->vertices, sizeof parts, cudaMemcpyDeviceToHost));
	return parts;
}

double graph_pagerank(struct graph_session *s, uint32_t iterations, uint64_t *checksum)
{
	uint32_t vertices = s->work.vertices;
	uint64_t bytes = vertices * sizeof(uint64_t), *rank = malloc(bytes);
	if (!rank)
		pr_fail(1, "no memory of the host");
	for (uint32_t v = 0; v < vertices; v++)
		rank[v] = GRAPH_ONE;
	PR_MUST(cudaMemcpy(s->work.rank, rank, bytes, cudaMemcpyHostToDevice));
	PR_MUST(cudaMemset(s->work.next, 0, bytes));
	struct graph_part *part = parts_take(s);
	double begin = pr_now_ms();
	uint32_t parts = parts_list(s);
	for (uint32_t i = 0; i < iterations; i++) {
		graph_session_launch(s, GRAPH_PUSH, parts);
		graph_session_launch(s, GRAPH_RANK, vertices);
	}
	PR_MUST(cudaDeviceSynchronize());
	double ms = pr_now_ms() - begin;
	PR_MUST(cudaMemcpy(rank, s->work.rank, bytes, cudaMemcpyDeviceToHost));
	*checksum = graph_ranks_checksum(rank, vertices);
	PR_MUST(cudaFree(part));
	free(rank);
	return ms;
}

/* All edges by vertex, and sorted; both blocks are the caller's. */
struct all_edges {
	struct graph_edge *found, *sorted;
	void *scratch;
	uint64_t scratch_bytes;
	uint32_t count;
};

static struct all_edges all_take(struct graph_session *s)
{
	struct all_edges all = {.count = (uint32_t)edges_now(s)};
	all.scratch_bytes =
		graph_scratch(all.count > s->work.vertices ? all.count : s->work.vertices + 1);
	all.found = pr_take(all.count * sizeof *all.found);
	all.sorted = pr_take(all.count * sizeof *all.sorted);
	all.scratch = pr_take(all.scratch_bytes);
	WORK_SET(s, edge, all.found);
	return all;
}

static void all_free(struct all_edges *all)
{
	PR_MUST(cudaFree(all->found));
	PR_MUST(cudaFree(all->sorted));
	PR_MUST(cudaFree(all->scratch));
}

static void all_sort(struct graph_session *s, struct all_edges *all)
{
	const struct graph_work *w = &s->work;
	graph_session_launch(s, GRAPH_COUNT_EDGES, w->vertices);
	PR_MUST(graph_scan(w->count, w->offset, w->vertices + 1, all->scratch, all->scratch_bytes));
	graph_session_launch(s, GRAPH_EXPORT, w->vertices);
	if (all->count)
		PR_MUST(graph_sort(all->found, all->sorted, all->count, 32, all->scratch,
				   all->scratch_bytes));
}

double graph_order(struct graph_session *s)
{
	struct all_edges all = all_take(s);
	PR_MUST(cudaDeviceSynchronize());
	double begin = pr_now_ms();
	all_sort(s, &all);
	WORK_SET(s, edge, all.sorted);
	graph_session_launch(s, GRAPH_RESTORE, s->work.vertices);
	WORK_SET(s, in_order, 1);
	PR_MUST(cudaDeviceSynchronize());
	double ms = pr_now_ms() - begin;
	all_free(&all);
	return ms;
}

/* --- reinitialisation --- */

/* What is used of the pages, and the queue, to where `now` says; `was`: where they are. */
static void pages_copy(const struct graph_session *s, const struct graph_work *was,
		       struct graph_work *now)
{
	uint64_t used = now->page_count * (uint64_t)PAGE_BYTES;
	struct graph_queue *q = &now->queue;
	/* Where the used pages begin: those of faim go down. */
	uint64_t front = s->layout == GRAPH_FAIM && used ? used - PAGE_BYTES : 0;
	PR_MUST(cudaMemcpyAsync((char *)now->page - front, (char *)was->page - front, used,
				cudaMemcpyDeviceToDevice, NULL));
	if (s->layout != GRAPH_FAIM)
		return;
	PR_MUST(cudaMemsetAsync(q->slot, 0xff, (q->mask + UINT64_C(1)) * sizeof *q->slot, NULL));
	for (uint32_t done = 0, part; done < q->filled; done += part) {
		uint32_t from = (was->queue.front + done) & was->queue.mask;
		uint32_t to_end = was->queue.mask + 1 - from;
		part = q->filled - done < to_end ? q->filled - done : to_end;
		PR_MUST(cudaMemcpyAsync(q->slot + done, was->queue.slot + from,
					part * sizeof *q->slot, cudaMemcpyDeviceToDevice, NULL));
	}
	q->front = 0;
	q->back = q->filled;
}

double graph_move(struct graph_session *s, unsigned percent)
{
	struct graph_work was, now;
	struct graph_sums sum;
	void *old = s->block;
	graph_session_read(s, &was, &sum);
	double begin = pr_now_ms();
	s->room = s->room / 100 * percent;
	block_divide(s);
	now = was;
	now.vertex = s->work.vertex;
	now.page = s->work.page;
	now.page_most = s->work.page_most;
	now.queue.slot = s->work.queue.slot;
	now.queue.mask = s->work.queue.mask;
	now.id = s->work.id;
	now.free.slot = s->work.free.slot;
	PR_MUST(cudaMemcpyAsync(now.vertex, was.vertex, s->vertices, cudaMemcpyDeviceToDevice,
				NULL));
	pages_copy(s, &was, &now);
	PR_MUST(cudaMemcpy(s->on_device, &now, sizeof now, cudaMemcpyHostToDevice));
	PR_MUST(cudaFree(old));
	PR_MUST(cudaDeviceSynchronize());
	return pr_now_ms() - begin;
}

double graph_compact(struct graph_session *s)
{
	const struct graph_work *w = &s->work;
	uint64_t starts = (w->vertices + UINT64_C(1)) * sizeof *w->start;
	double begin = pr_now_ms();
	struct all_edges all = all_take(s);
	uint32_t *start = pr_take(starts), *column = pr_take(all.count * sizeof *column);
	all_sort(s, &all);
	PR_MUST(cudaMemcpyAsync(start, w->offset, starts, cudaMemcpyDeviceToDevice, NULL));
	WORK_SET(s, edge, all.sorted);
	WORK_SET(s, start, start);
	WORK_SET(s, column, column);
	graph_session_launch(s, GRAPH_COLUMNS, all.count);
	adjacencies_free(s);
	WORK_SET(s, queue, w->queue);
	adjacencies_make(s);
	WORK_SET(s, in_order, 1);
	PR_MUST(cudaFree(start));
	PR_MUST(cudaFree(column));
	all_free(&all);
	return pr_now_ms() - begin;
}

double graph_triangles(struct graph_session *s, uint64_t *triangles)
{
	struct graph_work w;
	struct graph_sums before, after;
	graph_session_read(s, &w, &before);
	struct graph_part *part = parts_take(s);
	double begin = pr_now_ms();
	graph_session_launch(s, GRAPH_TRIANGLES, parts_list(s));
	PR_MUST(cudaDeviceSynchronize());
	double ms = pr_now_ms() - begin;
	PR_MUST(cudaFree(part));
	graph_session_read(s, &w, &after);
	*triangles = after.triangles - before.triangles;
	return ms;
}

/* --- questions --- */

uint64_t graph_footprint(struct graph_session *s)
{
	struct graph_work w;
	struct graph_sums sum;
	graph_session_read(s, &w, &sum);
	/* Those of aim are arrays of their own, with room for all. */
	uint64_t vertices = s->vertices;
	if (s->layout != GRAPH_AIM)
		vertices -= vertices_bytes(w.vertex_most) - vertices_bytes(w.vertices);
	if (s->layout == GRAPH_OURO)
		return vertices + sum.held_bytes;
	uint64_t queue = s->layout == GRAPH_FAIM ? (w.queue.mask + 1) * sizeof(uint32_t) : 0;
	return vertices + queue + (w.page_count - w.queue.filled) * PAGE_BYTES;
}

struct graph_edge *graph_edges(struct graph_session *s, uint64_t *count)
{
	struct all_edges all = all_take(s);
	struct graph_edge *edge = malloc((all.count + UINT64_C(1)) * sizeof *edge);
	if (!edge)
		pr_fail(1, "no memory of the host");
	all_sort(s, &all);
	PR_MUST(cudaMemcpy(edge, all.sorted, all.count * sizeof *edge, cudaMemcpyDeviceToHost));
	*count = all.count;
	all_free(&all);
	return edge;
}

uint64_t graph_broken(struct graph_session *s)
{
	struct graph_work w;
	struct graph_sums before, after;
	graph_session_read(s, &w, &before);
	uint32_t most = w.page_count > w.vertices ? w.page_count : w.vertices;
	uint32_t *seen = pr_take(most * sizeof *seen);
	PR_MUST(cudaMemset(seen, 0, most * sizeof *seen));
	WORK_SET(s, seen, seen);
	graph_session_launch(s, GRAPH_CHECK, w.vertices);
	if (s->layout == GRAPH_FAIM)
		graph_session_launch(s, GRAPH_CHECK_QUEUE, w.queue.mask + 1);
	graph_session_launch(s, GRAPH_CHECK_PAGES, w.page_count);
	if (s->plan.names) {
		PR_MUST(cudaMemset(seen, 0, most * sizeof *seen));
		graph_session_launch(s, GRAPH_CHECK_FREE, w.free.mask + 1);
		graph_session_launch(s, GRAPH_CHECK_NAMES, w.vertices);
	}
	PR_MUST(cudaDeviceSynchronize());
	graph_session_read(s, &w, &after);
	PR_MUST(cudaFree(seen));
	return after.broken - before.broken;
}
