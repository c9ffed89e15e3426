/* SPDX-License-Identifier: BSD-3-Clause */
/* Diagrams over time: memory in use, and fragmentation. */
#include <string.h>

#include "base/size.h"
#include "tools/plot/plot.h"
#include "tools/plot/svg.h"
#include "tools/plot/ticks.h"

enum { TITLE = 20, LEGEND = 20, LABEL = 18, AXIS = 36, TICK = 4, DOT = 4 };
#define BOLD 1.2 /* width of bold text / width of plain text */

/* The position of a diagram, and the values at its edges. */
struct frame {
	const struct gm_plot *plot;
	double x, y, width, height;
	double top; /* the value at the upper edge */
};

static double x_of(const struct frame *frame, double ns)
{
	return frame->x + frame->width * ns / (double)frame->plot->length;
}

static double y_of(const struct frame *frame, double value)
{
	const double part = frame->top > 0 ? value / frame->top : 0;
	return frame->y + frame->height * (1 - (part > 1 ? 1 : part));
}

/* --- axes --- */

static void time_axis(const struct frame *frame)
{
	FILE *out = frame->plot->out;
	const double bottom = frame->y + frame->height;
	const struct gm_ticks ticks =
		gm_ticks_make(GM_TICKS_NS, frame->plot->length, frame->width < 700 ? 5 : 10);
	char name[32];
	for (unsigned i = 0; i <= ticks.n; i++) {
		const double x = x_of(frame, gm_ticks_value(&ticks, i));
		gm_ticks_name(&ticks, i, name, sizeof name);
		const double half = gm_svg_text_width(name) / 2;
		gm_svg_line(out, x, bottom, x, bottom + TICK, "axis");
		gm_svg_text(out,
			    x + half > frame->x + frame->width + GM_PLOT_BEHIND
				    ? frame->x + frame->width + GM_PLOT_BEHIND - half
				    : x,
			    bottom + TICK + 13, "t m", "%s", name);
	}
	gm_svg_line(out, frame->x, bottom, frame->x + frame->width, bottom, "axis");
}

static void level_draw(const struct frame *frame, double value, const char *name)
{
	FILE *out = frame->plot->out;
	const double y = y_of(frame, value);
	gm_svg_line(out, frame->x, y, frame->x + frame->width, y, "grid");
	gm_svg_text(out, frame->x - 8, y + 4, "t e", "%s", name);
}

static void bytes_axis(const struct frame *frame)
{
	const struct gm_ticks ticks = gm_ticks_make(GM_TICKS_BYTES, (uint64_t)frame->top, 8);
	char name[32];
	for (unsigned i = 0; i <= ticks.n; i++)
		level_draw(frame, gm_ticks_value(&ticks, i),
			   gm_ticks_name(&ticks, i, name, sizeof name));
}

static void share_axis(const struct frame *frame)
{
	static const char *const names[] = {"0", "0.25", "0.5", "0.75", "1"};
	for (unsigned i = 0; i < 5; i++)
		level_draw(frame, i / 4.0, names[i]);
}

/* --- curves --- */

static double column_x(const struct frame *frame, unsigned column)
{
	return frame->x + frame->width * column / frame->plot->columns;
}

enum pick { LEAST, MOST, LAST };

/* One step a column, at the column's value chosen by `pick`. */
static void curve_walk(const struct frame *frame, const struct gm_plot_range *curve, enum pick pick,
		       struct gm_svg_steps *steps)
{
	double last = 0;
	for (unsigned i = 0; i < frame->plot->columns; i++) {
		if (!curve[i].known)
			continue;
		last = y_of(frame, pick == MOST	   ? curve[i].most
				   : pick == LEAST ? curve[i].least
						   : curve[i].last);
		gm_svg_steps_to(steps, column_x(frame, i), last);
	}
	if (steps->any)
		fprintf(steps->out, "H%.1f", frame->x + frame->width);
}

static void area_draw(const struct frame *frame, enum gm_plot_curve curve, enum pick pick,
		      const char *class)
{
	FILE *out = frame->plot->out;
	const struct gm_plot_range *ranges = frame->plot->curves[curve];
	struct gm_svg_steps steps = {.out = out};
	unsigned first = 0;
	if (frame->plot->most[curve] <= 0)
		return;
	while (first < frame->plot->columns && !ranges[first].known)
		first++;
	fprintf(out, "<path class=\"%s\" d=\"", class);
	curve_walk(frame, ranges, pick, &steps);
	fprintf(out, "V%.1fH%.1fZ\"/>\n", frame->y + frame->height, column_x(frame, first));
}

/* A curve known only in the last columns is drawn as a dot, because its line would be invisible. */
static void dot_draw(const struct frame *frame, double value, const char *class)
{
	fprintf(frame->plot->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" class=\"%s dot\"/>\n",
		frame->x + frame->width, y_of(frame, value), class);
}

static void curve_draw(const struct frame *frame, enum gm_plot_curve curve, enum pick pick,
		       const char *class)
{
	FILE *out = frame->plot->out;
	const struct gm_plot_range *ranges = frame->plot->curves[curve];
	const unsigned columns = frame->plot->columns;
	struct gm_svg_steps steps = {.out = out};
	if (!ranges[columns - 1].known)
		return;
	if (!ranges[columns - DOT].known) {
		dot_draw(frame, ranges[columns - 1].most, class);
		return;
	}
	fprintf(out, "<path class=\"%s\" d=\"", class);
	curve_walk(frame, ranges, pick, &steps);
	fputs("\"/>\n", out);
}

/* --- titles, legends, labels --- */

struct entry {
	const char *class, *name;
	bool area; /* else a line */
	bool shown;
};

static double legend_draw(const struct gm_plot *plot, double y, const struct entry *entries,
			  size_t n)
{
	double x = GM_PLOT_BEFORE;
	for (size_t i = 0; i < n; i++) {
		const double width = gm_svg_text_width(entries[i].name);
		if (!entries[i].shown)
			continue;
		if (x > GM_PLOT_BEFORE && x + 22 + width > plot->width - GM_PLOT_BEHIND) {
			x = GM_PLOT_BEFORE;
			y += LEGEND;
		}
		if (entries[i].area)
			gm_svg_rect(plot->out, x, y - 10, 14, 11, entries[i].class);
		else
			gm_svg_line(plot->out, x, y - 4, x + 14, y - 4, entries[i].class);
		gm_svg_text(plot->out, x + 20, y, "t", "%s", entries[i].name);
		x += 20 + width + 18;
	}
	return y;
}

/* A label in a row above the diagram: centred at `x`, or at the edge if it would not fit. */
static void label_draw(const struct frame *frame, double x, double y, const char *class,
		       const char *text)
{
	const double half = gm_svg_text_width(text) * BOLD / 2, right = frame->x + frame->width;
	double at = x;
	const char *anchor = "m";
	char classes[64];
	if (x - half < frame->x) {
		at = frame->x;
		anchor = "s";
	} else if (x + half > right) {
		at = right;
		anchor = "e";
	}
	snprintf(classes, sizeof classes, "t label %s %s", class, anchor);
	gm_svg_text(frame->plot->out, at, y, classes, "%s", text);
}

static void refusal_draw(const struct frame *frame, double y)
{
	const struct gm_plot *plot = frame->plot;
	const double x = x_of(frame, plot->refusals.ns);
	char text[160], time[32], asked[32], more[48] = "";
	if (!plot->refusals.n)
		return;
	if (plot->refusals.n > 1)
		snprintf(more, sizeof more, ", the first of %llu",
			 (unsigned long long)plot->refusals.n);
	snprintf(text, sizeof text, "out of memory at %s: %s asked%s",
		 gm_time_format((uint64_t)plot->refusals.ns, time, sizeof time),
		 gm_size_format((uint64_t)plot->refusals.asked, asked, sizeof asked), more);
	gm_svg_line(plot->out, x, y + 4, x, frame->y + frame->height, "oom");
	label_draw(frame, x, y, "oomtext", text);
}

static void peak_draw(const struct frame *frame, double y)
{
	const struct gm_plot *plot = frame->plot;
	const double x = x_of(frame, plot->peak.ns), at = y_of(frame, plot->peak.bytes);
	char text[96], time[32], bytes[32];
	if (!plot->peak.known)
		return;
	snprintf(text, sizeof text, "peak %s requested at %s",
		 gm_size_format((uint64_t)plot->peak.bytes, bytes, sizeof bytes),
		 gm_time_format((uint64_t)plot->peak.ns, time, sizeof time));
	gm_svg_line(plot->out, x, y + 4, x, at, "peak");
	fprintf(plot->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" class=\"peakdot\"/>\n", x, at);
	label_draw(frame, x, y, "peaktext", text);
}

/* --- the diagrams --- */

static double usage_top(const struct gm_plot *plot)
{
	static const enum gm_plot_curve curves[] = {GM_PLOT_IN_USE, GM_PLOT_REQUESTED,
						    GM_PLOT_TAKEN, GM_PLOT_DRIVER};
	double top = plot->peak.known ? plot->peak.bytes : 0;
	for (size_t i = 0; i < sizeof curves / sizeof *curves; i++)
		top = plot->most[curves[i]] > top ? plot->most[curves[i]] : top;
	/* A damaged log may have any value. */
	top = top > 0x1p62 ? 0x1p62 : top;
	return top > 0 ? top * 1.04 : 1;
}

static bool plot_lends(const struct gm_plot *plot)
{
	return plot->most[GM_PLOT_LENT] > 0;
}

/* A new chunk of a device heap counts as mapped until the next record lends it, so the column's
 * maximum would be too high. */
static enum pick mapped_pick(const struct gm_plot *plot)
{
	return plot_lends(plot) ? LAST : MOST;
}

static void usage_areas(const struct frame *frame)
{
	if (plot_lends(frame->plot))
		area_draw(frame, GM_PLOT_TAKEN, MOST, "lent");
	area_draw(frame, GM_PLOT_MAPPED, mapped_pick(frame->plot), "idle");
	area_draw(frame, GM_PLOT_IN_USE, MOST, "wave");
	area_draw(frame, GM_PLOT_IN_USE, LEAST, "use");
}

static void usage_curves(const struct frame *frame)
{
	if (frame->plot->most[GM_PLOT_TAKEN] > 0)
		curve_draw(frame, GM_PLOT_MAPPED, mapped_pick(frame->plot), "mapped");
	if (frame->plot->most[GM_PLOT_REQUESTED] > 0)
		curve_draw(frame, GM_PLOT_REQUESTED, MOST, "requested");
	if (frame->plot->most[GM_PLOT_DRIVER] > 0)
		curve_draw(frame, GM_PLOT_DRIVER, MOST, "driver");
}

/* True if memory in use rises and falls within many columns; single steps need no legend. */
static bool usage_waves(const struct gm_plot *plot)
{
	const struct gm_plot_range *ranges = plot->curves[GM_PLOT_IN_USE];
	unsigned n = 0;
	for (unsigned i = 0; i < plot->columns; i++)
		n += ranges[i].known && ranges[i].most - ranges[i].least > usage_top(plot) / 50;
	return n > plot->columns / 50;
}

double gm_plot_usage(const struct gm_plot *plot, double y)
{
	const bool pool = plot->most[GM_PLOT_TAKEN] > 0;
	const struct entry entries[] = {
		{"use", "in use", true, plot->most[GM_PLOT_IN_USE] > 0},
		{"wave", "in use at times", true, usage_waves(plot)},
		{"idle", "idle", true, pool},
		{"lent", "lent to device heaps", true, plot_lends(plot)},
		{"mapped", "mapped", false, pool},
		{"requested", "requested", false, plot->most[GM_PLOT_REQUESTED] > 0},
		{"driver", "served by the driver", false, plot->most[GM_PLOT_DRIVER] > 0},
	};
	struct frame frame = {.plot = plot,
			      .x = GM_PLOT_BEFORE,
			      .width = plot->width - GM_PLOT_BEFORE - GM_PLOT_BEHIND,
			      .height = plot->width < 900 ? 220 : 300,
			      .top = usage_top(plot)};
	fputs("<g id=\"usage\">\n", plot->out);
	gm_svg_text(plot->out, GM_PLOT_BEFORE, y + 14, "t b", "memory over time");
	y = legend_draw(plot, y + 14 + TITLE, entries, sizeof entries / sizeof *entries);
	const double refusal = y + LABEL + 2;
	const double peak = plot->refusals.n ? refusal + LABEL : refusal;
	frame.y = peak + 10;
	usage_areas(&frame);
	bytes_axis(&frame);
	usage_curves(&frame);
	time_axis(&frame);
	refusal_draw(&frame, refusal);
	peak_draw(&frame, peak);
	fputs("</g>\n", plot->out);
	return frame.y + frame.height + AXIS;
}

double gm_plot_fragmentation(const struct gm_plot *plot, double y)
{
	const struct entry entries[] = {
		{"external", "external fragmentation", false, true},
		{"remap", "external, after remap", false, true},
		{"utilisation", "utilisation (requested / mapped)", false, true},
	};
	struct frame frame = {.plot = plot,
			      .x = GM_PLOT_BEFORE,
			      .width = plot->width - GM_PLOT_BEFORE - GM_PLOT_BEHIND,
			      .height = 120,
			      .top = 1};
	fputs("<g id=\"fragmentation\">\n", plot->out);
	gm_svg_text(plot->out, GM_PLOT_BEFORE, y + 14, "t b",
		    plot->each ? "fragmentation over time, after each event"
			       : "fragmentation over time, by sample");
	y = legend_draw(plot, y + 14 + TITLE, entries, sizeof entries / sizeof *entries);
	frame.y = y + 16;
	share_axis(&frame);
	curve_draw(&frame, GM_PLOT_EXTERNAL, MOST, "external");
	curve_draw(&frame, GM_PLOT_EXTERNAL_REMAP, MOST, "remap");
	curve_draw(&frame, GM_PLOT_UTILISATION, MOST, "utilisation");
	time_axis(&frame);
	fputs("</g>\n", plot->out);
	return frame.y + frame.height + AXIS;
}
