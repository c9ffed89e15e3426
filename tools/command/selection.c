/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/command/selection.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sys.h"
#include "log/about.h"
#include "tools/log/process.h"

#define PATIENCE 10000000000u /* ns until a queue of connections has room */
#define NAP 5000000u	      /* ns between two tries */
#define TRIES 3		      /* the kernel's list may miss a socket while others close */
#define GENERATIONS 100000u   /* the numbers of parents may change meanwhile, even to a circle */

static _Noreturn void memory_exhausted(void)
{
	gm_tool_error("out of memory");
	exit(GM_EXIT_FAILED);
}

static void chosen_add(struct gm_chosen_list *list, struct gm_chosen chosen)
{
	if (!gm_array_push(&list->a, chosen))
		memory_exhausted();
}

/* --- one process --- */

struct find {
	uint32_t pid;
	struct gm_chosen chosen; /* STRANGER: no name of the process so far is its own */
};

/* Any user can bind a name with any pid; the connection shows whose name it is. */
static void node_try(void *arg, const struct gm_rpc_address *address)
{
	struct find *find = arg;
	struct gm_chosen *chosen = &find->chosen;
	if (address->pid != find->pid || (chosen->found && chosen->result == GM_RPC_OK))
		return;
	enum gm_rpc_result result = gm_rpc_connect(address, 0, &chosen->link);
	if (!chosen->found || result != GM_RPC_STRANGER) {
		chosen->result = result;
		chosen->error = errno;
	}
	chosen->found = true;
}

void gm_selection_find(uint32_t pid, struct gm_chosen_list *out)
{
	uint64_t end = gm_clock_ns() + PATIENCE;
	struct find find = {.pid = pid, .chosen = {.pid = pid, .link.fd = -1}};
	for (unsigned missed = 0; missed < TRIES;) {
		find.chosen.found = false;
		gm_rpc_each(NULL, node_try, &find);
		missed += !find.chosen.found;
		if (find.chosen.found &&
		    (find.chosen.result != GM_RPC_SILENT || gm_clock_ns() >= end))
			break;
		gm_sys_nap(NAP);
	}
	chosen_add(out, find.chosen);
}

/* --- options --- */

static bool any_is_taken(int pid, const char *unused)
{
	(void)pid;
	(void)unused;
	return true;
}

static bool program_is_taken(int pid, const char *pattern)
{
	char program[64];
	gm_process_program(pid, program, sizeof program);
	if (*program && fnmatch(pattern, program, 0) == 0)
		return true;
	gm_process_file(pid, program, sizeof program);
	return *program && fnmatch(pattern, program, 0) == 0;
}

struct environment {
	char *text;
	size_t n;
};

static const char *environment_find(void *arg, const char *name)
{
	const struct environment *e = arg;
	return gm_process_variable(e->text, e->n, name);
}

static bool job_is_taken(int pid, const char *id)
{
	struct environment e;
	e.text = gm_process_environment(pid, &e.n);
	const char *job = e.text ? gm_about_job(environment_find, &e) : NULL;
	const bool is = job && strcmp(job, id) == 0;
	free(e.text);
	return is;
}

static bool tree_is_taken(int pid, const char *root)
{
	int top;
	if (!gm_process_parse(root, &top))
		return false;
	for (unsigned n = 0; pid > 0 && n < GENERATIONS; n++) {
		if (pid == top)
			return true;
		pid = gm_process_parent(pid);
	}
	return false;
}

bool gm_selection_get(const struct gm_options *options, const char *command,
		      struct gm_selection *out)
{
	const struct gm_selection rows[] = {
		{"all", options->all ? "" : NULL, any_is_taken, false},
		{"program", options->program, program_is_taken, false},
		{"job", options->job, job_is_taken, true},
		{"tree", options->tree, tree_is_taken, true},
	};
	*out = (struct gm_selection){0};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		if (!rows[i].value)
			continue;
		if (out->option) {
			gm_tool_usage(command, "%s: --%s and --%s exclude each other", command,
				      out->option, rows[i].option);
			return false;
		}
		*out = rows[i];
	}
	return true;
}

/* --- the processes of an option --- */

/* A process; it has a node for each of its GPUs, all with one nonce. */
struct node {
	struct gm_rpc_address address;
	enum gm_rpc_result result; /* SILENT: its queue of connections was full so far */
	int error;
	struct gm_rpc_link link;
};

struct nodes {
	GM_ARRAY(struct node) a;
};

static void node_add(void *arg, const struct gm_rpc_address *address)
{
	struct nodes *nodes = arg;
	for (size_t i = 0; i < nodes->a.n; i++)
		if (nodes->a.at[i].address.pid == address->pid &&
		    nodes->a.at[i].address.nonce == address->nonce)
			return;
	if (!gm_array_push(&nodes->a, (struct node){*address, GM_RPC_SILENT, 0, {.fd = -1}}))
		memory_exhausted();
}

/* Connect to each node, as soon as its queue of connections has room. */
static void nodes_connect(struct nodes *nodes)
{
	uint64_t end = gm_clock_ns() + PATIENCE;
	for (bool waits = true; waits;) {
		waits = false;
		for (size_t i = 0; i < nodes->a.n; i++) {
			struct node *node = &nodes->a.at[i];
			if (node->result != GM_RPC_SILENT)
				continue;
			node->result = gm_rpc_connect(&node->address, 0, &node->link);
			node->error = errno;
			waits |= node->result == GM_RPC_SILENT && gm_clock_ns() < end;
		}
		if (waits)
			gm_sys_nap(NAP);
	}
}

/* The number of the process of a node, in this process's namespace; 0: unknown. A name has the
 * number in its own namespace, and without a connection another user may have made it. */
static int node_pid(const struct node *node)
{
	struct ucred peer = {0};
	socklen_t n = sizeof peer;
	struct stat st;
	char path[64];
	if (node->result == GM_RPC_OK)
		return getsockopt(node->link.fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 ? peer.pid
											  : 0;
	snprintf(path, sizeof path, "/proc/%u", node->address.pid);
	return stat(path, &st) == 0 && st.st_uid == geteuid() ? (int)node->address.pid : 0;
}

static int chosen_compare(const void *a, const void *b)
{
	const struct gm_chosen *x = a, *y = b;
	return (x->pid > y->pid) - (x->pid < y->pid);
}

void gm_selection_choose(const struct gm_selection *selection, struct gm_chosen_list *out)
{
	struct nodes nodes = {0};
	for (unsigned i = 0; i < TRIES; i++) {
		if (i)
			gm_sys_nap(NAP);
		gm_rpc_each(NULL, node_add, &nodes);
	}
	nodes_connect(&nodes);
	for (size_t i = 0; i < nodes.a.n; i++) {
		struct node *node = &nodes.a.at[i];
		const int pid = node_pid(node);
		const bool lasts =
			node->result == GM_RPC_OK ||
			(pid && (node->result == GM_RPC_SILENT || node->result == GM_RPC_UNABLE));
		if (lasts && selection->takes(pid, selection->value))
			chosen_add(out,
				   (struct gm_chosen){pid ? (uint32_t)pid : node->address.pid, true,
						      node->result, node->error, node->link});
		else if (node->result == GM_RPC_OK)
			gm_rpc_disconnect(&node->link);
	}
	gm_array_free(&nodes.a);
	if (out->a.n)
		qsort(out->a.at, out->a.n, sizeof *out->a.at, chosen_compare);
}
