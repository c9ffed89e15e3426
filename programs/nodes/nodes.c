/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of smallnodes, its structures on the device and the CPU's, and a line for each run. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "programs/common/program.h"
#include "programs/nodes/nodes.h"

enum { CASE_TREE, CASE_QUEUE, CASES };

struct options {
	struct pr_list which, way;
	uint64_t edges, keys, states, symbols, heap;
};

struct result {
	uint64_t found, checksum; /* the same on the CPU */
	uint64_t allocated;
	double total_ms, finish_ms;
};

struct session {
	struct options options;
	struct nodes_work work; /* as it is before a run */
	struct nodes_work *on_device;
	uint32_t *from, *to; /* of the host */
	struct result cpu[CASES];
};

static const char *const case_names[CASES] = {"tree", "queue"};
static const char *const way_names[NODES_WAYS] = {"bump", "malloc"};

static struct session session;

static const struct pr_option options[] = {
	{"case", 'c', PR_NAMES, "LIST", "all", &session.options.which, 0, CASES, case_names,
	 "tree, queue"},
	{"way", 'w', PR_NAMES, "LIST", "all", &session.options.way, 0, NODES_WAYS, way_names,
	 "bump, malloc"},
	{"edges", 0, PR_NUMBER, "N", "65536", &session.options.edges, 1, 64000000, NULL,
	 "of the tree's nodes, 1 to 64M"},
	{"keys", 0, PR_NUMBER, "N", "10000", &session.options.keys, 1, 64000000, NULL,
	 "nodes, 1 to 64M"},
	{"states", 0, PR_NUMBER, "N", "4096", &session.options.states, 1, 16000000, NULL,
	 "of the automaton of the queue, 1 to 16M"},
	{"symbols", 0, PR_NUMBER, "N", "256", &session.options.symbols, 1, 1000000, NULL,
	 "that it reads"},
	PR_HEAP(&session.options.heap, "256Mi"),
	{0}};

/* --- the CPU's results --- */

static void edges_make(struct session *s)
{
	const struct options *o = &s->options;
	s->from = pr_host_take(o->edges, sizeof *s->from);
	s->to = pr_host_take(o->edges, sizeof *s->to);
	for (uint32_t i = 0; i < o->edges; i++) {
		s->from[i] = (uint32_t)((nodes_mix(1, i) >> 32) * o->keys >> 32);
		s->to[i] = (uint32_t)((nodes_mix(2, i) >> 32) * o->keys >> 32);
		s->cpu[CASE_TREE].checksum += nodes_mix(s->from[i], s->to[i]);
	}
	s->cpu[CASE_TREE].found = o->edges;
}

/* One set of states after the other. */
static void queue_reference(struct session *s)
{
	uint32_t states = s->work.states;
	struct result *r = &s->cpu[CASE_QUEUE];
	uint8_t *now = pr_host_take(states, 1), *next = pr_host_take(states, 1);
	now[0] = 1;
	r->found = 1;
	r->checksum = nodes_mix(0, 0);
	for (uint32_t symbol = 1; symbol <= s->options.symbols; symbol++) {
		for (uint32_t i = 0; i < states; i++)
			for (uint32_t j = 0; now[i] && j < QUEUE_BRANCHES; j++)
				next[queue_next(i, symbol, j, states)] = 1;
		for (uint32_t i = 0; i < states; i++) {
			now[i] = next[i];
			next[i] = 0;
			r->found += now[i];
			r->checksum += now[i] ? nodes_mix(i, symbol) : 0;
		}
	}
	free(now);
	free(next);
}

/* --- the device --- */

static void session_open(struct session *s)
{
	struct nodes_work *w = &s->work;
	const struct options *o = &s->options;
	w->edges = (uint32_t)o->edges;
	w->keys = (uint32_t)o->keys;
	w->states = (uint32_t)o->states;
	edges_make(s);
	queue_reference(s);
	w->from = pr_take(o->edges * sizeof *w->from);
	w->to = pr_take(o->edges * sizeof *w->to);
	w->node = pr_take(o->keys * sizeof *w->node);
	w->seen = pr_take(o->states * sizeof *w->seen);
	w->item[0] = pr_take(o->states * sizeof **w->item);
	w->item[1] = pr_take(o->states * sizeof **w->item);
	/* Each edge may make a node in vain. */
	uint64_t tree = o->edges * (sizeof(struct tree_node) + sizeof(struct tree_edge));
	uint64_t queue = s->cpu[CASE_QUEUE].found * sizeof(struct queue_item);
	w->space_bytes = tree > queue ? tree : queue;
	w->space = pr_take(w->space_bytes);
	s->on_device = pr_take(sizeof *w);
	PR_MUST(cudaMemcpy(w->from, s->from, o->edges * sizeof *w->from, cudaMemcpyHostToDevice));
	PR_MUST(cudaMemcpy(w->to, s->to, o->edges * sizeof *w->to, cudaMemcpyHostToDevice));
}

static void session_close(struct session *s)
{
	const struct nodes_work *w = &s->work;
	void *blocks[] = {w->from,    w->to,	  w->node,  w->seen,
			  w->item[0], w->item[1], w->space, s->on_device};
	for (unsigned i = 0; i < sizeof blocks / sizeof *blocks; i++)
		PR_MUST(cudaFree(blocks[i]));
	free(s->from);
	free(s->to);
}

static void tree_run(struct session *s, enum nodes_way way, struct result *out)
{
	double begin = pr_now_ms();
	PR_MUST(nodes_kernel_tree(s->on_device, s->work.edges, way));
	PR_MUST(cudaDeviceSynchronize());
	out->total_ms = pr_now_ms() - begin;
	begin = pr_now_ms();
	PR_MUST(nodes_kernel_edges(s->on_device, s->work.keys, way));
	PR_MUST(nodes_kernel_free(s->on_device, s->work.keys, way));
	PR_MUST(cudaDeviceSynchronize());
	out->finish_ms = pr_now_ms() - begin;
}

static void queue_run(struct session *s, enum nodes_way way, struct result *out)
{
	uint32_t symbols = (uint32_t)s->options.symbols;
	PR_MUST(cudaMemset(s->work.seen, 0xff, s->work.states * sizeof *s->work.seen));
	double begin = pr_now_ms();
	PR_MUST(nodes_kernel_first(s->on_device, way));
	for (uint32_t symbol = 1; symbol <= symbols; symbol++)
		PR_MUST(nodes_kernel_symbol(s->on_device, s->work.states, symbol, way));
	PR_MUST(cudaDeviceSynchronize());
	out->total_ms = pr_now_ms() - begin;
	begin = pr_now_ms();
	PR_MUST(nodes_kernel_drop(s->on_device, s->work.states, (symbols + 1) % 2, way));
	PR_MUST(cudaDeviceSynchronize());
	out->finish_ms = pr_now_ms() - begin;
}

static void run(struct session *s, unsigned which, enum nodes_way way, struct result *out)
{
	struct nodes_work after;
	PR_MUST(cudaMemcpy(s->on_device, &s->work, sizeof s->work, cudaMemcpyHostToDevice));
	(which == CASE_TREE ? tree_run : queue_run)(s, way, out);
	PR_MUST(cudaMemcpy(&after, s->on_device, sizeof after, cudaMemcpyDeviceToHost));
	if (after.lacking)
		pr_fail(1, "%llu nodes had no memory: natively a larger --heap is needed",
			after.lacking);
	out->found = after.found;
	out->checksum = after.checksum;
	out->allocated = after.allocated;
}

static unsigned report(const struct session *s, unsigned which, enum nodes_way way,
		       const struct result *r)
{
	const struct result *cpu = &s->cpu[which];
	bool right = r->found == cpu->found && r->checksum == cpu->checksum;
	printf("smallnodes way=%s case=%s items=%" PRIu64 " checksum=%016" PRIx64, way_names[way],
	       case_names[which], r->found, r->checksum);
	pr_line_verified(right);
	if (!pr_asked.untimed)
		printf(" allocated=%" PRIu64 " total_ms=%.6g finish_ms=%.6g", r->allocated,
		       r->total_ms, r->finish_ms);
	return pr_line_end(right,
			   "%s, %s: the result differs from the CPU's, which has %" PRIu64 " items",
			   case_names[which], way_names[way], cpu->found);
}

static unsigned way_run(void *arg, uint64_t way)
{
	const unsigned *which = arg;
	struct result result = {0};
	run(&session, *which, (enum nodes_way)way, &result);
	return report(&session, *which, (enum nodes_way)way, &result);
}

static unsigned cases_run(void)
{
	const struct options *o = &session.options;
	unsigned wrong = 0;
	PR_MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, o->heap));
	session_open(&session);
	for (unsigned c = 0; c < o->which.count; c++) {
		unsigned which = (unsigned)o->which.value[c];
		wrong += pr_each(&o->way, way_run, &which);
	}
	session_close(&session);
	return wrong;
}

const struct pr_program pr_program = {
	.name = "smallnodes",
	.about = "structures that kernels make of small nodes, by malloc or of one block.",
	.options = options,
	.run = cases_run,
};
