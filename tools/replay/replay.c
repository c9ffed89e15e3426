/* SPDX-License-Identifier: BSD-3-Clause */
/* gpumemstat replay: compares the pool with other policies on the requests of a trace. */
#include "tools/replay/replay.h"
#include "tools/log/logs.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/size.h"
#include "pool/knobs.h"
#include "tools/output/emit.h"
#include "tools/replay/policy.h"
#include "tools/replay/policy_meter.h"
#include "tools/tool.h"

#define MEMORY_DEFAULT (141 * GM_GIB)

/* The result of a policy for a trace. */
struct result {
	const struct gm_policy *policy;
	struct gm_meter meter;
	uint64_t requested, requested_peak; /* of served requests */
	uint64_t operations, failed, ns, waited_ns;
};

/* The modelled device. */
struct device {
	uint64_t memory, limit; /* limit UINT64_MAX: none */
};

static struct device device_config(const struct gm_trace *trace, const struct gm_options *options)
{
	struct gm_knobs knobs = *gm_knob_get();
	struct gm_pool_config config;
	struct device device = {.memory = options->memory};
	char why[128];
	if (!device.memory)
		device.memory = trace->memory ? trace->memory : MEMORY_DEFAULT;
	if (options->limit)
		gm_knob_parse(GM_KNOB_ID_limit, options->limit, &knobs.limit, why, sizeof why);
	gm_pool_config_knobs(&config, &knobs, device.memory);
	device.limit = config.limit < device.memory ? config.limit : UINT64_MAX;
	return device;
}

/* --- running a trace --- */

static void trace_step(struct result *r, void *state, const struct gm_trace *trace,
		       const struct gm_trace_event *event, struct gm_policy_place *places)
{
	struct gm_policy_place *place = &places[event->block];
	const uint64_t size = trace->blocks.at[event->block]->size;
	if (event->frees) {
		if (!place->address)
			return; /* its request was refused */
		r->policy->free(state, place, event->time);
		place->address = 0;
		r->requested -= size;
	} else if (r->policy->alloc(state, size, event->time, place)) {
		r->requested += size;
		r->requested_peak =
			r->requested > r->requested_peak ? r->requested : r->requested_peak;
	} else {
		r->failed++;
	}
	r->operations++;
}

/* Free the remaining live blocks: close requires it. */
static void trace_free_rest(struct result *r, void *state, const struct gm_trace *trace,
			    const struct gm_policy_place *places)
{
	uint64_t now = trace->events.n ? trace->events.at[trace->events.n - 1].time : 0;
	for (size_t i = 0; i < trace->blocks.n; i++)
		if (places[i].address)
			r->policy->free(state, &places[i], now);
}

static struct result trace_run(const struct gm_policy *policy, const struct gm_trace *trace,
			       const struct device *device)
{
	struct result r = {.policy = policy};
	struct gm_driver driver;
	struct gm_policy_place *places = gm_policy_make((trace->blocks.n + 1) * sizeof *places);
	bool small = !policy->limited && device->limit < device->memory;
	gm_policy_waited = 0;
	gm_meter_open(&driver, small ? device->limit : device->memory);
	void *state = policy->open(&driver, device->memory, device->limit);
	uint64_t start = gm_clock_ns();
	for (size_t i = 0; i < trace->events.n; i++)
		trace_step(&r, state, trace, &trace->events.at[i], places);
	uint64_t took = gm_clock_ns() - start;
	gm_meter_read(&r.meter);
	r.ns = took > r.meter.ns ? took - r.meter.ns : 0;
	r.waited_ns = gm_policy_waited;
	trace_free_rest(&r, state, trace, places);
	policy->close(state);
	gm_meter_close();
	free(places);
	return r;
}

/* --- output --- */

static uint64_t result_utilisation(const struct result *r)
{
	if (!r->meter.peak)
		return 1000000;
	return (uint64_t)((unsigned __int128)r->requested_peak * 1000000 / r->meter.peak);
}

static uint64_t result_calls(const struct result *r)
{
	uint64_t sum = 0;
	for (unsigned i = 0; i < GM_METER_COUNT; i++)
		sum += r->meter.calls[i];
	return sum;
}

static void trace_show(struct gm_emit *emit, const struct gm_trace *trace,
		       const struct device *device)
{
	uint64_t limit = device->limit < device->memory ? device->limit : device->memory;
	char a[32], b[32], c[32];
	gm_emit_value(emit, "path", GM_TEXT(trace->path));
	gm_emit_value(emit, "format", GM_TEXT(trace->format));
	gm_emit_value(emit, "device", GM_COUNT(trace->device));
	gm_emit_value(emit, "memory", GM_BYTES(device->memory));
	gm_emit_value(emit, "limit", GM_BYTES(limit));
	gm_emit_value(emit, "allocations", GM_COUNT(trace->blocks.n));
	gm_emit_value(emit, "frees", GM_COUNT(trace->events.n - trace->blocks.n));
	gm_emit_value(emit, "requested", GM_BYTES(trace->requested));
	gm_emit_value(emit, "requested_peak", GM_BYTES(trace->requested_peak));
	gm_emit_value(emit, "refused", GM_COUNT(trace->refused));
	gm_emit_value(emit, "empty", GM_COUNT(trace->empty));
	gm_emit_value(emit, "missing", GM_COUNT(trace->missing));
	gm_emit_line(emit, "trace", "%s: %s, %s allocations, %s frees, at most %s alive",
		     trace->path, trace->format, gm_tool_count(trace->blocks.n, a, sizeof a),
		     gm_tool_count(trace->events.n - trace->blocks.n, b, sizeof b),
		     gm_size_format(trace->requested_peak, c, sizeof c));
	if (trace->refused || trace->empty || trace->missing)
		gm_emit_line(emit, "left out",
			     "%s refused, %s of 0 bytes, %s frees of blocks from before",
			     gm_tool_count(trace->refused, a, sizeof a),
			     gm_tool_count(trace->empty, b, sizeof b),
			     gm_tool_count(trace->missing, c, sizeof c));
	gm_emit_line(emit, "device", "%s%s%s", gm_size_format(device->memory, a, sizeof a),
		     limit < device->memory ? ", limit " : "",
		     limit < device->memory ? gm_size_format(limit, b, sizeof b) : "");
	gm_emit_break(emit);
}

static void result_show(struct gm_emit *emit, const struct result *r)
{
	const uint64_t *calls = r->meter.calls;
	const struct gm_value values[] = {
		GM_TEXT(r->policy->name),
		GM_PPM(result_utilisation(r)),
		GM_BYTES(r->requested_peak),
		GM_BYTES(r->meter.peak),
		GM_COUNT(calls[GM_METER_create] + calls[GM_METER_alloc]),
		GM_COUNT(result_calls(r)),
#define GM_METER_CALL(name) GM_COUNT(calls[GM_METER_##name]),
		GM_METER_CALLS(GM_METER_CALL)
#undef GM_METER_CALL
			GM_COUNT(r->failed),
		GM_COUNT(r->operations),
		GM_NS(r->waited_ns),
		GM_NS(r->operations ? r->ns / r->operations : 0),
	};
	gm_emit_row(emit, NULL, values);
}

static void table_show(struct gm_emit *emit, const struct result *results, unsigned n)
{
	static const struct gm_column columns[] = {
		{"policy", "policy", GM_COLUMN_LEFT},
		{"utilisation", "utilisation", 0},
		{"requested_peak", "requested", 0},
		{"mapped_peak", "mapped", 0},
		{"taken", "taken", GM_COLUMN_TEXT_ONLY},
		{"calls", "calls", 0},
#define GM_METER_CALL(name) {#name "_calls", "", GM_COLUMN_JSON_ONLY},
		GM_METER_CALLS(GM_METER_CALL)
#undef GM_METER_CALL
			{"failed", "failed", 0},
		{"operations", "", GM_COLUMN_JSON_ONLY},
		{"waited_ns", "", GM_COLUMN_JSON_ONLY},
		{"ns_per_operation", "time", 0},
	};
	gm_emit_table(emit, "policies", false, columns, sizeof columns / sizeof *columns);
	for (unsigned i = 0; i < n; i++)
		result_show(emit, &results[i]);
	gm_emit_table_end(emit);
}

/* Check --min-utilisation: GM_EXIT_EXCEEDED, after a message, if the result is below. */
static int result_judge(const struct gm_trace *trace, const struct gm_options *options,
			const struct result *pool)
{
	char reached[32], asked[32];
	uint64_t is = result_utilisation(pool);
	if (options->least == UINT32_MAX || (is >= options->least && !pool->failed))
		return GM_EXIT_OK;
	if (pool->failed)
		gm_tool_error("%s: the pool refused %s of %s allocations", trace->path,
			      gm_tool_count(pool->failed, reached, sizeof reached),
			      gm_tool_count(trace->blocks.n, asked, sizeof asked));
	else
		gm_tool_error("%s: utilisation of the pool is %llu.%06llu, below %u.%06u",
			      trace->path, (unsigned long long)is / 1000000,
			      (unsigned long long)is % 1000000, options->least / 1000000,
			      options->least % 1000000);
	return GM_EXIT_EXCEEDED;
}

static int trace_replay(struct gm_emit *emit, const struct gm_trace *trace)
{
	const struct gm_options *options = emit->options;
	const struct device device = device_config(trace, options);
	struct result results[GM_POLICY_COUNT];
	unsigned n = 0;
	gm_policy_lag = options->lag;
	for (unsigned i = 0; i < GM_POLICY_COUNT; i++)
		if (options->policies & 1u << i)
			results[n++] = trace_run(gm_policies[i], trace, &device);
	gm_emit_object(emit, NULL);
	trace_show(emit, trace, &device);
	table_show(emit, results, n);
	gm_emit_end(emit);
	return result_judge(trace, options, &results[0]);
}

/* Below the last table, since all traces have the same policies. */
static void legend_show(struct gm_emit *emit)
{
	gm_emit_break(emit);
	for (unsigned i = 0; i < GM_POLICY_COUNT; i++)
		if (emit->options->policies & 1u << i)
			gm_emit_line(emit, gm_policies[i]->name, "%s", gm_policies[i]->says);
	gm_emit_line(emit, "taken", "calls of the driver that ask for memory");
	gm_emit_line(emit, "calls", "these, and those that return it");
}

/* The worse of two statuses: a failure outranks an exceeded limit. */
static int status_worse(int a, int b)
{
	return a == GM_EXIT_FAILED || b == GM_EXIT_FAILED ? GM_EXIT_FAILED : a > b ? a : b;
}

static int traces_replay(const struct gm_options *options, char *const *paths, int n)
{
	struct gm_emit emit;
	struct gm_trace trace;
	int status = GM_EXIT_OK;
	bool any = false;
	for (int i = 0; i < n; i++) {
		if (!gm_trace_read(&trace, paths[i], options)) {
			status = GM_EXIT_FAILED;
			continue;
		}
		if (!any) {
			gm_emit_open(&emit, stdout, options);
			gm_emit_list(&emit, "traces");
		} else {
			gm_emit_break(&emit);
		}
		any = true;
		status = status_worse(status, trace_replay(&emit, &trace));
		gm_trace_free(&trace);
	}
	if (!any)
		return status;
	gm_emit_end(&emit);
	legend_show(&emit);
	return status_worse(status, gm_emit_close(&emit));
}

int gm_replay_main(const struct gm_command *self, int argc, char **argv)
{
	struct gm_options options;
	int first = gm_options_parse(&options, self, argc, argv);
	if (first == GM_OPTIONS_STOP)
		return options.status;
	if (options.least != UINT32_MAX && !(options.policies & 1u << GM_POLICY_POOL))
		return gm_tool_usage(self->name,
				     "--min-utilisation is about the pool, which --policy leaves "
				     "out");
	struct gm_find found;
	int status = GM_EXIT_FAILED;
	if (gm_logs_find(&found, argv + first, (size_t)(argc - first)))
		status = traces_replay(&options, found.paths.at, (int)found.paths.n);
	gm_find_free(&found);
	return status;
}
