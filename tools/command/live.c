/* SPDX-License-Identifier: BSD-3-Clause */
/* gpumemstat live: the blocks alive at a moment, by stack, size or context. gpumemstat leaks: the
 * blocks that were never freed. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tools/finding/findings.h"
#include "tools/log/groups.h"
#include "tools/log/heaps.h"
#include "tools/log/kernel_sites.h"
#include "tools/log/lacked.h"
#include "tools/log/lending.h"
#include "tools/log/logs.h"
#include "tools/log/owners.h"
#include "tools/stack/child.h"
#include "tools/stack/frames.h"

enum { ROWS_DEFAULT = 10 };

struct view {
	struct gm_figures *figures;
	struct gm_log_file *file;
	const struct gm_log_about *about;
	struct gm_alive alive;
	struct gm_alive_moment moments[GM_COUNTER_DEVICES];
	struct gm_groups groups;
	struct gm_heaps heaps;
	struct gm_symbols symbols;
	enum gm_level level;
	uint64_t under[GM_COUNTER_DEVICES], n_under[GM_COUNTER_DEVICES]; /* blocks under tensors */
	struct gm_owners owners[GM_COUNTER_DEVICES];
	bool leaks;
};

static size_t rows_of(const struct gm_options *options, size_t n)
{
	size_t most = options->rows == UINT_MAX ? ROWS_DEFAULT : options->rows;
	return options->json || n < most ? n : most;
}

/* Only the stacks shown need symbols. */
static void symbols_find(struct view *view, const struct gm_options *options)
{
	for (unsigned d = 0; options->group == GM_GROUP_STACK && d < GM_COUNTER_DEVICES; d++) {
		struct gm_groups_part part = gm_groups_part(&view->groups, d);
		for (size_t i = 0; i < rows_of(options, part.n); i++)
			gm_frames_want(&view->symbols, (uint32_t)part.at[i].key);
	}
	if (options->at.kind == GM_MOMENT_OOM)
		for (size_t i = 0; i < view->figures->giveups.n; i++)
			gm_frames_want(&view->symbols, view->figures->giveups.at[i].stack);
	gm_symbols_resolve(&view->symbols);
}

/* --- one device --- */

static const char *blocks_text(enum gm_level level, uint64_t n, char *buf, size_t size)
{
	char count[32];
	snprintf(buf, size, "%s %s%s", gm_tool_count(n, count, sizeof count), gm_level_name(level),
		 n == 1 ? "" : "s");
	return buf;
}

static void stacks_text(struct gm_emit *emit, const struct view *view,
			const struct gm_groups_part *part)
{
	size_t rows = rows_of(emit->options, part->n);
	uint64_t hidden = 0;
	char label[32], blocks[48], largest[32];
	for (size_t i = 0; i < rows; i++) {
		const struct gm_groups_one *group = &part->at[i];
		gm_value_format(GM_BYTES(group->bytes), emit->options->unit, label, sizeof label);
		gm_value_format(GM_BYTES(group->largest), emit->options->unit, largest,
				sizeof largest);
		gm_emit_break(emit);
		gm_emit_line(emit, label, "%s%s%s",
			     blocks_text(view->level, group->blocks, blocks, sizeof blocks),
			     group->blocks > 1 && group->largest ? ", the largest of " : "",
			     group->blocks > 1 && group->largest ? largest : "");
		gm_frames_show(emit, &view->symbols, (uint32_t)group->key);
	}
	for (size_t i = rows; i < part->n; i++)
		hidden += part->at[i].bytes;
	if (rows < part->n) {
		gm_value_format(GM_BYTES(hidden), emit->options->unit, label, sizeof label);
		gm_emit_break(emit);
		gm_emit_line(emit, label, "of %zu more stacks: -n", part->n - rows);
	}
}

static void group_table(struct gm_emit *emit, const struct gm_groups_part *part)
{
	const bool size = emit->options->group == GM_GROUP_SIZE;
	const struct gm_column columns[] = {
		{size ? "size" : "context", size ? "size" : "context", GM_COLUMN_LEFT},
		{"blocks", "blocks", 0},
		{"bytes", "bytes", 0},
	};
	if (!part->n && !emit->options->json)
		return;
	gm_emit_break(emit);
	gm_emit_table(emit, "groups", false, columns, 3);
	for (size_t i = 0; i < part->n; i++)
		gm_emit_row(emit, NULL,
			    (struct gm_value[]){
				    size ? GM_BYTES(part->at[i].key) : GM_COUNT(part->at[i].key),
				    GM_COUNT(part->at[i].blocks), GM_BYTES(part->at[i].bytes)});
	gm_emit_table_end(emit);
}

static void stacks_json(struct gm_emit *emit, const struct view *view,
			const struct gm_groups_part *part)
{
	gm_emit_list(emit, "groups");
	for (size_t i = 0; i < part->n; i++) {
		gm_emit_object(emit, NULL);
		gm_emit_value(emit, "bytes", GM_BYTES(part->at[i].bytes));
		gm_emit_value(emit, "blocks", GM_COUNT(part->at[i].blocks));
		gm_emit_value(emit, "largest", GM_BYTES(part->at[i].largest));
		gm_frames_show(emit, &view->symbols, (uint32_t)part->at[i].key);
		gm_emit_end(emit);
	}
	gm_emit_end(emit);
}

/* "at the peak, 3.85 ms" */
static const char *moment_text(const struct view *view, const struct gm_options *options,
			       const struct gm_alive_moment *moment, char *buf, size_t n)
{
	char time[32], from[32];
	const uint64_t start = view->about->start;
	gm_time_format(moment->at.time > start ? moment->at.time - start : 0, time, sizeof time);
	if (view->leaks)
		snprintf(buf, n, "never freed");
	else if (options->at.range)
		snprintf(buf, n, "allocated from %s on and alive at %s",
			 gm_time_format(options->at.from, from, sizeof from), time);
	else if (options->at.kind == GM_MOMENT_PEAK)
		snprintf(buf, n, "at the peak, %s", time);
	else if (options->at.kind == GM_MOMENT_OOM)
		snprintf(buf, n, "when memory lacked, %s", time);
	else if (options->at.kind == GM_MOMENT_TIME)
		snprintf(buf, n, "at %s", time);
	else
		snprintf(buf, n, "%s", view->about->running ? "now" : "at end");
	return buf;
}

static uint64_t gone_count(const struct view *view, unsigned device)
{
	uint64_t n = 0;
	for (size_t i = 0; i < view->alive.blocks.n; i++)
		n += view->alive.blocks.at[i].device == device && view->alive.blocks.at[i].gone;
	return n;
}

/* Not of a range: its tensors may lie in older blocks. */
static bool under_is_shown(const struct view *view, const struct gm_options *options)
{
	return view->level == GM_LEVEL_TENSORS && !options->at.range;
}

/* Tensors lie in segments of PyTorch's cache, which are blocks. */
static void under_text(struct gm_emit *emit, const struct view *view, unsigned d,
		       const struct gm_groups_part *part)
{
	char all[32], rest[32], blocks[48];
	const uint64_t under = view->under[d];
	if (!under_is_shown(view, emit->options) || under < part->bytes)
		return;
	gm_value_format(GM_BYTES(under), emit->options->unit, all, sizeof all);
	gm_value_format(GM_BYTES(under - part->bytes), emit->options->unit, rest, sizeof rest);
	gm_emit_line(emit, "", "of %s in %s, %s of it without a tensor: --blocks", all,
		     blocks_text(GM_LEVEL_BLOCKS, view->n_under[d], blocks, sizeof blocks), rest);
}

static void device_text(struct gm_emit *emit, const struct view *view, unsigned d,
			const struct gm_groups_part *part)
{
	char label[32], bytes[32], blocks[48], when[96], gone[128] = "";
	snprintf(label, sizeof label, "device %u", d);
	gm_value_format(GM_BYTES(part->bytes), emit->options->unit, bytes, sizeof bytes);
	gm_emit_break(emit);
	if (view->leaks && gone_count(view, d))
		snprintf(gone, sizeof gone, "; %s of these went with the context",
			 gm_tool_count(gone_count(view, d), when, sizeof when));
	gm_emit_line(emit, label, "%s: %s in %s%s",
		     moment_text(view, emit->options, &view->moments[d], when, sizeof when), bytes,
		     blocks_text(view->level, part->blocks, blocks, sizeof blocks), gone);
	under_text(emit, view, d, part);
}

/* The first one of the device; NULL: none. */
static const struct gm_figures_refusal *refusal_first(const struct view *view, unsigned d)
{
	for (size_t i = 0; i < view->figures->refusals.n; i++)
		if (view->figures->refusals.at[i].device == d)
			return &view->figures->refusals.at[i];
	return NULL;
}

/* At out of memory: the call, and who had the memory. Tensors have a table of owners. */
static void refusal_show(struct gm_emit *emit, const struct view *view, unsigned d)
{
	const struct gm_figures_refusal *refusal = refusal_first(view, d);
	char text[GM_LACKED_TEXT];
	if (emit->options->at.kind != GM_MOMENT_OOM || view->level == GM_LEVEL_TENSORS || !refusal)
		return;
	gm_emit_object(emit, "refusal");
	gm_lacked_show(emit, refusal);
	gm_emit_end(emit);
	gm_emit_line(emit, "", "%s", gm_lacked_text(refusal, text, sizeof text));
}

/* At out of memory: what was asked for, and the remedy. */
static void giveup_show(struct gm_emit *emit, const struct view *view, unsigned d)
{
	const struct gm_figures_giveup *giveup = gm_figures_giveup(view->figures, (int)d);
	struct gm_finding finding;
	char asked[32], place[256], text[512];
	if (emit->options->at.kind != GM_MOMENT_OOM || view->level != GM_LEVEL_TENSORS || !giveup)
		return;
	gm_emit_object(emit, "refused");
	gm_emit_value(emit, "asked", GM_BYTES(giveup->asked));
	gm_emit_value(emit, "segments", GM_BYTES(giveup->segments));
	gm_emit_value(emit, "tensors", GM_BYTES(giveup->tensors));
	gm_emit_value(emit, "stack", giveup->stack ? GM_COUNT(giveup->stack) : GM_NONE);
	gm_emit_end(emit);
	gm_value_format(GM_BYTES(giveup->asked), emit->options->unit, asked, sizeof asked);
	gm_frames_place(&view->symbols, giveup->stack, place, sizeof place);
	gm_emit_line(emit, "", "%s was asked for by %s", asked,
		     *place ? place : "a call without a stack");
	if (gm_findings_of_giveup(view->figures, &finding) && finding.device == d)
		gm_emit_line(emit, "", "%s", gm_finding_text(&finding, text, sizeof text));
}

static void rest_show(struct gm_emit *emit, enum gm_level level, const struct gm_groups_one *rest)
{
	char label[32], blocks[48];
	if (!rest->blocks)
		return;
	gm_emit_object(emit, "rest");
	gm_emit_value(emit, "bytes", GM_BYTES(rest->bytes));
	gm_emit_value(emit, "blocks", GM_COUNT(rest->blocks));
	gm_emit_end(emit);
	gm_value_format(GM_BYTES(rest->bytes), emit->options->unit, label, sizeof label);
	gm_emit_break(emit);
	gm_emit_line(emit, label, "%s more",
		     blocks_text(level, rest->blocks, blocks, sizeof blocks));
}

/* Memory of device heaps, by kernel. */
static void heaps_show(struct gm_emit *emit, const struct view *view, unsigned d)
{
	char label[32], chunks[32];
	gm_emit_list(emit, "heaps");
	for (size_t i = 0; i < view->heaps.kernels.n; i++) {
		const struct gm_heaps_kernel *kernel = &view->heaps.kernels.at[i];
		const char *name = kernel->name;
		char *text = NULL;
		if (kernel->device != d)
			continue;
		gm_emit_object(emit, NULL);
		gm_emit_value(emit, "bytes", GM_BYTES(kernel->bytes));
		gm_emit_value(emit, "chunks", GM_COUNT(kernel->chunks));
		gm_emit_value(emit, "kernel", *name ? GM_TEXT(name) : GM_NONE);
		gm_emit_end(emit);
		if (emit->options->json)
			continue;
		gm_child_demangle(&name, 1, &text);
		gm_value_format(GM_BYTES(kernel->bytes), emit->options->unit, label, sizeof label);
		gm_emit_break(emit);
		gm_emit_line(emit, label, "%s chunk%s of device heaps, which grew for %s",
			     gm_tool_count(kernel->chunks, chunks, sizeof chunks),
			     kernel->chunks == 1 ? "" : "s", *name ? name : "kernels not known");
		free(text);
	}
	gm_emit_end(emit);
}

static void device_show(struct gm_emit *emit, const struct view *view, unsigned d)
{
	const struct gm_alive_moment *moment = &view->moments[d];
	const struct gm_groups_part part = gm_groups_part(&view->groups, d);
	gm_emit_object(emit, NULL);
	gm_emit_value(emit, "ordinal", GM_COUNT(d));
	gm_emit_value(emit, "name", GM_TEXT(view->about->devices[d].name));
	gm_emit_value(emit, "ns", GM_NS(gm_figures_at(view->figures, moment->at.time)));
	gm_emit_value(emit, "bytes", GM_BYTES(part.bytes));
	gm_emit_value(emit, "blocks", GM_COUNT(part.blocks));
	gm_emit_value(emit, "level", GM_TEXT(gm_level_name(view->level)));
	if (under_is_shown(view, emit->options)) {
		gm_emit_value(emit, "under_bytes", GM_BYTES(view->under[d]));
		gm_emit_value(emit, "under_blocks", GM_COUNT(view->n_under[d]));
	}
	if (view->leaks)
		gm_emit_value(emit, "gone_with_context", GM_COUNT(gone_count(view, d)));
	device_text(emit, view, d, &part);
	refusal_show(emit, view, d);
	giveup_show(emit, view, d);
	if (!view->leaks && !emit->options->at.range)
		gm_lending_show(emit, view->figures, d);
	if (under_is_shown(view, emit->options) && !view->leaks)
		gm_owners_show(emit, &view->owners[d], view->figures);
	if (emit->options->group != GM_GROUP_STACK)
		group_table(emit, &part);
	else if (emit->options->json)
		stacks_json(emit, view, &part);
	else
		stacks_text(emit, view, &part);
	rest_show(emit, view->level, &view->groups.rest[d]);
	if (!view->leaks && !emit->options->at.range)
		heaps_show(emit, view, d);
	if (view->leaks || emit->options->at.kind == GM_MOMENT_EXIT)
		gm_kernel_sites_show(emit, view->figures, d, rows_of(emit->options, SIZE_MAX));
	gm_emit_end(emit);
}

/* --- one log --- */

/* True if the program or its kernels allocated on the device. */
static bool device_has(const struct view *view, unsigned d, enum gm_moment_kind at)
{
	if (at == GM_MOMENT_OOM && refusal_first(view, d))
		return true;
	if (!view->moments[d].known)
		return false;
	for (size_t i = 0; i < view->heaps.kernels.n; i++)
		if (view->heaps.kernels.at[i].device == d)
			return true;
	return gm_groups_part(&view->groups, d).n || gm_kernel_sites_any(view->figures, d) ||
	       gm_log_read_counter(view->file, d, GM_C_allocate_calls) ||
	       gm_log_read_counter(view->file, d, GM_C_refused_calls);
}

/* The reason for an empty output; NULL: the output has blocks. */
static const char *view_missing(const struct view *view, const struct gm_options *options)
{
	const char *missing = gm_alive_missing(view->about);
	bool any = false;
	if (!missing)
		missing = gm_alive_unknown(view->file, &options->at);
	for (unsigned d = 0; d < view->about->n_devices && d < GM_COUNTER_DEVICES; d++)
		any = any || device_has(view, d, options->at.kind);
	if (missing || any)
		return missing;
	return options->at.kind == GM_MOMENT_OOM ? "at no time: no call lacked memory of a device"
	       : view->leaks			 ? "nothing: no call of the program allocated"
						 : "nothing at any time";
}

static void devices_show(struct gm_emit *emit, const struct view *view)
{
	gm_emit_list(emit, "devices");
	for (unsigned d = 0; d < view->about->n_devices && d < GM_COUNTER_DEVICES; d++)
		if (device_has(view, d, emit->options->at.kind))
			device_show(emit, view, d);
	gm_emit_end(emit);
	gm_frames_show_objects(emit, &view->symbols);
	if (!view->about->since_known)
		gm_emit_line(emit, "", "older blocks are not known: the log lacks their events");
}

/* Add up the blocks alive at the moments. */
static void under_find(struct view *view)
{
	struct gm_alive blocks;
	gm_alive_find(view->file, view->moments, view->leaks, GM_LEVEL_BLOCKS, &blocks);
	for (size_t i = 0; i < blocks.blocks.n; i++) {
		view->under[blocks.blocks.at[i].device] += blocks.blocks.at[i].size;
		view->n_under[blocks.blocks.at[i].device]++;
	}
	gm_alive_free(&blocks);
}

/* A device without blocks has the moment of its refusal. */
static void refusals_time(struct view *view)
{
	for (unsigned d = 0; d < GM_COUNTER_DEVICES; d++) {
		const struct gm_figures_refusal *refusal = refusal_first(view, d);
		if (!view->moments[d].known && refusal)
			view->moments[d].at.time = refusal->time;
	}
}

/* Find the blocks and group them. Returns the reason for an empty output; NULL: there are blocks.
 */
static const char *view_fill(struct view *view, struct gm_options *options)
{
	const char *missing = gm_alive_missing(view->about);
	if (missing)
		return options->at.kind == GM_MOMENT_OOM && options->group != GM_GROUP_CONTEXT &&
				       gm_groups_of_refusal(&view->groups, view->file,
							    view->moments, &options->group)
			       ? NULL
			       : missing;
	if (!options->blocks && options->group != GM_GROUP_CONTEXT)
		options->at.level = view->level = gm_level_of(view->file);
	gm_alive_moments(view->file, &options->at, view->moments);
	if (options->at.kind == GM_MOMENT_OOM)
		refusals_time(view);
	if (options->at.kind == GM_MOMENT_PEAK && !view->leaks)
		gm_heaps_peak(view->file, view->moments);
	if (under_is_shown(view, options))
		under_find(view);
	if (under_is_shown(view, options) && !view->leaks)
		gm_owners_find(view->owners, view->figures, view->moments);
	gm_alive_find(view->file, view->moments, view->leaks, view->level, &view->alive);
	gm_groups_make(&view->groups, &view->alive, options->group);
	if (!view->leaks && !options->at.range)
		gm_heaps_find(&view->heaps, view->file, view->moments);
	return view_missing(view, options);
}

static void log_show(struct gm_emit *emit, struct view *view)
{
	static const char *const ats[] = {"peak", "oom", "exit", "time"};
	const struct gm_options *given = emit->options;
	struct gm_options own = *given, *options = &own;
	const struct gm_log_about *about = view->about;
	const char *missing = view_fill(view, options);
	emit->options = options;
	symbols_find(view, options);
	gm_emit_object(emit, NULL);
	gm_logs_head(emit, view->figures);
	gm_emit_value(emit, "at", GM_TEXT(options->at.range ? "range" : ats[options->at.kind]));
	if (options->at.range)
		gm_emit_value(emit, "from_ns", GM_NS(options->at.from));
	gm_emit_value(emit, "missing", missing ? GM_TEXT(missing) : GM_NONE);
	gm_emit_value(emit, "older_known", GM_BOOL(about->since_known));
	if (missing)
		gm_emit_line(emit, view->leaks ? "leaks" : "live", "%s", missing);
	devices_show(emit, view);
	gm_emit_end(emit);
	emit->options = given;
}

static void view_free(struct view *view)
{
	gm_alive_free(&view->alive);
	gm_symbols_free(&view->symbols);
	gm_groups_free(&view->groups);
	gm_heaps_free(&view->heaps);
}

static void logs_show(struct gm_emit *emit, struct gm_logs_one *logs, size_t n, bool leaks)
{
	gm_emit_list(emit, "logs");
	for (size_t i = 0; i < n; i++) {
		struct view view = {.figures = &logs[i].figures,
				    .file = logs[i].figures.file,
				    .about = logs[i].figures.about,
				    .symbols = {.file = logs[i].figures.file},
				    .leaks = leaks};
		if (i > 0)
			gm_emit_break(emit);
		log_show(emit, &view);
		view_free(&view);
	}
	gm_emit_end(emit);
}

static void live_show(struct gm_emit *emit, struct gm_logs_one *logs, size_t n)
{
	logs_show(emit, logs, n, false);
}

static void leaks_show(struct gm_emit *emit, struct gm_logs_one *logs, size_t n)
{
	logs_show(emit, logs, n, true);
}

static int command_run(const struct gm_command *self, int argc, char **argv,
		       void (*show)(struct gm_emit *emit, struct gm_logs_one *logs, size_t n))
{
	struct gm_options options;
	int first = gm_options_parse(&options, self, argc, argv);
	if (first == GM_OPTIONS_STOP)
		return options.status;
	if (!options.at_given)
		options.at.kind = GM_MOMENT_EXIT;
	return gm_logs_run(&options, argv + first, (size_t)(argc - first), show);
}

int gm_live_main(const struct gm_command *self, int argc, char **argv)
{
	return command_run(self, argc, argv, live_show);
}

int gm_leaks_main(const struct gm_command *self, int argc, char **argv)
{
	return command_run(self, argc, argv, leaks_show);
}
