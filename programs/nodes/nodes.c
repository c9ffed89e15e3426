/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of smallnodes, its structures on the device and the CPU's, and a line for each run. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "programs/common/args.h"
#include "programs/nodes/nodes.h"

const char *const pr_program = "smallnodes";

enum { CASE_TREE, CASE_QUEUE, CASES };

struct options {
	struct pr_list which, way;
	uint64_t edges, keys, states, symbols, heap, repeat;
	bool verify, untimed;
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

static void help(void)
{
	printf("Usage: smallnodes [OPTION]...\n"
	       "smallnodes: structures that kernels make of small nodes, by malloc or of one "
	       "block.\n\n"
	       "  -c, --case=LIST       tree, queue (both)\n"
	       "  -w, --way=LIST        bump, malloc (both)\n"
	       "      --edges=N         of the tree's nodes, 1 to 64M (65536)\n"
	       "      --keys=N          nodes, 1 to 64M (10000)\n"
	       "      --states=N        of the automaton of the queue, 1 to 16M (4096)\n"
	       "      --symbols=N       that it reads (256)\n"
	       "      --heap=BYTES      the driver's heap for malloc in kernels (256Mi)\n"
	       "      --repeat=N        runs of each (1)\n"
	       "      --verify          compare with the CPU's result; status 1 if one differs\n"
	       "      --untimed         print only what is the same in every run\n"
	       "      --help            print this\n\n"
	       "Each run prints a line of key=value. doc/programs.md says what they mean.\n");
}

static const struct option option_table[] = {
	{"case", required_argument, NULL, 'c'},	  {"way", required_argument, NULL, 'w'},
	{"edges", required_argument, NULL, 'e'},  {"keys", required_argument, NULL, 'k'},
	{"states", required_argument, NULL, 's'}, {"symbols", required_argument, NULL, 'y'},
	{"heap", required_argument, NULL, 'm'},	  {"repeat", required_argument, NULL, 'r'},
	{"verify", no_argument, NULL, 'v'},	  {"untimed", no_argument, NULL, 'u'},
	{"help", no_argument, NULL, 'h'},	  {NULL, 0, NULL, 0}};

static void option_read(int option, struct options *out)
{
	switch (option) {
	case 'c':
		pr_names("case", optarg, case_names, CASES, &out->which);
		break;
	case 'w':
		pr_names("way", optarg, way_names, NODES_WAYS, &out->way);
		break;
	case 'e':
		out->edges = pr_number("edges", optarg, 1, 64000000);
		break;
	case 'k':
		out->keys = pr_number("keys", optarg, 1, 64000000);
		break;
	case 's':
		out->states = pr_number("states", optarg, 1, 16000000);
		break;
	case 'y':
		out->symbols = pr_number("symbols", optarg, 1, 1000000);
		break;
	case 'm':
		out->heap = pr_number("heap", optarg, 1, UINT64_MAX);
		break;
	case 'r':
		out->repeat = pr_number("repeat", optarg, 1, 1000000);
		break;
	case 'v':
		out->verify = true;
		break;
	case 'u':
		out->untimed = true;
		break;
	case 'h':
		help();
		exit(fflush(stdout) ? 1 : 0);
	default:
		exit(2); /* getopt_long has said why */
	}
}

static void options_read(int argc, char **argv, struct options *out)
{
	*out = (struct options){.which = {{CASE_TREE, CASE_QUEUE}, CASES},
				.way = {{NODES_BUMP, NODES_MALLOC}, NODES_WAYS},
				.edges = 65536,
				.keys = 10000,
				.states = 4096,
				.symbols = 256,
				.heap = 256u << 20,
				.repeat = 1};
	for (int option; (option = getopt_long(argc, argv, "c:w:", option_table, NULL)) != -1;)
		option_read(option, out);
	if (optind < argc)
		pr_fail(2, "%.40s: takes options alone; --help shows them", argv[optind]);
}

/* --- the CPU's results --- */

static void *host_take(uint64_t count, uint64_t size)
{
	void *block = calloc(count, size);
	if (!block)
		pr_fail(1, "no memory of the host");
	return block;
}

static void edges_make(struct session *s)
{
	const struct options *o = &s->options;
	s->from = host_take(o->edges, sizeof *s->from);
	s->to = host_take(o->edges, sizeof *s->to);
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
	uint8_t *now = host_take(states, 1), *next = host_take(states, 1);
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

/* False: the result differs from the CPU's. */
static bool report(const struct session *s, unsigned which, enum nodes_way way,
		   const struct result *r)
{
	const struct result *cpu = &s->cpu[which];
	bool right = r->found == cpu->found && r->checksum == cpu->checksum;
	printf("smallnodes way=%s case=%s items=%" PRIu64 " checksum=%016" PRIx64, way_names[way],
	       case_names[which], r->found, r->checksum);
	if (s->options.verify)
		printf(" verified=%s", right ? "yes" : "no");
	if (!s->options.untimed)
		printf(" allocated=%" PRIu64 " total_ms=%.6g finish_ms=%.6g", r->allocated,
		       r->total_ms, r->finish_ms);
	putchar('\n');
	fflush(stdout);
	if (right || !s->options.verify)
		return true;
	fprintf(stderr,
		"smallnodes: %s, %s: the result differs from the CPU's, which has %" PRIu64
		" items\n",
		case_names[which], way_names[way], cpu->found);
	return false;
}

int main(int argc, char **argv)
{
	struct session s = {0};
	unsigned wrong = 0;
	options_read(argc, argv, &s.options);
	PR_MUST(cudaDeviceSetLimit(cudaLimitMallocHeapSize, s.options.heap));
	session_open(&s);
	for (unsigned c = 0; c < s.options.which.count; c++)
		for (unsigned w = 0; w < s.options.way.count; w++)
			for (uint64_t i = 0; i < s.options.repeat; i++) {
				unsigned which = (unsigned)s.options.which.value[c];
				enum nodes_way way = (enum nodes_way)s.options.way.value[w];
				struct result result = {0};
				run(&s, which, way, &result);
				wrong += !report(&s, which, way, &result);
			}
	session_close(&s);
	return wrong ? 1 : 0;
}
