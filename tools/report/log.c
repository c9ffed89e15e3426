/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/finding/findings.h"
#include "tools/log/kernel_sites.h"
#include "tools/log/timeline.h"
#include "tools/report/report.h"
#include "tools/summary/summary.h"

enum { REFUSALS_MOST = 1000 };

/* --- the run --- */

static void head_show(struct gm_emit *emit, const struct gm_logs_one *log)
{
	const struct gm_figures *f = &log->figures;
	const struct gm_log_about *about = f->about;
	const char *missing = gm_alive_missing(about);
	const struct {
		const char *key;
		struct gm_value value;
	} members[] = {
		{"path", GM_TEXT(about->path)},
		{"program", GM_TEXT(about->program)},
		{"command", GM_TEXT(about->command)},
		{"host", GM_TEXT(about->host)},
		{"pid", GM_INT(about->pid)},
		{"rank", about->rank < 0 ? GM_NONE : GM_INT(about->rank)},
		{"job", GM_TEXT(about->job)},
		{"mode", GM_TEXT(about->mode)},
		{"level", GM_TEXT(about->level)},
		{"start_ms", GM_COUNT(about->start_wall / 1000000)},
		{"length_ns", GM_NS(gm_figures_length(f))},
		{"end", GM_TEXT(gm_figures_end(f))},
		{"running", GM_BOOL(about->running)},
		{"records", GM_COUNT(about->records)},
		{"dropped", GM_COUNT(about->dropped)},
		{"complete", GM_BOOL(about->complete)},
		{"older_known", GM_BOOL(about->since_known)},
		{"since_ns", GM_NS(about->since - about->start)},
		{"missing", missing ? GM_TEXT(missing) : GM_NONE},
		{"contradiction", log->contradicts ? GM_TEXT(log->why) : GM_NONE},
		{"requested_peak", GM_BYTES(gm_figures_requested_peak(f))},
	};
	for (size_t i = 0; i < sizeof members / sizeof *members; i++)
		gm_emit_value(emit, members[i].key, members[i].value);
	gm_emit_list(emit, "knobs");
	for (unsigned i = 0; i < about->n_knobs; i++)
		gm_emit_value(emit, NULL, GM_TEXT(about->knobs[i]));
	gm_emit_end(emit);
}

static void calls_show(struct gm_emit *emit, const struct gm_figures *f)
{
	static const struct gm_column columns[] = {
		{"name", NULL, 0},  {"calls", NULL, 0},	 {"failed", NULL, 0}, {"driver", NULL, 0},
		{"total", NULL, 0}, {"median", NULL, 0}, {"p99", NULL, 0},    {"longest", NULL, 0},
	};
	gm_emit_table(emit, "calls", false, columns, sizeof columns / sizeof *columns);
	for (unsigned i = 0; i < f->about->n_hooks; i++) {
		const struct gm_figures_hook *hook = &f->hooks[i];
		if (hook->calls)
			gm_emit_row(emit, NULL,
				    (struct gm_value[]){GM_TEXT(f->about->hooks[i]),
							GM_COUNT(hook->calls),
							GM_COUNT(hook->errors),
							GM_COUNT(hook->driver), GM_NS(hook->total),
							GM_NS(gm_figures_quantile(hook, 500000)),
							GM_NS(gm_figures_quantile(hook, 990000)),
							GM_NS(gm_figures_quantile(hook, 1000000))});
	}
	gm_emit_table_end(emit);
}

/* --- counters --- */

static void values_show(struct gm_emit *emit, const struct gm_figures *f,
			enum gm_counter_scope scope, unsigned device)
{
	gm_emit_object(emit, "counters");
	for (unsigned i = 0; i < GM_COUNTER_COUNT; i++) {
		const bool wanted = gm_counter_table[i].scope == scope;
		const uint64_t value = wanted ? gm_figures_device(f, device, i) : 0;
		if (value)
			gm_emit_value(emit, gm_counter_table[i].name, GM_COUNT(value));
	}
	gm_emit_end(emit);
}

void gm_report_counters_show(struct gm_emit *emit)
{
	static const char *const units[] = {
		[GM_UNIT_COUNT] = "count",
		[GM_UNIT_BYTES] = "bytes",
		[GM_UNIT_NS] = "ns",
		[GM_UNIT_PPM] = "ppm",
		[GM_UNIT_BYTES_SECONDS] = "byte seconds",
		[GM_UNIT_PPM_SECONDS] = "ppm seconds",
	};
	static const struct gm_column columns[] = {
		{"name", NULL, 0}, {"scope", NULL, 0}, {"unit", NULL, 0}, {"help", NULL, 0}};
	gm_emit_table(emit, "counters", false, columns, sizeof columns / sizeof *columns);
	for (unsigned i = 0; i < GM_COUNTER_COUNT; i++) {
		const struct gm_counter_info *info = &gm_counter_table[i];
		gm_emit_row(emit, NULL,
			    (struct gm_value[]){
				    GM_TEXT(info->name),
				    GM_TEXT(info->scope == GM_SCOPE_DEVICE ? "device" : "process"),
				    GM_TEXT(units[info->unit]), GM_TEXT(info->help)});
	}
	gm_emit_table_end(emit);
}

/* --- a device --- */

static void timeline_show(struct gm_emit *emit, const struct gm_timeline *timeline)
{
	static const char *const names[] = {
#define GM_SERIES(bit, name) #name,
		GM_TIMELINE_SERIES(GM_SERIES)
#undef GM_SERIES
	};
	char *points = gm_timeline_pack(timeline);
	gm_emit_object(emit, "timeline");
	gm_emit_list(emit, "series");
	for (unsigned s = 0; s < GM_TIMELINE_COUNT; s++)
		gm_emit_value(emit, NULL, GM_TEXT(names[s]));
	gm_emit_end(emit);
	gm_emit_value(emit, "events", GM_COUNT(timeline->events));
	gm_emit_value(emit, "events_each", GM_COUNT(timeline->each));
	gm_emit_value(emit, "points", GM_COUNT(timeline->points.n));
	gm_emit_value(emit, "packed", GM_TEXT(points));
	gm_emit_end(emit);
	free(points);
}

static void refusals_show(struct gm_emit *emit, const struct gm_figures *f, unsigned device)
{
	unsigned shown = 0;
	gm_emit_list(emit, "refusals");
	for (size_t i = 0; i < f->refusals.n && shown < REFUSALS_MOST; i++) {
		const struct gm_figures_refusal *refusal = &f->refusals.at[i];
		if (refusal->device != device)
			continue;
		gm_emit_object(emit, NULL);
		gm_emit_value(emit, "ns", GM_NS(gm_figures_at(f, refusal->time)));
		gm_emit_value(emit, "bytes", GM_BYTES(refusal->asked));
		gm_emit_end(emit);
		shown++;
	}
	gm_emit_end(emit);
}

static struct gm_value moment_value(const struct gm_figures *f, uint64_t time)
{
	return time ? GM_NS(gm_figures_at(f, time)) : GM_NONE;
}

static void device_show(struct gm_emit *emit, struct gm_figures *f, unsigned d,
			const struct gm_timeline *timeline, const struct gm_report_blocks *blocks)
{
	const bool trace = gm_figures_is_trace(f);
#define C(name) gm_figures_device(f, d, GM_C_##name)
	gm_emit_object(emit, NULL);
	gm_emit_value(emit, "ordinal", GM_COUNT(d));
	gm_emit_value(emit, "name", GM_TEXT(f->about->devices[d].name));
	gm_emit_value(emit, "total", GM_BYTES(f->about->devices[d].total));
	gm_emit_value(emit, "requested_peak",
		      GM_BYTES(trace ? C(foreign_driver_peak) : C(requested_peak)));
	gm_emit_value(emit, "requested_peak_ns", moment_value(f, C(requested_peak_time)));
	gm_emit_value(emit, "mapped_peak", GM_BYTES(C(mapped_peak)));
	gm_emit_value(emit, "mapped_peak_ns", moment_value(f, C(mapped_peak_time)));
	gm_emit_value(emit, "driver_peak", GM_BYTES(C(foreign_driver_peak)));
#undef C
	timeline_show(emit, timeline);
	refusals_show(emit, f, d);
	gm_report_moments_show(emit, blocks, d);
	gm_report_lives_show(emit, blocks, d);
	gm_kernel_sites_show(emit, f, d, SIZE_MAX);
	gm_summary_heap_kernels(emit, f, d, true);
	values_show(emit, f, GM_SCOPE_DEVICE, d);
	gm_emit_end(emit);
}

void gm_report_log_show(struct gm_emit *emit, struct gm_logs_one *log, size_t points)
{
	struct gm_figures *f = &log->figures;
	struct gm_report_blocks blocks;
	struct gm_timelines *timelines = malloc(sizeof *timelines);
	if (!timelines) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
	head_show(emit, log);
	gm_findings_show(emit, f);
	gm_report_blocks_read(&blocks, f, points);
	gm_timelines_read(timelines, f, points);
	gm_emit_list(emit, "devices");
	for (unsigned d = 0; d < f->n_devices; d++)
		if (f->devices[d].used)
			device_show(emit, f, d, &timelines->devices[d], &blocks);
	gm_emit_end(emit);
	gm_report_stacks_show(emit, &blocks);
	calls_show(emit, f);
	values_show(emit, f, GM_SCOPE_PROCESS, 0);
	gm_timelines_free(timelines);
	free(timelines);
	gm_report_blocks_free(&blocks);
}
