/* SPDX-License-Identifier: BSD-3-Clause */
/* sleep and wake: send a request to each process's node, which replies at once, then poll it. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/size.h"
#include "base/sys.h"
#include "node/node.h"
#include "residency/control.h"
#include "residency/door.h"
#include "residency/move.h"
#include "tools/log/process.h"
#include "tools/options.h"
#include "tools/tool.h"

#define PATIENCE 10000000000u /* ns for one reply */
#define NAP 5000000u	      /* ns between two polls */
#define TRIES 3		      /* the kernel's list may miss a socket while others close */

struct find {
	uint32_t pid;
	enum gm_node_result result; /* GM_NODE_STRANGER: no name of the process so far is its own */
	bool found;
	struct gm_node_link link;
};

/* Any user can bind a name with any pid; the connection shows whose name it is. */
static void node_try(void *arg, const struct gm_node_address *address)
{
	struct find *find = arg;
	if (address->pid != find->pid || (find->found && find->result == GM_NODE_OK))
		return;
	enum gm_node_result result = gm_node_connect(address, 0, &find->link);
	if (!find->found || result != GM_NODE_STRANGER)
		find->result = result;
	find->found = true;
}

/* Connect to the process, as soon as its queue of connections has room. */
static void node_find(struct find *find)
{
	uint64_t end = gm_clock_ns() + PATIENCE;
	for (unsigned missed = 0; missed < TRIES;) {
		find->found = false;
		gm_node_each(NULL, node_try, find);
		missed += !find->found;
		if (find->found && (find->result != GM_NODE_SILENT || gm_clock_ns() >= end))
			return;
		gm_sys_nap(NAP);
	}
}

/* Send one request and read its reply. False: a message was printed. */
static bool control_ask(struct gm_node_link *link, enum gm_node_kind kind, uint32_t pid,
			struct gm_control *control)
{
	struct gm_node_message reply;
	link->end = gm_clock_ns() + PATIENCE;
	enum gm_node_result result = gm_node_ask(link, kind, "", 0, &reply);
	bool good = result == GM_NODE_OK && reply.size == sizeof *control;
	if (good)
		memcpy(control, reply.data, sizeof *control);
	else if (result == GM_NODE_REFUSED)
		gm_tool_error("%u: it was not started with GPUMEM_SLEEP=1, or it ends", pid);
	else
		gm_tool_error("%u: %s", pid,
			      gm_node_why(result == GM_NODE_OK ? GM_NODE_GARBLED : result));
	if (result == GM_NODE_OK)
		gm_node_close_all(&reply);
	return good;
}

static void bytes_print(const char *before, uint64_t bytes, const char *text)
{
	char size[32];
	if (bytes)
		printf("%s%s %s", before, gm_size_format(bytes, size, sizeof size), text);
}

static void control_print(uint32_t pid, const struct gm_control *c)
{
	char moved[32], time[32];
	printf("%u: %s, %s moved in %s", pid, c->state == GM_DOOR_ASLEEP ? "asleep" : "awake",
	       gm_size_format(c->moved, moved, sizeof moved),
	       gm_time_format(c->ns, time, sizeof time));
	bytes_print("; ", c->away - c->filed, "in host memory");
	bytes_print("; ", c->filed, "in a file");
	bytes_print("; stays: ", c->away ? c->mapped - c->away : 0, "of pools");
	bytes_print("; ", c->pinned, "pinned");
	bytes_print("; ", c->questions, "for questions about pointers");
	bytes_print("; ", c->driver, "of the driver's cudaMalloc");
	bytes_print("; ", c->async, "of cudaMallocAsync");
	bytes_print("; ", c->created, "of cuMemCreate");
	bytes_print("; ", c->array, "of arrays");
	bytes_print("; ", c->managed, "of cudaMallocManaged");
	bytes_print("; ", c->graph, "of graphs");
	bytes_print("; ", c->external, "imported");
	putchar('\n');
}

/* Wait for the end of the request that `control` replied to. False: a message was printed. */
static bool request_await(struct gm_node_link *link, uint32_t pid, bool sleeps,
			  struct gm_control *control)
{
	uint64_t number = control->asked;
	while (control->done < number) {
		gm_sys_nap(NAP);
		if (!control_ask(link, GM_NODE_RESIDENCY, pid, control))
			return false;
	}
	if (control->refusal == GM_REFUSAL_NONE || (sleeps && control->refusal == GM_REFUSAL_AWAY))
		return true;
	control->refused_for[GM_CONTROL_NAME - 1] = '\0';
	gm_tool_error("%u: does not %s: %s%s%s", pid, sleeps ? "sleep" : "wake",
		      gm_refusal_text((enum gm_refusal)control->refusal),
		      *control->refused_for ? ": " : "", control->refused_for);
	return false;
}

static bool process_ask(uint32_t pid, bool sleeps)
{
	struct find find = {.pid = pid};
	struct gm_control control;
	node_find(&find);
	if (!find.found) {
		gm_tool_error("%u: no process of this user that was started with GPUMEM_SLEEP=1 "
			      "and has used a GPU",
			      pid);
		return false;
	}
	if (find.result != GM_NODE_OK) {
		gm_tool_error("%u: %s", pid, gm_node_why(find.result));
		return false;
	}
	bool done = control_ask(&find.link, sleeps ? GM_NODE_SLEEP : GM_NODE_WAKE, pid, &control) &&
		    request_await(&find.link, pid, sleeps, &control);
	gm_node_disconnect(&find.link);
	if (done)
		control_print(pid, &control);
	return done;
}

static int command_run(const struct gm_command *self, int argc, char **argv, bool sleeps)
{
	struct gm_options options;
	int pid, status = GM_EXIT_OK, first = gm_options_parse(&options, self, argc, argv);
	if (first == GM_OPTIONS_STOP)
		return options.status;
	if (first == argc)
		return gm_tool_usage(self->name, "%s: expected PID", self->name);
	for (int i = first; i < argc; i++)
		if (!gm_process_parse(argv[i], &pid))
			return gm_tool_usage(self->name, "%s: expected PID, not '%s'", self->name,
					     argv[i]);
	for (int i = first; i < argc; i++)
		if (gm_process_parse(argv[i], &pid) && !process_ask((uint32_t)pid, sleeps))
			status = GM_EXIT_FAILED;
	int flushed = gm_tool_flush();
	return status ? status : flushed;
}

int gm_sleep_main(const struct gm_command *self, int argc, char **argv)
{
	return command_run(self, argc, argv, true);
}

int gm_wake_main(const struct gm_command *self, int argc, char **argv)
{
	return command_run(self, argc, argv, false);
}
