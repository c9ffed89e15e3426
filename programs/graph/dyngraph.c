/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of dyngraph, and a line for each run. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/common/program.h"
#include "programs/graph/dyngraph.h"

enum { UPDATE_AUTO, UPDATE_NAMES = 1 + GRAPH_UPDATES }; /* behind auto: enum graph_update */
enum { PATTERN_UNIFORM, PATTERN_FOCUSED, PATTERNS };
enum { REINIT_NONE, REINIT_MOVE, REINIT_COMPACT, REINITS };
#define REINIT_PERCENT 105 /* the thesis: tables 4.1 and 4.2 */

struct options {
	const char *graph;
	struct pr_list way, batch, pattern, update, vertices, worker, deletes, reinit;
	uint64_t edges, rounds, range, iterations, room, heap;
	bool plain;
};

static const char *const pattern_names[PATTERNS] = {"uniform", "focused"};
static const char *const update_names[UPDATE_NAMES] = {"auto", "edges", "vertices", "sorted"};
static const char *const worker_names[] = {"auto", "thread", "warp"};
static const char *const delete_names[] = {"same", "random"};
static const char *const reinit_names[REINITS] = {"none", "move", "compact"};
static const char *const way_names[GRAPH_WAYS] = {
#define GRAPH_WAY(name, n, layout) name,
#include "programs/graph/ways.def"
#undef GRAPH_WAY
#define GM_POLICY(name, n, can) name,
#include "heap/device/policy.def"
#undef GM_POLICY
};
#define NAMES(list) sizeof(list) / sizeof *(list), (list)
static struct options asked;

static const struct pr_option options[] = {
	{"graph", 'g', PR_TEXT, "NAME", "rmat", &asked.graph, 0, 0, NULL,
	 "rmat, mesh, road, or a file *.mtx, *.gr or *.graph"},
	{"edges", 0, PR_NUMBER, "N", "1M", &asked.edges, 64, UINT64_C(1) << 31, NULL,
	 "of a graph that is no file, about, 64 to 2G"},
	{"way", 'w', PR_NAMES, "LIST", "aim,faim,malloc,ouro-va-p,granule", &asked.way, 0,
	 GRAPH_WAYS, way_names, "layouts aim and faim; and that of ouroGraph by allocator: malloc"
#define GM_POLICY(name, n, can) ", " name
#include "heap/device/policy.def"
#undef GM_POLICY
	},
	{"batch", 'b', PR_NUMBERS, "LIST", "100k", &asked.batch, 1, 1u << 30, NULL,
	 "edges of an update"},
	{"pattern", 'p', PR_NAMES, "LIST", "all", &asked.pattern, 0, NAMES(pattern_names),
	 "their sources: uniform, focused"},
	{"range", 0, PR_NUMBER, "N", "1000", &asked.range, 1, 1u << 30, NULL,
	 "of focused ones, vertices side by side"},
	{"update", 0, PR_NAMES, "LIST", "auto", &asked.update, 0, NAMES(update_names),
	 "edges, vertices: a worker each; sorted: vertices, in order; auto"},
	{"worker", 0, PR_NAMES, "WHO", "auto", &asked.worker, 0, NAMES(worker_names),
	 "thread, warp, auto"},
	{"delete", 0, PR_NAMES, "WHICH", "same", &asked.deletes, 0, NAMES(delete_names),
	 "same: those inserted; random: others"},
	{"rounds", 0, PR_NUMBER, "N", "1", &asked.rounds, 1, 1000000, NULL,
	 "of an insertion and a deletion"},
	{"vertices", 0, PR_NUMBERS, "LIST", "0", &asked.vertices, 0, 1u << 28, NULL,
	 "of a round, inserted, and others deleted, behind its edges"},
	{"reinit", 0, PR_NAMES, "LIST", "none", &asked.reinit, 0, NAMES(reinit_names),
	 "behind each round: move, into a block of 105%, each time; compact; none"},
	{"iterations", 0, PR_NUMBER, "N", "10", &asked.iterations, 1, 1000000, NULL, "of PageRank"},
	{"plain", 0, PR_FLAG, NULL, NULL, &asked.plain, 0, 0, NULL,
	 "no PageRank, and no triangles"},
	{"room", 0, PR_NUMBER, "BYTES", "enough", &asked.room, 1, UINT64_C(1) << 42, NULL,
	 "the block of aim and faim, the heap of a policy"},
	PR_HEAP(&asked.heap, "that of --room"),
	{0}};

static void check(void)
{
	if (asked.worker.count > 1 || asked.deletes.count > 1)
		pr_fail(2, "--worker and --delete take one name");
}

/* --- runs --- */

struct run {
	const struct pr_rows *rows;
	enum graph_way way;
	enum graph_update update;
	uint32_t worker, batch, pattern, vertices;
	struct graph_names *names; /* NULL: vertices stay */
};

struct result {
	uint64_t edges, inserted, found, deleted, checksum, ranks, triangles, built_bytes,
		final_bytes, compact_bytes;
	uint64_t vertices_inserted, vertices_deleted;
	double vertex_insert_ms, vertex_delete_ms;
	double build_ms, insert_ms, query_ms, delete_ms, pagerank_ms, order_ms, triangles_ms;
	double reinit_ms[REINITS];
	bool right;
};

/* Vertices have the names that the CPU's have. */
static bool names_compare(struct graph_session *s, const struct run *r)
{
	uint32_t vertices, *id = r->names ? graph_vertices_names(s, &vertices) : NULL;
	bool same = !id || (vertices == r->names->vertices &&
			    memcmp(id, r->names->id, vertices * sizeof *id) == 0);
	free(id);
	return same;
}

/* The device's graph and its structure are as they should be. */
static bool compare(struct graph_session *s, const struct graph_model *m, const char *when,
		    const struct run *r)
{
	uint64_t count, broken = graph_broken(s);
	struct graph_edge *edge = graph_edges(s, &count);
	bool same = count == m->edges && memcmp(edge, m->edge, count * sizeof *edge) == 0;
	bool named = names_compare(s, r);
	free(edge);
	if (!same)
		fprintf(stderr,
			"dyngraph: %s, %s: the graph differs from the CPU's, which has %" PRIu64
			" edges\n",
			graph_way_name(r->way), when, m->edges);
	if (!named)
		fprintf(stderr, "dyngraph: %s, %s: vertices differ from the CPU's\n",
			graph_way_name(r->way), when);
	if (broken)
		fprintf(stderr, "dyngraph: %s, %s: %" PRIu64 " faults in its structure\n",
			graph_way_name(r->way), when, broken);
	return same && named && !broken;
}

/* One batch, on the device and, to verify, on the CPU. */
static double change(struct graph_session *s, struct graph_model *m, const struct run *r,
		     const struct graph_edge *batch, bool insert, struct result *out)
{
	uint64_t changed, wanted;
	double ms = graph_update(s, batch, r->batch, r->update, insert, &changed);
	*(insert ? &out->inserted : &out->deleted) += changed;
	if (!pr_asked.verify)
		return ms;
	wanted = (insert ? graph_model_insert : graph_model_delete)(m, batch, r->batch);
	out->right &= compare(s, m, insert ? "insertion" : "deletion", r) && wanted == changed;
	return ms;
}

/* Every second edge of the batch is one that was just inserted, the others are any. */
static void queries_run(struct graph_session *s, const struct graph_model *m, const struct run *r,
			const struct graph_edge *inserted, struct graph_edge *batch,
			struct result *out)
{
	uint64_t found;
	for (uint32_t i = 0; i < r->batch; i += 2)
		batch[i] = inserted[i];
	out->query_ms += graph_query(s, batch, r->batch, &found);
	out->found += found;
	if (!pr_asked.verify || found == graph_model_query(m, batch, r->batch))
		return;
	out->right = false;
	fprintf(stderr,
		"dyngraph: %s: a query found %" PRIu64 " edges, and not as many as the CPU\n",
		graph_way_name(r->way), found);
}

static bool reinits(const struct run *r, unsigned how)
{
	/* The heap of the others grows, and their blocks have addresses. */
	bool found = false, moves = graph_way_layout(r->way) != GRAPH_OURO;
	for (unsigned i = 0; i < asked.reinit.count; i++)
		found |= asked.reinit.value[i] == how;
	return found && (how != REINIT_MOVE || moves);
}

/* Behind a round. */
static void reinit(struct graph_session *s, const struct graph_model *m, const struct run *r,
		   struct result *out)
{
	bool verify = pr_asked.verify;
	if (reinits(r, REINIT_MOVE)) {
		out->reinit_ms[REINIT_MOVE] += graph_move(s, REINIT_PERCENT);
		out->right &= !verify || compare(s, m, "move", r);
	}
	out->final_bytes = graph_footprint(s);
	if (reinits(r, REINIT_COMPACT)) {
		out->reinit_ms[REINIT_COMPACT] += graph_compact(s);
		out->compact_bytes = graph_footprint(s);
		out->right &= !verify || compare(s, m, "compaction", r);
	}
}

/* Edges of any vertices that are there; of focused ones, from few of them. */
static void batch_make(const struct run *r, struct graph_edge *edge, uint32_t round)
{
	uint32_t vertices = r->names ? r->names->lives : r->rows->rows, range = vertices;
	if (r->pattern == PATTERN_FOCUSED && asked.range < vertices)
		range = (uint32_t)asked.range;
	graph_batch(edge, r->batch, vertices, range, round);
	if (r->names)
		graph_names_edges(r->names, edge, r->batch);
}

/* Names, of which most are new; and vertices, of which most are there. */
static void vertices_run(struct graph_session *s, struct graph_model *m, const struct run *r,
			 uint32_t round, struct result *out)
{
	uint32_t count = r->vertices, changed, wanted;
	uint32_t *batch = pr_host_take(count, sizeof *batch);
	uint32_t *vertex = pr_host_take(count, sizeof *vertex);
	uint32_t *expected = pr_host_take(count, sizeof *expected);
	graph_names_make(r->names, batch, count, round);
	out->vertex_insert_ms += graph_vertices_insert(s, batch, count, vertex, &changed);
	out->vertices_inserted += changed;
	wanted = graph_names_insert(r->names, batch, count, expected);
	out->right &= wanted == changed && memcmp(vertex, expected, count * sizeof *vertex) == 0;
	if (pr_asked.verify)
		out->right &= compare(s, m, "insertion of vertices", r);
	graph_names_choose(r->names, batch, count, round);
	out->vertex_delete_ms += graph_vertices_delete(s, batch, count, &changed);
	out->vertices_deleted += changed;
	out->right &= graph_names_delete(r->names, batch, count) == changed;
	if (pr_asked.verify) {
		graph_model_forget(m, r->names);
		m->vertices = r->names->vertices;
		out->right &= compare(s, m, "deletion of vertices", r);
	}
	free(batch);
	free(vertex);
	free(expected);
}

static void rounds_run(struct graph_session *s, struct graph_model *m, const struct run *r,
		       struct result *out)
{
	struct graph_edge *batch = malloc(r->batch * sizeof *batch);
	struct graph_edge *other = malloc(r->batch * sizeof *other);
	if (!batch || !other)
		pr_fail(1, "no memory of the host");
	for (uint32_t round = 0; round < asked.rounds; round++) {
		batch_make(r, batch, 2 * round);
		out->insert_ms += change(s, m, r, batch, true, out);
		batch_make(r, other, 2 * round + 1);
		queries_run(s, m, r, batch, other, out);
		if (asked.deletes.value[0])
			batch_make(r, batch, 2 * round + 1);
		out->delete_ms += change(s, m, r, batch, false, out);
		if (r->names)
			vertices_run(s, m, r, round, out);
		reinit(s, m, r, out);
	}
	free(batch);
	free(other);
}

static void algorithms_run(struct graph_session *s, const struct graph_model *m,
			   const struct run *r, struct result *out)
{
	uint32_t iterations = (uint32_t)asked.iterations;
	out->pagerank_ms = graph_pagerank(s, iterations, &out->ranks);
	if (r->update != GRAPH_SORTED)
		out->order_ms = graph_order(s);
	out->triangles_ms = graph_triangles(s, &out->triangles);
	if (!pr_asked.verify)
		return;
	out->right &= compare(s, m, "ordering", r);
	uint64_t ranks = graph_model_pagerank(m, iterations);
	uint64_t triangles = graph_model_triangles(m);
	if (ranks == out->ranks && triangles == out->triangles)
		return;
	out->right = false;
	fprintf(stderr,
		"dyngraph: %s: PageRank or triangles differ from the CPU's, which has %" PRIu64
		" triangles\n",
		graph_way_name(r->way), triangles);
}

static void run(struct graph_session *s, const struct run *r, struct result *out)
{
	struct graph_model m;
	*out = (struct result){.right = true};
	if (pr_asked.verify)
		graph_model_open(&m, r->rows);
	out->build_ms = graph_build(s);
	out->built_bytes = graph_footprint(s);
	if (pr_asked.verify)
		out->right &= compare(s, &m, "build", r);
	rounds_run(s, &m, r, out);
	struct graph_edge *edge = graph_edges(s, &out->edges);
	out->checksum = graph_edges_checksum(edge, out->edges);
	free(edge);
	if (!asked.plain)
		algorithms_run(s, &m, r, out);
	if (pr_asked.verify)
		graph_model_close(&m);
}

static void times_print(const struct run *r, const struct result *out)
{
	double rounds = (double)asked.rounds, batch = r->batch / 1e3;
	double insert = out->insert_ms / rounds, delete = out->delete_ms / rounds;
	double query = out->query_ms / rounds;
	double moved = out->reinit_ms[REINIT_MOVE], compacted = out->reinit_ms[REINIT_COMPACT];
	printf(" total_ms=%.6g build_ms=%.6g insert_ms=%.6g query_ms=%.6g delete_ms=%.6g "
	       "insert_meps=%.4g query_meps=%.4g delete_meps=%.4g",
	       out->build_ms + out->insert_ms + out->query_ms + out->delete_ms + out->pagerank_ms +
		       out->order_ms + out->triangles_ms + moved + compacted +
		       out->vertex_insert_ms + out->vertex_delete_ms,
	       out->build_ms, insert, query, delete, batch / insert, batch / query, batch / delete);
	if (!asked.plain)
		printf(" pagerank_ms=%.6g order_ms=%.6g triangles_ms=%.6g", out->pagerank_ms,
		       out->order_ms, out->triangles_ms);
	if (r->names)
		printf(" vertex_insert_ms=%.6g vertex_delete_ms=%.6g vertex_insert_mvps=%.4g "
		       "vertex_delete_mvps=%.4g",
		       out->vertex_insert_ms / rounds, out->vertex_delete_ms / rounds,
		       r->vertices / 1e3 * rounds / out->vertex_insert_ms,
		       r->vertices / 1e3 * rounds / out->vertex_delete_ms);
	if (reinits(r, REINIT_MOVE))
		printf(" move_ms=%.6g", moved / rounds);
	if (reinits(r, REINIT_COMPACT))
		printf(" compact_ms=%.6g", compacted / rounds);
}

static void report(const struct run *r, const struct result *out)
{
	printf("dyngraph way=%s graph=%s vertices=%u edges=%u pattern=%s batch=%u update=%s "
	       "worker=%s inserted=%" PRIu64 " found=%" PRIu64 " deleted=%" PRIu64 " left=%" PRIu64
	       " checksum=%016" PRIx64,
	       graph_way_name(r->way), asked.graph, r->rows->rows, r->rows->start[r->rows->rows],
	       pattern_names[r->pattern], r->batch, update_names[1 + r->update],
	       worker_names[r->worker == 1 ? 1 : 2], out->inserted, out->found, out->deleted,
	       out->edges, out->checksum);
	if (!asked.plain)
		printf(" ranks=%016" PRIx64 " triangles=%" PRIu64, out->ranks, out->triangles);
	if (r->names)
		printf(" names=%u vertices_inserted=%" PRIu64 " vertices_deleted=%" PRIu64
		       " vertices_taken=%u",
		       r->vertices, out->vertices_inserted, out->vertices_deleted,
		       r->names->vertices);
	printf(" built_bytes=%" PRIu64 " final_bytes=%" PRIu64, out->built_bytes, out->final_bytes);
	if (reinits(r, REINIT_COMPACT))
		printf(" compact_bytes=%" PRIu64, out->compact_bytes);
	pr_line_verified(out->right);
	if (!pr_asked.untimed)
		times_print(r, out);
	/* What differs was said when it was found. */
	putchar('\n');
	fflush(stdout);
}

/* --- all of them --- */

/* Vertices that all rounds insert, at most. */
static uint32_t more_of(void)
{
	uint64_t more = pr_list_most(&asked.vertices) * asked.rounds;
	return (uint32_t)(more < 1u << 30 ? more : 1u << 30);
}

static uint64_t room_of(const struct pr_rows *rows, enum graph_way way)
{
	uint32_t batches = (uint32_t)(asked.rounds < 8 ? asked.rounds : 8);
	return asked.room ? asked.room
			  : graph_room(rows, way, (uint32_t)pr_list_most(&asked.batch), batches,
				       more_of());
}

#define AVERAGE_EDGES 25 /* the thesis: up to so many, a thread */
#define MOST_EDGES 512	 /* a thread would be busy with one vertex when all others are done */

static uint32_t worker_of(const struct pr_rows *rows)
{
	bool few = rows->start[rows->rows] <= UINT64_C(1) * AVERAGE_EDGES * rows->rows;
	for (uint32_t v = 0; few && v < rows->rows; v++)
		few = rows->start[v + 1] - rows->start[v] <= MOST_EDGES;
	return asked.worker.value[0] == 1 || (asked.worker.value[0] == 0 && few) ? 1 : 32;
}

static enum graph_update update_of(uint64_t named, enum graph_way way)
{
	if (named == UPDATE_AUTO)
		return graph_way_layout(way) == GRAPH_AIM ? GRAPH_EDGES : GRAPH_VERTICES;
	return (enum graph_update)(named - 1);
}

/* Of all combinations of values, the one of that number. */
static struct run run_of(const struct pr_rows *rows, const struct graph_plan *plan, unsigned i)
{
	struct run r = {.rows = rows, .way = plan->way, .worker = plan->worker};
	r.vertices = (uint32_t)asked.vertices.value[i % asked.vertices.count];
	i /= asked.vertices.count;
	r.update = update_of(asked.update.value[i % asked.update.count], r.way);
	i /= asked.update.count;
	r.pattern = (uint32_t)asked.pattern.value[i % asked.pattern.count];
	r.batch = (uint32_t)asked.batch.value[i / asked.pattern.count];
	return r;
}

/* How many results were wrong. */
static unsigned way_run(const struct pr_rows *rows, enum graph_way way)
{
	struct graph_plan plan = {way,
				  worker_of(rows),
				  asked.worker.value[0] == 0,
				  (uint32_t)pr_list_most(&asked.batch),
				  (uint32_t)pr_list_most(&asked.vertices),
				  more_of(),
				  room_of(rows, way)};
	struct graph_session *s = graph_open(rows, &plan);
	unsigned wrong = 0, runs = asked.batch.count * asked.pattern.count * asked.update.count *
				   asked.vertices.count;
	for (unsigned i = 0; i < runs; i++)
		for (uint64_t n = 0; n < pr_asked.repeat; n++) {
			struct run r = run_of(rows, &plan, i);
			struct graph_names names = {0};
			struct result result;
			r.names = r.vertices ? &names : NULL;
			if (r.names)
				graph_names_open(&names, rows->rows, rows->rows + plan.more);
			run(s, &r, &result);
			report(&r, &result);
			graph_names_close(&names);
			wrong += !result.right;
		}
	graph_close(s);
	return wrong;
}

/* The driver's, before the first kernel; a heap that grows has no use for it. */
static void heap_set(const struct pr_rows *rows)
{
	uint64_t bytes = asked.heap ? asked.heap : room_of(rows, GRAPH_WAY_malloc);
	if (pr_list_has(&asked.way, GRAPH_WAY_malloc))
		PR_MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, bytes));
}

static unsigned ways_run(void)
{
	struct pr_rows rows;
	char why[256];
	unsigned wrong = 0;
	if (!graph_make(asked.graph, asked.edges, &rows, why)) {
		if (errno == ENOMEM)
			pr_fail(1, "--graph=%.200s: %s", asked.graph, why);
		pr_fail(2, "--graph=%s", why);
	}
	if (rows.rows < 2)
		pr_fail(2, "--graph=%.200s: it has one vertex", asked.graph);
	if (pr_list_most(&asked.vertices) > rows.rows / 4)
		pr_fail(2, "--vertices=%" PRIu64 ": more than a quarter of the graph's %u",
			pr_list_most(&asked.vertices), rows.rows);
	heap_set(&rows);
	for (unsigned i = 0; i < asked.way.count; i++)
		wrong += way_run(&rows, (enum graph_way)asked.way.value[i]);
	pr_rows_free(&rows);
	return wrong;
}

const struct pr_program pr_program = {
	.name = "dyngraph",
	.about = "a graph that changes, in the layouts of aimGraph, faimGraph and ouroGraph.",
	.options = options,
	.check = check,
	.run = ways_run,
};
