/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sleep and wake: send a request to the node of each process, which replies at once; then poll all
 * until each is done. The processes of a job wait for each other, so none waits for another's end
 * here before it is asked.
 */
#include <errno.h>
#include <stdarg.h>
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
#include "tools/command/selection.h"
#include "tools/log/process.h"
#include "tools/options.h"
#include "tools/output/emit.h"
#include "tools/tool.h"

#define PATIENCE 10000000000u /* ns for one reply */
#define NAP 5000000u	      /* ns between two polls */
#define NOBODY "no process of this user that was started with GPUMEM_SLEEP=1 and has used a GPU"

struct target {
	struct gm_chosen chosen;
	char program[64];
	enum gm_node_kind awaited; /* the request that was sent */
	bool replied;		   /* `control` is known */
	struct gm_control control;
	uint64_t number; /* of the request */
	bool named;	 /* by an operand */
	bool skipped;	 /* it has ended or cannot sleep, and is not named */
	uint32_t refusal;
	char why[400]; /* it failed; "": not so far */
};

struct targets {
	GM_ARRAY(struct target) a;
	bool sleeps;
};

__attribute__((format(printf, 2, 3))) static void target_fail(struct target *target,
							      const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(target->why, sizeof target->why, format, args);
	va_end(args);
}

static bool target_is_over(const struct target *target)
{
	return *target->why || target->skipped;
}

static bool target_waits(const struct target *target)
{
	return !target_is_over(target) &&
	       (!target->replied || target->control.done < target->number);
}

/* --- requests --- */

/* A process that has ended or cannot sleep fails only if an operand named it. */
static void target_refuse(struct target *target, enum gm_node_result result)
{
	const bool is_out = result == GM_NODE_REFUSED || result == GM_NODE_GONE;
	if (is_out && !target->named && !target->replied)
		target->skipped = true;
	else if (result == GM_NODE_REFUSED)
		target_fail(target, "it was not started with GPUMEM_SLEEP=1, or it ends");
	else
		target_fail(target, "%s", gm_node_why(result));
}

static void request_send(struct target *target, enum gm_node_kind kind)
{
	const struct gm_node_message request = {.size = 0};
	target->awaited = kind;
	target->chosen.link.end = gm_clock_ns() + PATIENCE;
	enum gm_node_result result = gm_node_send(&target->chosen.link, kind, &request);
	if (result != GM_NODE_OK)
		target_refuse(target, result);
}

static void reply_take(struct target *target)
{
	struct gm_node_message reply;
	enum gm_node_result result = gm_node_receive(&target->chosen.link, target->awaited, &reply);
	if (result != GM_NODE_OK) {
		target_refuse(target, result);
		return;
	}
	if (reply.size == sizeof target->control) {
		memcpy(&target->control, reply.data, sizeof target->control);
		if (!target->replied)
			target->number = target->control.asked;
		target->replied = true;
	} else {
		target_refuse(target, GM_NODE_GARBLED);
	}
	gm_node_close_all(&reply);
}

/* Ask all that are not done yet, before any reply is read. */
static void targets_ask(struct targets *t, enum gm_node_kind kind)
{
	for (size_t i = 0; i < t->a.n; i++)
		if (target_waits(&t->a.at[i]))
			request_send(&t->a.at[i], kind);
	for (size_t i = 0; i < t->a.n; i++)
		if (target_waits(&t->a.at[i]))
			reply_take(&t->a.at[i]);
}

static bool targets_wait(const struct targets *t)
{
	for (size_t i = 0; i < t->a.n; i++)
		if (target_waits(&t->a.at[i]))
			return true;
	return false;
}

/* The result of a completed request. */
static void target_judge(struct target *target, bool sleeps)
{
	struct gm_control *control = &target->control;
	if (target_is_over(target) || control->refusal == GM_REFUSAL_NONE ||
	    (sleeps && control->refusal == GM_REFUSAL_AWAY))
		return;
	control->refused_for[GM_CONTROL_NAME - 1] = '\0';
	target->refusal = control->refusal;
	target_fail(target, "does not %s: %s%s%s", sleeps ? "sleep" : "wake",
		    gm_refusal_text((enum gm_refusal)control->refusal),
		    *control->refused_for ? ": " : "", control->refused_for);
}

static void targets_run(struct targets *t)
{
	targets_ask(t, t->sleeps ? GM_NODE_SLEEP : GM_NODE_WAKE);
	while (targets_wait(t)) {
		gm_sys_nap(NAP);
		targets_ask(t, GM_NODE_RESIDENCY);
	}
	for (size_t i = 0; i < t->a.n; i++) {
		struct target *target = &t->a.at[i];
		target_judge(target, t->sleeps);
		if (target->chosen.link.fd >= 0)
			gm_node_disconnect(&target->chosen.link);
	}
}

static void targets_add(struct targets *t, const struct gm_chosen *chosen, bool named)
{
	struct target target = {.chosen = *chosen, .named = named};
	gm_process_program((int)chosen->pid, target.program, sizeof target.program);
	errno = chosen->error;
	if (!chosen->found)
		target_fail(&target, NOBODY);
	else if (chosen->result != GM_NODE_OK)
		target_fail(&target, "%s", gm_node_why(chosen->result));
	if (!gm_array_push(&t->a, target)) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
}

/* --- output --- */

/* Where a process's memory is: rows of text and of JSON. The first two left the device. */
enum { PARTS = 12, PARTS_AWAY = 2 };
static const struct {
	const char *key, *before, *text;
} parts[PARTS] = {
	{"host_memory", "; ", "in host memory"},
	{"file", "; ", "in a file"},
	{"pools", "; stays: ", "of pools"},
	{"pinned", "; ", "pinned"},
	{"questions", "; ", "for questions about pointers"},
	{"cudaMalloc", "; ", "of the driver's cudaMalloc"},
	{"cudaMallocAsync", "; ", "of cudaMallocAsync"},
	{"cuMemCreate", "; ", "of cuMemCreate"},
	{"arrays", "; ", "of arrays"},
	{"cudaMallocManaged", "; ", "of cudaMallocManaged"},
	{"graphs", "; ", "of graphs"},
	{"imported", "; ", "imported"},
};

static void parts_read(const struct gm_control *c, uint64_t bytes[PARTS])
{
	const uint64_t read[PARTS] = {
		c->away - c->filed, c->filed,	  c->away ? c->mapped - c->away : 0,
		c->pinned,	    c->questions, c->driver,
		c->async,	    c->created,	  c->array,
		c->managed,	    c->graph,	  c->external,
	};
	memcpy(bytes, read, sizeof read);
}

static const char *state_text(const struct gm_control *c)
{
	return c->state == GM_DOOR_ASLEEP ? "asleep" : "awake";
}

static void target_print(const struct target *target)
{
	const struct gm_control *c = &target->control;
	uint64_t bytes[PARTS];
	char size[32], time[32];
	printf("%u: %s, %s moved in %s", target->chosen.pid, state_text(c),
	       gm_size_format(c->moved, size, sizeof size),
	       gm_time_format(c->ns, time, sizeof time));
	parts_read(c, bytes);
	for (unsigned i = 0; i < PARTS; i++)
		if (bytes[i])
			printf("%s%s %s", parts[i].before,
			       gm_size_format(bytes[i], size, sizeof size), parts[i].text);
	putchar('\n');
}

static void target_emit(struct gm_emit *emit, const struct target *target)
{
	const struct gm_control *c = &target->control;
	const bool known = target->replied;
	uint64_t bytes[PARTS];
	parts_read(c, bytes);
	gm_emit_object(emit, NULL);
	gm_emit_value(emit, "pid", GM_COUNT(target->chosen.pid));
	gm_emit_value(emit, "program", *target->program ? GM_TEXT(target->program) : GM_NONE);
	gm_emit_value(emit, "state", known ? GM_TEXT(state_text(c)) : GM_NONE);
	gm_emit_value(emit, "moved", known ? GM_BYTES(c->moved) : GM_NONE);
	gm_emit_value(emit, "ns", known ? GM_NS(c->ns) : GM_NONE);
	for (unsigned i = 0; i < PARTS; i++) {
		if (i == PARTS_AWAY)
			gm_emit_object(emit, "stays");
		gm_emit_value(emit, parts[i].key, known ? GM_BYTES(bytes[i]) : GM_NONE);
	}
	gm_emit_end(emit);
	gm_emit_value(emit, "refusal", target->refusal ? GM_COUNT(target->refusal) : GM_NONE);
	gm_emit_value(emit, "error", *target->why ? GM_TEXT(target->why) : GM_NONE);
	gm_emit_end(emit);
}

static int targets_emit(const struct targets *t, const struct gm_options *options)
{
	struct gm_emit emit;
	gm_emit_open(&emit, stdout, options);
	gm_emit_list(&emit, "processes");
	for (size_t i = 0; i < t->a.n; i++)
		if (!t->a.at[i].skipped)
			target_emit(&emit, &t->a.at[i]);
	gm_emit_end(&emit);
	return gm_emit_close(&emit);
}

/* An error is a line in any case. GM_EXIT_FAILED: there was one. */
static int targets_show(const struct targets *t, const struct gm_options *options)
{
	int status = GM_EXIT_OK;
	for (size_t i = 0; i < t->a.n; i++) {
		const struct target *target = &t->a.at[i];
		if (*target->why) {
			gm_tool_error("%u: %s", target->chosen.pid, target->why);
			status = GM_EXIT_FAILED;
		} else if (!options->json && !target->skipped) {
			target_print(target);
		}
	}
	int written = options->json ? targets_emit(t, options) : gm_tool_flush();
	return status ? status : written;
}

/* --- the commands --- */

/* False, after a message: the selection has no process. */
static bool targets_are_there(const struct targets *t, const struct gm_selection *selection)
{
	for (size_t i = 0; i < t->a.n; i++)
		if (!t->a.at[i].skipped)
			return true;
	gm_tool_error("--%s%s%s: " NOBODY, selection->option, *selection->value ? "=" : "",
		      selection->value);
	return false;
}

static int processes_ask(const struct gm_options *options, const struct gm_selection *selection,
			 int n, char **operands, bool sleeps)
{
	struct targets t = {.sleeps = sleeps};
	struct gm_chosen_list chosen = {0};
	int pid;
	if (selection->option)
		gm_selection_choose(selection, &chosen);
	for (int i = 0; i < n; i++)
		if (gm_process_parse(operands[i], &pid))
			gm_selection_find((uint32_t)pid, &chosen);
	for (size_t i = 0; i < chosen.a.n; i++)
		targets_add(&t, &chosen.a.at[i], !selection->option);
	gm_array_free(&chosen.a);
	targets_run(&t);
	bool there = targets_are_there(&t, selection);
	int status = targets_show(&t, options);
	gm_array_free(&t.a);
	return there ? status : GM_EXIT_FAILED;
}

static int command_run(const struct gm_command *self, int argc, char **argv, bool sleeps)
{
	struct gm_options options;
	struct gm_selection selection;
	int pid, first = gm_options_parse(&options, self, argc, argv);
	if (first == GM_OPTIONS_STOP)
		return options.status;
	if (!gm_selection_get(&options, self->name, &selection))
		return GM_EXIT_USAGE;
	if (first == argc && !selection.option)
		return gm_tool_usage(self->name,
				     "%s: expected PID, --all, --program, --job or --tree",
				     self->name);
	for (int i = first; i < argc; i++)
		if (!gm_process_parse(argv[i], &pid))
			return gm_tool_usage(self->name, "%s: expected PID, not '%s'", self->name,
					     argv[i]);
	if (first < argc && selection.option)
		return gm_tool_usage(self->name, "%s: --%s and PID exclude each other", self->name,
				     selection.option);
	return processes_ask(&options, &selection, argc - first, argv + first, sleeps);
}

int gm_sleep_main(const struct gm_command *self, int argc, char **argv)
{
	return command_run(self, argc, argv, true);
}

int gm_wake_main(const struct gm_command *self, int argc, char **argv)
{
	return command_run(self, argc, argv, false);
}
