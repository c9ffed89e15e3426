/* SPDX-License-Identifier: BSD-3-Clause */
/* gpumemstat frag: fragmentation now, at the peak and over time; idle memory by size; idle memory
 * unusable for blocks of a size. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "log/frag.h"
#include "tools/log/course.h"
#include "tools/summary/summary.h"

enum { ROWS_DEFAULT = 12, BAR_LEAST = 8, BEFORE_BAR = 66 };

/* One device. `end` and `peak` are shown in detail. */
struct course {
	const struct gm_figures *figures;
	const struct gm_course *all;
	const struct gm_course_moment *end, *peak;
	uint64_t mapped; /* the highest */
};

static _Noreturn void memory_exhausted(void)
{
	gm_tool_error("out of memory");
	exit(GM_EXIT_FAILED);
}

static void course_read(struct course *course, unsigned device)
{
	course->all = gm_course_of(course->figures, device);
	for (size_t i = 0; i < course->all->moments.n; i++) {
		const struct gm_course_moment *moment = &course->all->moments.at[i];
		course->end = moment;
		if (moment->sample.mapped > course->mapped)
			course->mapped = moment->sample.mapped;
	}
	if (course->end)
		course->peak = &course->all->worst;
}

static uint64_t share_ppm(uint64_t part, uint64_t whole)
{
	return whole ? (uint64_t)((unsigned __int128)part * 1000000 / whole) : 0;
}

/* --- memory that a size cannot use --- */

struct unusable {
	uint64_t least, most, remap_least, remap_most; /* ppm of idle */
};

/* The formula is in gpumem-log(5), "unusable for a size". */
static struct unusable sample_unusable(const struct gm_sample *s, uint64_t size)
{
	uint64_t low, high;
	uint64_t whole = s->largest_after_remap >= size ? s->largest_after_remap : 0;
	gm_frag_usable(s, size, &low, &high);
	uint64_t low_remap = low > whole ? low : whole, high_remap = high > whole ? high : whole;
	return (struct unusable){.least = gm_frag_external_ppm(s->idle, high),
				 .most = gm_frag_external_ppm(s->idle, low),
				 .remap_least = gm_frag_external_ppm(s->idle, high_remap),
				 .remap_most = gm_frag_external_ppm(s->idle, low_remap)};
}

/* "0.310", or "0.120 to 0.310" where only bounds are known. */
static struct gm_value bounds_format(uint64_t least, uint64_t most, char *buf, size_t n)
{
	if (least == most)
		snprintf(buf, n, "%.3f", (double)least / 1e6);
	else
		snprintf(buf, n, "%.3f to %.3f", (double)least / 1e6, (double)most / 1e6);
	return GM_TEXT(buf);
}

static void unusable_text(struct gm_emit *emit, const struct course *course)
{
	char name[64], text[4][48], size[32];
	const uint64_t asked = emit->options->size;
	const struct unusable end = sample_unusable(&course->end->sample, asked),
			      peak = sample_unusable(&course->peak->sample, asked);
	const struct gm_column columns[] = {
		{NULL, "unusable", GM_COLUMN_LEFT},
		{NULL, course->figures->about->running ? "now" : "at end", 0},
		{NULL, "at peak", 0},
	};
	gm_value_format(GM_BYTES(asked), emit->options->unit, size, sizeof size);
	snprintf(name, sizeof name, "for %s", size);
	gm_emit_break(emit);
	gm_emit_table(emit, NULL, true, columns, 3);
	gm_emit_row(
		emit, NULL,
		(struct gm_value[]){GM_TEXT(name),
				    bounds_format(end.least, end.most, text[0], sizeof *text),
				    bounds_format(peak.least, peak.most, text[1], sizeof *text)});
	gm_emit_row(
		emit, NULL,
		(struct gm_value[]){
			GM_TEXT("  after remap"),
			bounds_format(end.remap_least, end.remap_most, text[2], sizeof *text),
			bounds_format(peak.remap_least, peak.remap_most, text[3], sizeof *text)});
	gm_emit_table_end(emit);
}

/* --- idle memory by size --- */

/* Share of idle memory in shorter runs than those of this bin, or in no run. */
static uint64_t bin_share_below(const struct gm_sample *s, unsigned bin)
{
	uint64_t rest = s->idle;
	for (unsigned i = bin; i < GM_SAMPLE_BINS; i++)
		rest -= (uint64_t)s->idle_units[i] * GM_SAMPLE_UNIT;
	return share_ppm(rest, s->idle);
}

static void bin_put(struct gm_value *to, const struct gm_sample *s, unsigned bin)
{
	to[0] = s->idle_runs[bin] ? GM_COUNT(s->idle_runs[bin]) : GM_NONE;
	to[1] = s->idle_runs[bin] ? GM_BYTES((uint64_t)s->idle_units[bin] * GM_SAMPLE_UNIT)
				  : GM_NONE;
	to[2] = s->idle ? GM_PPM(bin_share_below(s, bin)) : GM_NONE;
}

static void histogram_text(struct gm_emit *emit, const struct course *course)
{
	const struct gm_sample *end = &course->end->sample, *peak = &course->peak->sample;
	const struct gm_column columns[] = {
		{NULL, "idle runs of", GM_COLUMN_LEFT},
		{NULL, course->figures->about->running ? "now" : "at end", 0},
		{NULL, "bytes", 0},
		{NULL, "below", 0},
		{NULL, "at peak", 0},
		{NULL, "bytes", 0},
		{NULL, "below", 0},
	};
	char names[GM_SAMPLE_BINS][48];
	gm_emit_break(emit);
	gm_emit_table(emit, NULL, true, columns, 7);
	gm_emit_row(emit, NULL,
		    (struct gm_value[]){GM_TEXT("slots of slabs"), GM_NONE,
					GM_BYTES(end->idle - gm_frag_in_runs(end)), GM_NONE,
					GM_NONE, GM_BYTES(peak->idle - gm_frag_in_runs(peak)),
					GM_NONE});
	for (unsigned i = 0; i < GM_SAMPLE_BINS; i++) {
		struct gm_value cells[7] = {GM_TEXT(names[i])};
		char least[32];
		if (!end->idle_runs[i] && !peak->idle_runs[i])
			continue;
		gm_value_format(GM_BYTES(gm_frag_bin_least(i ? i : 1)), emit->options->unit, least,
				sizeof least);
		snprintf(names[i], sizeof *names, i ? "%s and more" : "less than %s", least);
		bin_put(cells + 1, end, i);
		bin_put(cells + 4, peak, i);
		gm_emit_row(emit, NULL, cells);
	}
	gm_emit_row(emit, NULL,
		    (struct gm_value[]){GM_TEXT("all"), GM_COUNT(end->idle_extents),
					GM_BYTES(end->idle), GM_NONE, GM_COUNT(peak->idle_extents),
					GM_BYTES(peak->idle), GM_NONE});
	gm_emit_table_end(emit);
}

/* --- over time --- */

/* Columns for `part`, where `whole` has `width`; rounded up so that a small part is visible. */
static unsigned bar_columns(uint64_t part, uint64_t whole, unsigned width)
{
	return whole ? (unsigned)(((unsigned __int128)part * width + whole - 1) / whole) : 0;
}

/* "####==..": handed out, retired, idle, as parts of the highest mapped. The caller frees. */
static char *bar_make(const struct gm_sample *s, uint64_t whole, unsigned width)
{
	unsigned all = bar_columns(s->mapped, whole, width);
	unsigned used = bar_columns(s->handed_out, whole, width);
	unsigned retired = bar_columns(s->handed_out + s->retired, whole, width);
	char *text = calloc(1, all + 1);
	if (!text)
		memory_exhausted();
	for (unsigned i = 0; i < all; i++)
		text[i] = i < used ? '#' : i < retired ? '=' : '.';
	return text;
}

/* The worst sample of each of `rows` equal parts of the time; parts without a sample are
 * skipped. */
static void course_text(struct gm_emit *emit, const struct course *course)
{
	char highest[32], title[48];
	const struct gm_column columns[] = {
		{NULL, "over time", GM_COLUMN_LEFT},
		{NULL, "mapped", 0},
		{NULL, "idle", 0},
		{NULL, "external", 0},
		{NULL, "unreclaimable", 0},
		{NULL, title, GM_COLUMN_LEFT},
	};
	const unsigned width = emit->options->width > BEFORE_BAR + BAR_LEAST
				       ? emit->options->width - BEFORE_BAR
				       : BAR_LEAST;
	const unsigned rows = emit->options->rows == UINT_MAX ? ROWS_DEFAULT : emit->options->rows;
	const struct gm_course_moment *first = course->all->moments.at, *last = course->end;
	const uint64_t span = last->time - first->time + 1;
	const struct gm_course_moment *moment = first;
	GM_ARRAY(char *) bars = {0};
	gm_value_format(GM_BYTES(course->mapped), emit->options->unit, highest, sizeof highest);
	snprintf(title, sizeof title, "of %s", highest);
	gm_emit_break(emit);
	gm_emit_table(emit, NULL, true, columns, 6);
	while (moment <= last) {
		const struct gm_course_moment *best = moment;
		const uint64_t part =
			(uint64_t)((unsigned __int128)(moment->time - first->time) * rows / span);
		for (; moment <= last; moment++) {
			uint64_t at = moment->time - first->time;
			if ((unsigned __int128)at * rows / span != part)
				break;
			if (gm_course_is_worse(&moment->sample, &best->sample))
				best = moment;
		}
		const struct gm_sample *s = &best->sample;
		char time[32], *line = bar_make(s, course->mapped, width);
		if (!gm_array_push(&bars, line))
			memory_exhausted();
		gm_time_format(gm_figures_at(course->figures, best->time), time, sizeof time);
		gm_emit_row(
			emit, NULL,
			(struct gm_value[]){GM_TEXT(time), GM_BYTES(s->mapped), GM_BYTES(s->idle),
					    GM_PPM(gm_frag_external_ppm(s->idle, s->largest_idle)),
					    GM_BYTES(s->unreclaimable), GM_TEXT(line)});
	}
	gm_emit_table_end(emit);
	for (size_t i = 0; i < bars.n; i++)
		free(bars.at[i]);
	gm_array_free(&bars);
	gm_emit_line(emit, "", "# handed out, = retired, . idle");
}

/* --- JSON --- */

static void moment_json(struct gm_emit *emit, const char *key, const struct course *course,
			const struct gm_course_moment *moment)
{
	static const struct gm_column bins[] = {
		{"least", NULL, 0}, {"runs", NULL, 0}, {"bytes", NULL, 0}, {"below", NULL, 0}};
	const struct gm_sample *s = &moment->sample;
	gm_emit_object(emit, key);
	gm_emit_value(emit, "ns", GM_NS(gm_figures_at(course->figures, moment->time)));
	gm_summary_pool(emit, s);
	gm_emit_value(emit, "idle_runs", GM_COUNT(s->idle_extents));
	if (gm_frag_has_bins(s)) {
		gm_emit_table(emit, "histogram", false, bins, 4);
		for (unsigned i = 0; i < GM_SAMPLE_BINS; i++) {
			struct gm_value cells[4] = {GM_BYTES(i ? gm_frag_bin_least(i) : 0)};
			bin_put(cells + 1, s, i);
			if (s->idle_runs[i])
				gm_emit_row(emit, NULL, cells);
		}
		gm_emit_table_end(emit);
	}
	if (gm_frag_has_bins(s) && emit->options->size) {
		const struct unusable u = sample_unusable(s, emit->options->size);
		gm_emit_object(emit, "unusable");
		gm_emit_value(emit, "size", GM_BYTES(emit->options->size));
		gm_emit_value(emit, "least", GM_PPM(u.least));
		gm_emit_value(emit, "most", GM_PPM(u.most));
		gm_emit_value(emit, "after_remap_least", GM_PPM(u.remap_least));
		gm_emit_value(emit, "after_remap_most", GM_PPM(u.remap_most));
		gm_emit_end(emit);
	}
	gm_emit_end(emit);
}

static void course_json(struct gm_emit *emit, const struct course *course)
{
	gm_emit_value(emit, "samples", GM_COUNT(course->all->samples));
	gm_emit_value(emit, "states", GM_COUNT(course->all->states));
	gm_emit_value(emit, "computed", GM_BOOL(course->all->computed));
	if (course->end) {
		moment_json(emit, "end", course, course->end);
		moment_json(emit, "at_peak", course, course->peak);
	}
	gm_emit_list(emit, "course");
	for (size_t i = 0; i < course->all->moments.n; i++)
		moment_json(emit, NULL, course, &course->all->moments.at[i]);
	gm_emit_end(emit);
}

/* --- one log --- */

static void legend_text(struct gm_emit *emit, const struct course *course)
{
	char count[32];
	gm_tool_count(course->all->samples, count, sizeof count);
	if (course->all->computed)
		gm_emit_line(emit, "", "computed from the addresses of all events");
	else if (course->end && course->all->samples < GM_COURSE_FEW)
		gm_emit_line(emit, "", "from only %s sample%s", count,
			     course->all->samples == 1 ? "" : "s");
	gm_emit_line(emit, "", "external: share of idle memory that is not in the longest run");
	gm_emit_line(emit, "", "after remap: the same, with idle chunks mapped side by side");
	gm_emit_line(emit, "", "unreclaimable: idle, in chunks that also hold live blocks");
}

static void device_show(struct gm_emit *emit, const struct gm_figures *f, unsigned d)
{
	struct course course = {.figures = f};
	char label[32], when[32] = "", count[32];
	course_read(&course, d);
	const size_t moments = course.all->computed ? course.all->states : course.all->samples;
	gm_emit_object(emit, NULL);
	gm_emit_value(emit, "ordinal", GM_COUNT(d));
	gm_emit_value(emit, "name", GM_TEXT(f->about->devices[d].name));
	if (course.peak)
		gm_time_format(gm_figures_at(f, course.peak->time), when, sizeof when);
	snprintf(label, sizeof label, "device %u", d);
	gm_emit_break(emit);
	gm_emit_line(emit, label, "%s, %s %s%s%s%s", f->about->devices[d].name,
		     gm_tool_count(moments, count, sizeof count),
		     course.all->computed ? "moment" : "sample", moments == 1 ? "" : "s",
		     course.peak ? ", its peak at " : "", when);
	gm_summary_fragmentation(emit, f, d, course.all, true);
	legend_text(emit, &course);
	const bool binned = course.end && gm_frag_has_bins(&course.peak->sample);
	if (emit->options->json)
		course_json(emit, &course);
	else if (binned) {
		histogram_text(emit, &course);
		gm_emit_line(emit, "",
			     "below: share of idle memory in runs too short for such a block");
		if (emit->options->size)
			unusable_text(emit, &course);
	}
	if (course.end && !binned)
		gm_emit_line(emit, "idle runs", "not in this log: an older libgpumem.so wrote it");
	if (!emit->options->json && course.end)
		course_text(emit, &course);
	gm_emit_end(emit);
}

static void log_show(struct gm_emit *emit, const struct gm_figures *f)
{
	unsigned shown = 0;
	gm_emit_object(emit, NULL);
	gm_logs_head(emit, f);
	gm_emit_list(emit, "devices");
	for (unsigned d = 0; d < f->n_devices; d++) {
		bool pooled = gm_figures_device(f, d, GM_C_map_calls) > 0;
		shown += pooled;
		if (pooled || emit->options->json)
			device_show(emit, f, d);
	}
	gm_emit_end(emit);
	if (!shown)
		gm_emit_line(emit, "pool", "never had any memory");
	gm_emit_end(emit);
}

int gm_frag_main(const struct gm_command *self, int argc, char **argv)
{
	return gm_logs_main(self, argc, argv, GM_LOGS_ANY, NULL, log_show);
}
