/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sleep and wake: send an order to the node of each process, which replies at once; then poll all
 * until each is done. The processes of a job or tree may wait for each other: first all shut their
 * doors, then they move (shim/sleep/orders.h).
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
#include "residency/control.h"
#include "residency/door.h"
#include "residency/move.h"
#include "rpc/rpc.h"
#include "tools/command/selection.h"
#include "tools/log/process.h"
#include "tools/options.h"
#include "tools/output/emit.h"
#include "tools/tool.h"

#define PATIENCE 10000000000u	  /* ns for one reply; */
#define HOLD_PATIENCE 3000000000u /* of a process of a job, as the others wait for it */
#define NAP 5000000u		  /* ns between two polls */
#define HOLD_NAP 500000u	  /* the same, while doors are shut */
#define HOLD 500000000u		/* ns that each process of a job has to shut its door, at first; */
#define HOLDS 4			/* each further try, of so many, has twice the time */
#define STEP_AFTER 2000000u	/* ns that held processes wait for the others before they go on */
#define STEP_FIRST 4000000u	/* ns that their doors are open then */
#define HOLD_BEYOND 2000000000u /* ns beyond its time after which a process is not awaited */
#define NOBODY "no process of this user that was started with GPUMEM_SLEEP=1 and has used a GPU"

struct target {
	struct gm_chosen chosen;
	char program[64];
	enum gm_rpc_kind awaited; /* the request that was sent */
	bool replied;		  /* `control` is known */
	struct gm_control control;
	bool ordered;	 /* it gets the present order */
	uint64_t number; /* of that order; 0: not acknowledged */
	bool stepped;	 /* by the last step of the targets */
	bool named;	 /* by an operand */
	bool skipped;	 /* it has ended or cannot sleep, and is not named */
	uint32_t refusal;
	char why[400]; /* it failed; "": not so far */
};

struct targets {
	GM_ARRAY(struct target) a;
	bool sleeps;
	bool holds;			/* all are polled, as any may change its state */
	struct gm_hold_request request; /* of HOLD or STEP */
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
	return target->ordered && !target_is_over(target) &&
	       (!target->number || target->control.done < target->number);
}

/* A held process may open its door, and a sleeping one may wake. */
static bool target_is_polled(const struct targets *t, const struct target *target)
{
	return target_waits(target) || (t->holds && target->ordered && !target_is_over(target));
}

/* --- requests --- */

/* A process that has ended or cannot sleep fails only if an operand named it. */
static void target_refuse(struct target *target, enum gm_rpc_result result)
{
	const bool is_out = result == GM_RPC_GONE || (result == GM_RPC_REFUSED && !target->replied);
	if (is_out && !target->named)
		target->skipped = true;
	else if (result == GM_RPC_REFUSED && target->replied)
		target_fail(target, "it ends, or has an older release of gpumem");
	else if (result == GM_RPC_REFUSED)
		target_fail(target, "it was not started with GPUMEM_SLEEP=1, or it ends");
	else
		target_fail(target, "%s", gm_rpc_why(result));
}

static void request_send(const struct targets *t, struct target *target, enum gm_rpc_kind kind)
{
	struct gm_rpc_message request = {.size = 0};
	if (kind == GM_RPC_HOLD || kind == GM_RPC_STEP) {
		request.size = sizeof t->request;
		memcpy(request.data, &t->request, sizeof t->request);
	}
	target->awaited = kind;
	target->chosen.link.end = gm_clock_ns() + (t->holds ? HOLD_PATIENCE : PATIENCE);
	enum gm_rpc_result result = gm_rpc_send(&target->chosen.link, kind, &request);
	if (result != GM_RPC_OK)
		target_refuse(target, result);
}

static void reply_take(struct target *target)
{
	struct gm_rpc_message reply;
	enum gm_rpc_result result = gm_rpc_receive(&target->chosen.link, target->awaited, &reply);
	if (result != GM_RPC_OK) {
		target_refuse(target, result);
		return;
	}
	if (reply.size == sizeof target->control) {
		memcpy(&target->control, reply.data, sizeof target->control);
		if (target->awaited != GM_RPC_RESIDENCY)
			target->number = target->control.asked;
		target->replied = true;
	} else {
		target_refuse(target, GM_RPC_GARBLED);
	}
	gm_rpc_close_all(&reply);
}

/* Ask all that are not done yet, or are to be polled, before any reply is read. */
static void targets_ask(struct targets *t, enum gm_rpc_kind kind)
{
	for (size_t i = 0; i < t->a.n; i++)
		if (target_is_polled(t, &t->a.at[i]))
			request_send(t, &t->a.at[i], kind);
	for (size_t i = 0; i < t->a.n; i++)
		if (target_is_polled(t, &t->a.at[i]))
			reply_take(&t->a.at[i]);
}

static bool targets_wait(const struct targets *t)
{
	for (size_t i = 0; i < t->a.n; i++)
		if (target_waits(&t->a.at[i]))
			return true;
	return false;
}

/* Give an order to those with `ordered` set. */
static void targets_tell(struct targets *t, enum gm_rpc_kind order)
{
	for (size_t i = 0; i < t->a.n; i++)
		if (t->a.at[i].ordered)
			t->a.at[i].number = 0;
	targets_ask(t, order);
}

/* The same, and wait until all have obeyed or refused. */
static void targets_order(struct targets *t, enum gm_rpc_kind order)
{
	targets_tell(t, order);
	while (targets_wait(t)) {
		gm_sys_nap(NAP);
		targets_ask(t, GM_RPC_RESIDENCY);
	}
}

static void target_judge(struct target *target, uint32_t refusal, bool sleeps)
{
	struct gm_control *control = &target->control;
	if (target_is_over(target) || refusal == GM_REFUSAL_NONE ||
	    (sleeps && refusal == GM_REFUSAL_AWAY) || (!sleeps && control->state != GM_DOOR_ASLEEP))
		return;
	control->refused_for[GM_CONTROL_NAME - 1] = '\0';
	target->refusal = refusal;
	target_fail(target, "does not %s: %s%s%s", sleeps ? "sleep" : "wake",
		    gm_refusal_text((enum gm_refusal)refusal), *control->refused_for ? ": " : "",
		    control->refused_for);
}

/* --- all together: shut, then move --- */

static bool target_is_held(const struct target *target)
{
	return !target_is_over(target) && target->number &&
	       target->control.done >= target->number && target->control.state == GM_CONTROL_HELD;
}

static bool targets_fail_any(const struct targets *t)
{
	for (size_t i = 0; i < t->a.n; i++)
		if (*t->a.at[i].why)
			return true;
	return false;
}

/* Work that was in the way may be complete at another try. */
static bool targets_may_retry(const struct targets *t)
{
	for (size_t i = 0; i < t->a.n; i++) {
		const struct target *target = &t->a.at[i];
		if (*target->why && target->refusal != GM_REFUSAL_BUSY &&
		    target->refusal != GM_REFUSAL_SUBMISSION &&
		    target->refusal != GM_REFUSAL_OTHERS)
			return false;
	}
	return true;
}

/* Take the refusals of processes that have answered. `n`: of those that are held; one that sleeps
 * already is as good as held. */
static void refusals_take(struct targets *t, size_t *n)
{
	*n = 0;
	for (size_t i = 0; i < t->a.n; i++) {
		struct target *target = &t->a.at[i];
		const bool held = target_is_held(target);
		uint32_t refusal = target->control.refusal;
		*n += held;
		if (target_waits(target) || !target->ordered || held ||
		    target->control.state == GM_DOOR_ASLEEP)
			continue;
		if (refusal == GM_REFUSAL_NONE || refusal == GM_REFUSAL_AWAY)
			refusal = GM_REFUSAL_OTHERS; /* it has opened again, or is awake again */
		target_judge(target, refusal, true);
	}
}

static void targets_order_held(struct targets *t)
{
	for (size_t i = 0; i < t->a.n; i++)
		t->a.at[i].ordered = target_is_held(&t->a.at[i]);
}

/* The held processes submit a little, for `*ns`, as the work of the others may wait for it. If now
 * others are held than before, those have gone too far, so *ns is halved. */
static void targets_step(struct targets *t, uint64_t *ns)
{
	bool any = false, others = false;
	for (size_t i = 0; i < t->a.n; i++) {
		const struct target *target = &t->a.at[i];
		any |= target->stepped;
		others |= target_is_held(target) && !target->stepped;
	}
	*ns /= any && others ? 2 : 1;
	t->request.ns = *ns;
	for (size_t i = 0; i < t->a.n; i++) {
		struct target *target = &t->a.at[i];
		target->stepped = target_is_held(target);
		if (!target->stepped)
			continue;
		target->number = 0;
		request_send(t, target, GM_RPC_STEP);
	}
	for (size_t i = 0; i < t->a.n; i++)
		if (t->a.at[i].stepped && !target_is_over(&t->a.at[i]))
			reply_take(&t->a.at[i]);
}

/* The try goes on: one is not held yet, and each refusal is that its work takes long. */
static bool hold_goes_on(const struct targets *t)
{
	bool waits = false;
	for (size_t i = 0; i < t->a.n; i++) {
		const struct target *target = &t->a.at[i];
		if (*target->why && target->refusal != GM_REFUSAL_BUSY &&
		    target->refusal != GM_REFUSAL_SUBMISSION)
			return false;
		waits |= target_waits(target);
	}
	return waits;
}

/* False: a process did not shut its door. */
static bool targets_hold(struct targets *t, uint64_t ns)
{
	uint64_t now = gm_clock_ns(), changed = now, step = STEP_FIRST;
	const uint64_t end = now + ns + HOLD_BEYOND;
	size_t held = 0, before = 0;
	for (size_t i = 0; i < t->a.n; i++)
		t->a.at[i].stepped = false;
	t->request.ns = ns;
	if (!targets_fail_any(t))
		targets_tell(t, GM_RPC_HOLD);
	for (refusals_take(t, &held); hold_goes_on(t) && now < end; refusals_take(t, &held)) {
		if (held != before)
			changed = now;
		before = held;
		if (held && now - changed >= STEP_AFTER) {
			targets_step(t, &step);
			before = 0;
		}
		gm_sys_nap(HOLD_NAP);
		targets_ask(t, GM_RPC_RESIDENCY);
		now = gm_clock_ns();
	}
	for (size_t i = 0; i < t->a.n && now >= end; i++) {
		struct target *target = &t->a.at[i];
		if (!target_waits(target))
			continue;
		target->refusal = GM_REFUSAL_OTHERS;
		target_fail(target, "does not sleep: it did not obey in time");
	}
	return !targets_fail_any(t);
}

/* Open the doors that are shut. None of the processes goes to sleep, and each says so. */
static void targets_let_go(struct targets *t)
{
	for (size_t i = 0; i < t->a.n; i++)
		t->a.at[i].ordered &= t->a.at[i].number != 0;
	targets_tell(t, GM_RPC_LET);
	for (size_t i = 0; i < t->a.n; i++) {
		struct target *target = &t->a.at[i];
		*target->control.refused_for = '\0';
		if (target->control.state != GM_DOOR_ASLEEP)
			target_judge(target, GM_REFUSAL_OTHERS, true);
		target->ordered = false;
	}
}

static void targets_order_again(struct targets *t)
{
	for (size_t i = 0; i < t->a.n; i++) {
		struct target *target = &t->a.at[i];
		target->ordered = !target->skipped;
		target->refusal = GM_REFUSAL_NONE;
		*target->why = '\0';
	}
}

/* False: not all can sleep, and no door is shut. */
static bool targets_stop(struct targets *t)
{
	bool stopped = false, again = true;
	t->holds = true;
	targets_ask(t, GM_RPC_RESIDENCY); /* who takes orders? */
	for (unsigned tries = 0; tries < HOLDS && again && !stopped; tries++) {
		if (tries)
			targets_order_again(t);
		stopped = targets_hold(t, (uint64_t)HOLD << tries);
		again = targets_may_retry(t);
		if (stopped)
			targets_order_held(t);
		else
			targets_let_go(t);
	}
	t->holds = false;
	return stopped;
}

static void targets_run(struct targets *t, bool together)
{
	const bool stops = t->sleeps && together && t->a.n > 1;
	for (size_t i = 0; i < t->a.n; i++)
		t->a.at[i].ordered = true;
	if (!stops || targets_stop(t))
		targets_order(t, !t->sleeps ? GM_RPC_WAKE : stops ? GM_RPC_GO : GM_RPC_SLEEP);
	for (size_t i = 0; i < t->a.n; i++) {
		struct target *target = &t->a.at[i];
		if (target->ordered)
			target_judge(target, target->control.refusal, t->sleeps);
		if (target->chosen.link.fd >= 0)
			gm_rpc_disconnect(&target->chosen.link);
	}
}

static void targets_add(struct targets *t, const struct gm_chosen *chosen, bool named)
{
	struct target target = {.chosen = *chosen, .named = named};
	gm_process_program((int)chosen->pid, target.program, sizeof target.program);
	errno = chosen->error;
	if (!chosen->found)
		target_fail(&target, NOBODY);
	else if (chosen->result != GM_RPC_OK)
		target_fail(&target, "%s", gm_rpc_why(chosen->result));
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
	targets_run(&t, selection->together);
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
