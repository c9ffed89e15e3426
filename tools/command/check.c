/* SPDX-License-Identifier: BSD-3-Clause */
/* gpumemstat check: compare the counters of logs with limits, for tests and CI. */
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/distance.h"
#include "base/size.h"
#include "tools/log/logs.h"
#include "tools/output/emit.h"

struct limit {
	enum gm_counter counter;
	uint64_t most;
};

struct check {
	const struct gm_options *options;
	GM_ARRAY(struct limit) limits;
	bool no_leaks;
};

/* A counter beyond its limit. */
struct excess {
	const struct gm_figures *figures;
	int device; /* -1: the process */
	const char *counter, *option;
	struct gm_value value, limit;
};

/* --- limits --- */

static bool number_parse(const char *text, uint64_t *out)
{
	return *text && !text[strspn(text, "0123456789")] && strlen(text) < 20 &&
	       sscanf(text, "%" SCNu64, out) == 1;
}

/* NULL: the value was read; else the message "expected ...". */
static const char *value_parse(enum gm_counter c, const char *text, uint64_t *out)
{
	switch (gm_logs_counter_kind(c)) {
	case GM_VALUE_BYTES:
		return gm_size_parse(text, out) ? NULL : "expected a size like 2GiB";
	case GM_VALUE_NS:
		return gm_time_parse(text, out) ? NULL : "expected a time like 500ms";
	case GM_VALUE_PPM:
		return gm_options_ratio(text, out) ? NULL
						   : "expected a ratio from 0 to 1, like 0.25";
	default:
		return number_parse(text, out) ? NULL : "expected a number";
	}
}

static int counter_unknown(const struct gm_command *self, const char *given, const char *name)
{
	const char *nearest = NULL;
	unsigned least = UINT32_MAX;
	for (unsigned i = 0; i < GM_COUNTER_COUNT; i++) {
		const unsigned far = gm_distance(name, gm_counter_table[i].name);
		if (far < least) {
			least = far;
			nearest = gm_counter_table[i].name;
		}
	}
	/* A very different name is no useful suggestion. */
	if (nearest && least <= 1 + strlen(name) / 4)
		return gm_tool_usage(self->name, "--max=%s: no counter '%s'; did you mean '%s'?",
				     given, name, nearest);
	return gm_tool_usage(self->name, "--max=%s: no counter '%s'; gpumem-log(5) lists them",
			     given, name);
}

/* Add "COUNTER=VALUE". GM_EXIT_OK, or a usage error. */
static int limit_add(struct check *check, const struct gm_command *self, const char *given)
{
	const char *equals = strchr(given, '=');
	char name[64] = "";
	struct limit limit = {.counter = GM_COUNTER_COUNT};
	if (!equals || equals == given)
		return gm_tool_usage(self->name, "--max=%s: expected COUNTER=VALUE", given);
	if ((size_t)(equals - given) < sizeof name)
		snprintf(name, sizeof name, "%.*s", (int)(equals - given), given);
	for (unsigned i = 0; i < GM_COUNTER_COUNT; i++)
		if (strcmp(name, gm_counter_table[i].name) == 0)
			limit.counter = (enum gm_counter)i;
	if (limit.counter == GM_COUNTER_COUNT)
		return counter_unknown(self, given, *name ? name : given);
	const struct gm_counter_info *info = &gm_counter_table[limit.counter];
	if (info->kind == GM_KIND_GAUGE && info->unit == GM_UNIT_NS)
		return gm_tool_usage(self->name, "--max=%s: %s is a moment, which has no limit",
				     given, name);
	const char *expected = value_parse(limit.counter, equals + 1, &limit.most);
	if (expected)
		return gm_tool_usage(self->name, "--max=%s: %s", given, expected);
	if (!gm_array_push(&check->limits, limit)) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
	return GM_EXIT_OK;
}

/* --- the comparison --- */

/* Texts of value and limit. If rounding makes them equal, both are exact: bytes, or plain numbers.
 */
static void excess_texts(const struct excess *e, char unit, char value[64], char limit[64])
{
	gm_value_format(e->value, unit, value, 64);
	gm_value_format(e->limit, unit, limit, 64);
	if (strcmp(value, limit) != 0)
		return;
	if (e->value.kind == GM_VALUE_BYTES) {
		gm_value_format(e->value, 'B', value, 64);
		gm_value_format(e->limit, 'B', limit, 64);
	} else {
		snprintf(value, 64, "%" PRIu64, e->value.n);
		snprintf(limit, 64, "%" PRIu64, e->limit.n);
	}
}

static void excess_show(struct gm_emit *emit, const struct excess *e)
{
	char value[64], limit[64], device[32] = "";
	if (e->device >= 0)
		snprintf(device, sizeof device, "device %d: ", e->device);
	excess_texts(e, emit->options->unit, value, limit);
	gm_emit_object(emit, NULL);
	gm_emit_value(emit, "path", GM_TEXT(e->figures->about->path));
	gm_emit_value(emit, "device", e->device < 0 ? GM_NONE : GM_INT(e->device));
	gm_emit_value(emit, "counter", GM_TEXT(e->counter));
	gm_emit_value(emit, "value", e->value);
	gm_emit_value(emit, "limit", e->limit);
	gm_emit_end(emit);
	gm_emit_plain(emit, "%s: %s%s is %s, above %s%s", e->figures->about->path, device,
		      e->counter, value, limit, e->option);
}

static unsigned limit_check(struct gm_emit *emit, const struct gm_figures *f,
			    const struct limit *limit)
{
	const struct gm_counter_info *info = &gm_counter_table[limit->counter];
	const bool process = info->scope == GM_SCOPE_PROCESS;
	const enum gm_value_kind kind = gm_logs_counter_kind(limit->counter);
	unsigned n = 0;
	for (unsigned d = 0; d < (process ? 1 : f->n_devices); d++) {
		const uint64_t value = gm_figures_device(f, d, limit->counter);
		if (value <= limit->most)
			continue;
		excess_show(emit, &(struct excess){.figures = f,
						   .device = process ? -1 : (int)d,
						   .counter = info->name,
						   .option = "",
						   .value = {kind, value, NULL},
						   .limit = {kind, limit->most, NULL}});
		n++;
	}
	return n;
}

/* Blocks alive at the end: blocks of the pool, in mode trace blocks of the driver. */
static unsigned leaks_check(struct gm_emit *emit, const struct gm_figures *f)
{
	const bool trace = gm_figures_is_trace(f);
	unsigned n = 0;
	for (unsigned d = 0; d < f->n_devices; d++) {
		const uint64_t live =
			trace ? gm_figures_device(f, d, GM_C_foreign_driver_calls) -
					gm_figures_device(f, d, GM_C_foreign_driver_frees)
			      : gm_figures_device(f, d, GM_C_live_blocks);
		if (!live)
			continue;
		excess_show(emit, &(struct excess){.figures = f,
						   .device = (int)d,
						   .counter = trace ? "foreign_driver_calls - "
								      "foreign_driver_frees"
								    : "live_blocks",
						   .option = " (--no-leaks)",
						   .value = GM_COUNT(live),
						   .limit = GM_COUNT(0)});
		n++;
	}
	return n;
}

/* Check the logs. Returns the exit status. */
static int logs_check(struct gm_emit *emit, const struct check *check, const struct gm_logs *logs)
{
	unsigned exceeded = 0;
	int status = GM_EXIT_OK;
	gm_emit_list(emit, "exceeded");
	for (size_t i = 0; i < logs->n; i++) {
		const struct gm_figures *f = &logs->at[i].figures;
		for (size_t j = 0; j < check->limits.n; j++)
			exceeded += limit_check(emit, f, &check->limits.at[j]);
		if (check->no_leaks && f->about->closed)
			exceeded += leaks_check(emit, f);
		if (check->no_leaks && !f->about->closed) {
			gm_tool_error("%s: %s: what it leaks is not known", f->about->path,
				      gm_figures_end(f));
			status = GM_EXIT_FAILED;
		}
	}
	gm_emit_end(emit);
	gm_emit_value(emit, "logs", GM_COUNT(logs->n));
	gm_emit_value(emit, "limits", GM_COUNT(check->limits.n + check->no_leaks));
	if (!exceeded && !status)
		gm_emit_plain(emit, "%zu log%s, %zu limit%s: none is exceeded", logs->n,
			      logs->n == 1 ? "" : "s", check->limits.n + check->no_leaks,
			      check->limits.n + check->no_leaks == 1 ? "" : "s");
	return exceeded ? GM_EXIT_EXCEEDED : status;
}

static int check_run(const struct check *check, char *const *names, size_t n)
{
	struct gm_logs logs;
	struct gm_emit emit;
	int status = gm_logs_open(&logs, check->options, names, n), found = GM_EXIT_OK;
	if (logs.n > 0) {
		gm_emit_open(&emit, stdout, check->options);
		found = logs_check(&emit, check, &logs);
		status |= gm_emit_close(&emit);
	}
	status |= gm_logs_close(&logs);

	return found ? found : status;
}

int gm_check_main(const struct gm_command *self, int argc, char **argv)
{
	struct gm_options options;
	struct check check = {.options = &options};
	int status = GM_EXIT_OK;
	gm_options_begin(&options);
	for (int bit;
	     !status && (bit = gm_options_next(&options, self, argc, argv)) != GM_OPTIONS_DONE;) {
		if (bit == GM_OPTIONS_STOP) {
			gm_array_free(&check.limits);
			return options.status;
		}
		if (bit == GM_OPTION_INDEX_MAX)
			status = limit_add(&check, self, optarg);
		else if (bit == GM_OPTION_INDEX_LEAKS)
			check.no_leaks = true;
	}
	if (!status)
		status = check_run(&check, argv + optind, (size_t)(argc - optind));
	gm_array_free(&check.limits);
	return status;
}
