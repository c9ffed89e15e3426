/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "log/frag.h"
#include "tools/log/course.h"
#include "tools/log/usage.h"
#include "tools/plot/plot.h"
#include "tools/tool.h"

/* The present value of a curve, and the last column with this value. */
struct pen {
	double value;
	unsigned column;
	bool known;
};

struct reader {
	struct gm_plot *plot;
	struct pen pens[GM_PLOT_CURVES];
	double driver_peak, driver_peak_ns;
};

static unsigned column_of(const struct gm_plot *plot, uint64_t ns)
{
	if (ns >= plot->length)
		return plot->columns - 1;
	return (unsigned)((unsigned __int128)ns * plot->columns / plot->length);
}

static void range_widen(struct gm_plot_range *range, double value)
{
	range->least = range->known && range->least < value ? range->least : value;
	range->most = range->known && range->most > value ? range->most : value;
	range->last = value;
	range->known = true;
}

/* Extend the curve's value up to and including this column. */
static void pen_move(struct reader *reader, enum gm_plot_curve curve, unsigned column)
{
	struct pen *pen = &reader->pens[curve];
	while (pen->known && pen->column < column)
		range_widen(&reader->plot->curves[curve][++pen->column], pen->value);
}

static void pen_set(struct reader *reader, enum gm_plot_curve curve, unsigned column, double value)
{
	struct gm_plot *plot = reader->plot;
	struct pen *pen = &reader->pens[curve];
	pen_move(reader, curve, column);
	pen->column = pen->known ? pen->column : column;
	pen->value = value;
	pen->known = true;
	range_widen(&plot->curves[curve][pen->column], value);
	if (value > plot->most[curve])
		plot->most[curve] = value;
}

static void usage_draw(struct reader *reader, const struct gm_usage_now *now, uint64_t ns)
{
	const unsigned column = column_of(reader->plot, ns);
	pen_set(reader, GM_PLOT_REQUESTED, column, (double)now->requested);
	pen_set(reader, GM_PLOT_IN_USE, column, (double)now->in_use);
	pen_set(reader, GM_PLOT_MAPPED, column, (double)now->mapped);
	pen_set(reader, GM_PLOT_TAKEN, column, (double)now->mapped + (double)now->lent);
	pen_set(reader, GM_PLOT_LENT, column, (double)now->lent);
	pen_set(reader, GM_PLOT_DRIVER, column, (double)now->driver);
	if ((double)now->driver > reader->driver_peak) {
		reader->driver_peak = (double)now->driver;
		reader->driver_peak_ns = (double)ns;
	}
}

static void sample_draw(struct reader *reader, const struct gm_sample *sample, uint64_t ns)
{
	const unsigned column = column_of(reader->plot, ns);
	struct gm_frag frag;
	gm_frag_now(sample, &frag);
	pen_set(reader, GM_PLOT_EXTERNAL, column, frag.external);
	pen_set(reader, GM_PLOT_EXTERNAL_REMAP, column, frag.external_remap);
	pen_set(reader, GM_PLOT_UTILISATION, column, frag.utilisation);
}

static void refusal_count(struct gm_plot *plot, const struct gm_record *r, uint64_t ns)
{
	if (plot->refusals.n++)
		return;
	plot->refusals.asked = (double)r->size;
	plot->refusals.ns = (double)ns;
}

/* False: the log does not have every event; draw its samples. */
static bool course_draw(struct reader *reader)
{
	const struct gm_course *course = gm_course_of(reader->plot->figures, reader->plot->device);
	for (size_t i = 0; course->computed && i < course->moments.n; i++) {
		const struct gm_course_moment *m = &course->moments.at[i];
		sample_draw(reader, &m->sample, gm_figures_at(reader->plot->figures, m->time));
	}
	return course->computed;
}

static void events_read(struct reader *reader)
{
	struct gm_plot *plot = reader->plot;
	plot->each = course_draw(reader);
	struct gm_usage usages[GM_COUNTER_DEVICES], *usage = &usages[plot->device];
	struct gm_log_entry entry;
	gm_usages_begin(usages, plot->figures);
	while (gm_log_read_next(plot->figures->file, &entry)) {
		const uint64_t ns = gm_figures_at(plot->figures, entry.record.time);
		if (gm_usage_follow(usage, &entry))
			usage_draw(reader, &usage->now, ns);
		if (entry.record.device != plot->device)
			continue;
		if (entry.sample && !plot->each)
			sample_draw(reader, entry.sample, ns);
		if (entry.record.kind == GM_RECORD_OUT_OF_MEMORY)
			refusal_count(plot, &entry.record, ns);
	}
	plot->events = usage->blocks_known;
	for (unsigned i = 0; i < GM_PLOT_CURVES; i++)
		pen_move(reader, (enum gm_plot_curve)i, plot->columns - 1);
}

/* The peak shown by summary. The counters have no time for the driver's peak; events give it. */
static void peak_find(struct gm_plot *plot, const struct reader *reader)
{
	const struct gm_figures *f = plot->figures;
	const uint64_t time = gm_figures_device(f, plot->device, GM_C_requested_peak_time);
	if (plot->trace) {
		plot->peak.bytes =
			(double)gm_figures_device(f, plot->device, GM_C_foreign_driver_peak);
		plot->peak.ns = reader->driver_peak_ns;
		plot->peak.known = plot->peak.bytes > 0;
	} else {
		plot->peak.bytes = (double)gm_figures_device(f, plot->device, GM_C_requested_peak);
		plot->peak.ns = (double)gm_figures_at(f, time);
		plot->peak.known = plot->peak.bytes > 0 && time;
	}
	if (plot->peak.ns > (double)plot->length)
		plot->peak.ns = (double)plot->length;
}

/* Without events the peak is between samples: draw it where the counters say that it was. */
static void peak_draw(struct gm_plot *plot)
{
	const unsigned column = column_of(plot, (uint64_t)plot->peak.ns);
	static const enum gm_plot_curve curves[] = {GM_PLOT_REQUESTED, GM_PLOT_IN_USE};
	for (size_t i = 0; plot->peak.known && !plot->trace && i < 2; i++) {
		struct gm_plot_range *range = &plot->curves[curves[i]][column];
		if (!range->known || range->most >= plot->peak.bytes)
			continue;
		range->most = plot->peak.bytes;
		if (plot->most[curves[i]] < plot->peak.bytes)
			plot->most[curves[i]] = plot->peak.bytes;
	}
}

void gm_plot_read(struct gm_plot *plot)
{
	struct reader reader = {.plot = plot};
	for (unsigned i = 0; i < GM_PLOT_CURVES; i++) {
		plot->curves[i] = calloc(plot->columns, sizeof **plot->curves);
		if (!plot->curves[i]) {
			gm_tool_error("out of memory");
			exit(GM_EXIT_FAILED);
		}
	}
	plot->length = gm_figures_length(plot->figures);
	plot->length += plot->length == 0;
	plot->trace = gm_figures_is_trace(plot->figures);
	events_read(&reader);
	peak_find(plot, &reader);
	if (!plot->events)
		peak_draw(plot);
	if (plot->events)
		gm_bins_read(&plot->bins, plot->figures->file, (int)plot->device, GM_LEVEL_BLOCKS);
}

void gm_plot_free(struct gm_plot *plot)
{
	for (unsigned i = 0; i < GM_PLOT_CURVES; i++)
		free(plot->curves[i]);
}
