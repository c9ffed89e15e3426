/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/curve.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tools/log/usage.h"

/* LABEL_MOST: columns of the highest value; AFTER: columns behind the axis, for the length. */
enum { ROWS = 5, LABEL_MOST = 8, AFTER = 11, COLUMNS_MOST = 120 };

/* A pass over the log. */
struct course {
	struct gm_curve *curve;
	const struct gm_figures *figures;
	uint64_t span; /* ns of the whole run, at least 1 */
	struct gm_usage usages[GM_COUNTER_DEVICES];
	struct gm_curve_part now[GM_COUNTER_DEVICES];
	unsigned next[GM_COUNTER_DEVICES]; /* the first column without a value */
};

static void part_raise(struct gm_curve_part *part, struct gm_curve_part value)
{
	part->requested = value.requested > part->requested ? value.requested : part->requested;
	part->mapped = value.mapped > part->mapped ? value.mapped : part->mapped;
}

static unsigned course_column(const struct course *course, uint64_t time)
{
	const unsigned columns = course->curve->columns;
	const uint64_t at = gm_figures_at(course->figures, time);
	return at >= course->span ? columns - 1
				  : (unsigned)((unsigned __int128)at * columns / course->span);
}

static struct gm_curve_part *course_part(const struct course *course, unsigned device,
					 unsigned column)
{
	return &course->curve->parts[(size_t)device * course->curve->columns + column];
}

/* Fill the columns up to and including `column` with the present value. */
static void course_hold(struct course *course, unsigned device, unsigned column)
{
	for (; course->next[device] <= column; course->next[device]++)
		*course_part(course, device, course->next[device]) = course->now[device];
}

/* Update the present value of the record's device. False: no change. */
static bool course_change(struct course *course, const struct gm_log_entry *entry)
{
	const unsigned d = entry->record.device;
	const struct gm_usage_now *now = &course->usages[d].now;
	if (!gm_usage_follow(&course->usages[d], entry))
		return false;
	course->now[d].requested =
		gm_figures_is_trace(course->figures) ? now->driver : now->requested;
	course->now[d].mapped = now->mapped + now->lent;
	return true;
}

/* The counters have exact peaks, even if the log lacks the events. */
static void course_add_peaks(const struct course *course, unsigned d)
{
	const struct gm_figures *f = course->figures;
	const uint64_t requested = gm_figures_device(f, d, GM_C_requested_peak_time);
	const uint64_t mapped = gm_figures_device(f, d, GM_C_mapped_peak_time);
	if (requested)
		part_raise(course_part(course, d, course_column(course, requested)),
			   (struct gm_curve_part){
				   .requested = gm_figures_device(f, d, GM_C_requested_peak)});
	if (mapped)
		part_raise(course_part(course, d, course_column(course, mapped)),
			   (struct gm_curve_part){
				   .mapped = gm_figures_device(f, d, GM_C_mapped_peak)});
}

void gm_curve_read(struct gm_curve *curve, const struct gm_figures *f, unsigned columns)
{
	const uint64_t length = gm_figures_length(f);
	struct gm_log_entry entry;
	struct course course = {.curve = curve, .figures = f, .span = length ? length : 1};
	*curve = (struct gm_curve){
		columns, calloc((size_t)f->n_devices * columns + 1, sizeof *curve->parts)};
	if (!curve->parts) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
	gm_usages_begin(course.usages, f);
	while (gm_log_read_next(f->file, &entry)) {
		const unsigned d = entry.record.device;
		if (d >= f->n_devices)
			continue;
		const unsigned column = course_column(&course, entry.record.time);
		course_hold(&course, d, column);
		if (course_change(&course, &entry))
			part_raise(course_part(&course, d, column), course.now[d]);
	}
	for (unsigned d = 0; d < f->n_devices; d++) {
		course_hold(&course, d, columns - 1);
		course_add_peaks(&course, d);
	}
}

void gm_curve_free(struct gm_curve *curve)
{
	free(curve->parts);
	*curve = (struct gm_curve){0};
}

unsigned gm_curve_columns(const struct gm_emit *emit)
{
	const unsigned columns = emit->options->width - emit->label - AFTER;
	return columns < COLUMNS_MOST ? columns : COLUMNS_MOST;
}

/* True if the value's bar reaches into this row. Every value reaches into row 0. */
static bool value_reaches(uint64_t value, unsigned row, uint64_t most)
{
	return (unsigned __int128)value * ROWS > (unsigned __int128)most * row;
}

/* Write one row of the curve to `text`, without trailing blanks. */
static void row_put(char *text, const struct gm_curve_part *parts, unsigned columns, unsigned row,
		    uint64_t most)
{
	unsigned n = 0;
	for (unsigned i = 0; i < columns; i++) {
		const bool used = value_reaches(parts[i].requested, row, most);
		const bool mapped = value_reaches(parts[i].mapped, row, most);
		text[i] = used ? '#' : mapped ? '.' : ' ';
		n = text[i] == ' ' ? n : i + 1;
	}
	text[n] = '\0';
}

void gm_curve_draw(struct gm_emit *emit, const struct gm_curve *curve, const struct gm_figures *f,
		   unsigned device)
{
	const struct gm_curve_part *parts = &curve->parts[(size_t)device * curve->columns];
	char text[COLUMNS_MOST + 1], highest[32], length[32];
	uint64_t requested = 0, mapped = 0;
	for (unsigned i = 0; i < curve->columns; i++) {
		requested = parts[i].requested > requested ? parts[i].requested : requested;
		mapped = parts[i].mapped > mapped ? parts[i].mapped : mapped;
	}
	const uint64_t most = requested > mapped ? requested : mapped;
	if (!most)
		return;
	gm_value_format(GM_BYTES(most), emit->options->unit, highest, sizeof highest);
	if (strlen(highest) > LABEL_MOST)
		gm_size_format(most, highest, sizeof highest);
	for (unsigned row = ROWS; row-- > 0;) {
		row_put(text, parts, curve->columns, row, most);
		gm_emit_plain(emit, "%-*s|%s", (int)emit->label, row == ROWS - 1 ? highest : "",
			      text);
	}
	memset(text, '-', curve->columns);
	text[curve->columns] = '\0';
	gm_emit_plain(emit, "%*s+%s %s", (int)emit->label, "", text,
		      gm_time_format(gm_figures_length(f), length, sizeof length));
	gm_emit_plain(emit, "%*s%s%s%s%s", (int)emit->label + 1, "", requested ? "# requested" : "",
		      requested && mapped ? "  " : "", mapped ? ". mapped" : "",
		      mapped && gm_figures_device(f, device, GM_C_heap_mapped_peak)
			      ? ", with the heaps of kernels"
			      : "");
}
