/* SPDX-License-Identifier: BSD-3-Clause */
/* gpumemstat check: compare the counters of logs with limits, for tests and CI. */
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/distance.h"
#include "base/size.h"
#include "tools/launch/launch.h"
#include "tools/log/logs.h"
#include "tools/output/emit.h"

/* A counter, or a word of the screen: counter + plus - minus. */
struct limit {
	enum gm_counter counter, plus, minus; /* GM_COUNTER_COUNT: none */
	const char *word;		      /* NULL: the counter's name */
	uint64_t most;
};

struct check {
	const struct gm_options *options;
	GM_ARRAY(struct limit) limits;
	bool no_leaks, partial;
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

#define NONE GM_COUNTER_COUNT

/* Words of the summary's first screen. */
static const struct limit screen_words[] = {
	{GM_C_allocate_calls, NONE, NONE, "allocations", 0},
	{GM_C_free_calls, GM_C_free_driver, NONE, "frees", 0},
	{GM_C_live_blocks, GM_C_foreign_driver_calls, GM_C_foreign_driver_frees, "alive", 0},
	{GM_C_allocate_failed, GM_C_refused_calls, NONE, "failed", 0},
	{GM_C_retry_calls, NONE, NONE, "retries", 0},
	{GM_C_sleeps, NONE, NONE, "slept", 0},
	{GM_C_wakes, NONE, NONE, "woke", 0},
};

/* A limit without its value; counter NONE: there is no such counter. */
static struct limit limit_named(const char *name)
{
	for (unsigned i = 0; i < GM_COUNTER_COUNT; i++)
		if (strcmp(name, gm_counter_table[i].name) == 0)
			return (struct limit){(enum gm_counter)i, NONE, NONE, NULL, 0};
	for (unsigned i = 0; i < sizeof screen_words / sizeof *screen_words; i++)
		if (strcmp(name, screen_words[i].word) == 0)
			return screen_words[i];
	return (struct limit){NONE, NONE, NONE, NULL, 0};
}

static uint64_t limit_value(const struct gm_figures *f, unsigned d, const struct limit *limit)
{
	const enum gm_counter plus = limit->plus, minus = limit->minus;
	return gm_figures_device(f, d, limit->counter) +
	       (plus == NONE ? 0 : gm_figures_device(f, d, plus)) -
	       (minus == NONE ? 0 : gm_figures_device(f, d, minus));
}

/* In mode trace the pool has no memory: a limit of it would never be exceeded. */
static bool limit_is_of_pool(const struct limit *limit)
{
	static const enum gm_counter pool[] = {
		GM_C_requested,	     GM_C_requested_peak, GM_C_handed_out,
		GM_C_mapped,	     GM_C_mapped_peak,	  GM_C_idle,
		GM_C_retired,	     GM_C_retired_peak,	  GM_C_live_blocks,
		GM_C_free_calls,     GM_C_free_bytes,	  GM_C_allocate_pool,
		GM_C_allocate_bytes, GM_C_map_bytes,	  GM_C_unreclaimable_peak,
		GM_C_internal_peak};
	for (unsigned i = 0; i < sizeof pool / sizeof *pool; i++)
		if (limit->counter == pool[i])
			return limit->plus == NONE; /* else it includes the driver's */
	return false;
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
	struct limit limit;
	if (!equals || equals == given)
		return gm_tool_usage(self->name, "--max=%s: expected COUNTER=VALUE", given);
	if ((size_t)(equals - given) < sizeof name)
		snprintf(name, sizeof name, "%.*s", (int)(equals - given), given);
	limit = limit_named(name);
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

/* Texts of value and limit. If rounding makes them equal, both are exact: bytes, all digits of a
 * ratio, or plain numbers. */
static void excess_texts(const struct excess *e, char unit, char value[64], char limit[64])
{
	gm_value_format(e->value, unit, value, 64);
	gm_value_format(e->limit, unit, limit, 64);
	if (strcmp(value, limit) != 0)
		return;
	if (e->value.kind == GM_VALUE_BYTES) {
		gm_value_format(e->value, 'B', value, 64);
		gm_value_format(e->limit, 'B', limit, 64);
	} else if (e->value.kind == GM_VALUE_PPM) {
		snprintf(value, 64, "%.6f", (double)e->value.n / 1e6);
		snprintf(limit, 64, "%.6f", (double)e->limit.n / 1e6);
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
		const uint64_t value = limit_value(f, d, limit);
		if (value <= limit->most)
			continue;
		excess_show(emit,
			    &(struct excess){.figures = f,
					     .device = process ? -1 : (int)d,
					     .counter = limit->word ? limit->word : info->name,
					     .option = "",
					     .value = {kind, value, NULL},
					     .limit = {kind, limit->most, NULL}});
		n++;
	}
	return n;
}

/* Blocks alive at the end, of the pool and of the driver. */
static unsigned leaks_check(struct gm_emit *emit, const struct gm_figures *f)
{
	static const struct limit alive[] = {
		{GM_C_live_blocks, NONE, NONE, "live_blocks", 0},
		{GM_C_foreign_driver_calls, NONE, GM_C_foreign_driver_frees,
		 "foreign_driver_calls - foreign_driver_frees", 0},
	};
	unsigned n = 0;
	for (unsigned i = 0; i < 2 * f->n_devices; i++) {
		const struct limit *limit = &alive[i % 2];
		const uint64_t live = limit_value(f, i / 2, limit);
		if (!live)
			continue;
		excess_show(emit, &(struct excess){.figures = f,
						   .device = (int)i / 2,
						   .counter = limit->word,
						   .option = " (--no-leaks)",
						   .value = GM_COUNT(live),
						   .limit = GM_COUNT(0)});
		n++;
	}
	return n;
}

/* False, after one message: a limit says nothing of this log. */
static bool limits_apply(const struct check *check, const struct gm_figures *f)
{
	for (size_t i = 0; i < check->limits.n && gm_figures_is_trace(f); i++)
		if (limit_is_of_pool(&check->limits.at[i])) {
			gm_tool_error("%s: %s is the pool's, and this run was only watched; "
				      "foreign_peak has the driver's memory",
				      f->about->path,
				      gm_counter_table[check->limits.at[i].counter].name);
			return false;
		}
	return true;
}

/* A log of a run that did not end by itself has no final figures. False, after one message: it is
 * not to be checked. */
static bool end_check(const struct check *check, const struct gm_figures *f)
{
	if (f->about->closed)
		return true;
	if (!check->partial)
		gm_tool_error("%s: %s: --partial checks it up to there", f->about->path,
			      gm_figures_end(f));
	else if (check->no_leaks)
		gm_tool_error("%s: %s: what it leaks is not known", f->about->path,
			      gm_figures_end(f));
	return check->partial && !check->no_leaks;
}

/* Check the logs. Returns the exit status. */
static int logs_check(struct gm_emit *emit, const struct check *check, const struct gm_logs *logs)
{
	const size_t n_limits = check->limits.n + check->no_leaks;
	unsigned exceeded = 0;
	int status = GM_EXIT_OK;
	gm_emit_list(emit, "exceeded");
	for (size_t i = 0; i < logs->n; i++) {
		const struct gm_figures *f = &logs->at[i].figures;
		for (size_t j = 0; j < check->limits.n; j++)
			exceeded += limit_check(emit, f, &check->limits.at[j]);
		if (!limits_apply(check, f) || !end_check(check, f))
			status = GM_EXIT_FAILED;
		else if (check->no_leaks)
			exceeded += leaks_check(emit, f);
	}
	gm_emit_end(emit);
	gm_emit_value(emit, "logs", GM_COUNT(logs->n));
	gm_emit_value(emit, "limits", GM_COUNT(n_limits));
	if (!exceeded && !status)
		gm_emit_plain(emit, "%zu log%s, %zu limit%s: none is exceeded", logs->n,
			      logs->n == 1 ? "" : "s", n_limits, n_limits == 1 ? "" : "s");
	return exceeded ? GM_EXIT_EXCEEDED : status;
}

/* A named log must be the newest of its name: a later run that found the name taken wrote
 * elsewhere. */
static int names_check(char *const *names, size_t n)
{
	struct gm_find named = {0};
	char newer[PATH_MAX];
	int status = GM_EXIT_OK;
	for (size_t i = 0; i < n; i++)
		gm_find_add(&named, names[i]);
	for (size_t i = 0; i < n; i++) {
		if (!gm_find_newer(names[i], &named, newer, sizeof newer))
			continue;
		gm_tool_error("%s: %s is newer: name it, or remove both and record again", names[i],
			      newer);
		status = GM_EXIT_FAILED;
	}
	gm_find_free(&named);
	return status;
}

static int check_run(const struct check *check, char *const *names, size_t n)
{
	struct gm_logs logs;
	struct gm_emit emit;
	int status = names_check(names, n), found = GM_EXIT_OK;
	if (status)
		return status;
	status = gm_logs_open(&logs, check->options, names, n);
	if (logs.n > 0) {
		gm_emit_open(&emit, stdout, check->options);
		found = logs_check(&emit, check, &logs);
		status |= gm_emit_close(&emit);
	}
	status |= gm_logs_close(&logs);

	return found ? found : status;
}

/* Record the command and check its logs. Its own failure comes first. */
static int command_check(const struct check *check, struct gm_launch *launch, char **command)
{
	struct gm_find logs = {0};
	bool ran;
	int status = gm_launch_run(launch, command, &logs, &ran);
	if (!ran)
		return status;
	int found = logs.paths.n ? check_run(check, logs.paths.at, logs.paths.n) : GM_EXIT_FAILED;
	gm_find_free(&logs);
	return status ? status : found;
}

static bool option_take(struct check *check, struct gm_launch *launch, int index)
{
	struct gm_options *options = launch->options;
	if (index == GM_OPTION_INDEX_MAX)
		options->status = limit_add(check, launch->self, optarg);
	else if (index == GM_OPTION_INDEX_LEAKS)
		check->no_leaks = true;
	else if (index == GM_OPTION_INDEX_PARTIAL)
		check->partial = true;
	else
		return gm_launch_option(launch, index);
	return !options->status;
}

static int operands_check(const struct check *check, struct gm_launch *launch, int argc,
			  char **argv)
{
	if (!check->limits.n && !check->no_leaks)
		return gm_tool_usage("check", "check: expected a limit: --max=COUNTER=VALUE or "
					      "--no-leaks");
	if (strcmp(argv[optind - 1], "--") == 0)
		return command_check(check, launch, argv + optind);
	const char *unused = check->options->stacks ? "--stacks" : launch->named;
	if (unused)
		return gm_tool_usage("check", "%s: only before -- COMMAND", unused);
	return check_run(check, argv + optind, (size_t)(argc - optind));
}

int gm_check_main(const struct gm_command *self, int argc, char **argv)
{
	struct gm_options options;
	struct gm_launch launch;
	struct check check = {.options = &options};
	int index, status;
	gm_launch_begin(&launch, self, &options, true);
	while ((index = gm_options_next(&options, self, argc, argv)) != GM_OPTIONS_DONE)
		if (index == GM_OPTIONS_STOP || !option_take(&check, &launch, index))
			break;
	status = index == GM_OPTIONS_DONE ? operands_check(&check, &launch, argc, argv)
					  : options.status;
	gm_array_free(&check.limits);
	return status;
}
