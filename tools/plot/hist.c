/* SPDX-License-Identifier: BSD-3-Clause */
/* Histograms of blocks by size and by lifetime; x axis: powers of two, y axis: powers of ten. */
#include <math.h>
#include <string.h>

#include "tools/output/emit.h"
#include "tools/plot/plot.h"
#include "tools/plot/svg.h"

enum { BINS_LEAST = 10, HEIGHT = 130, TITLE = 34, AXIS = 36, ROWS = 4 };

struct hist {
	const struct gm_plot *plot;
	const char *title, *id;
	const struct gm_bin *bins;
	enum gm_value_kind unit;
	double x, y, width; /* of the diagram itself */
	unsigned first, last;
	double rows; /* powers of ten of the axis */
};

/* pow and log2 would need glibc 2.29. */
static double decimal_power(unsigned n)
{
	double power = 1;
	while (n-- > 0)
		power *= 10;
	return power;
}

static double log_two(double value)
{
	return log10(value) / log10(2);
}

static double height_of(const struct hist *hist, double blocks)
{
	return blocks < 1 ? 0 : HEIGHT * (log10(blocks) + 0.15) / (hist->rows + 0.15);
}

/* The x of the value 2^power. Bin b begins at 2^(b-1). */
static double power_x(const struct hist *hist, double power)
{
	const double bins = hist->last - hist->first + 1;
	return hist->x + hist->width * (power + 1 - hist->first) / bins;
}

static void bar_draw(const struct hist *hist, unsigned bin)
{
	FILE *out = hist->plot->out;
	char count[32], bytes[32], least[32], below[32];
	const double x = power_x(hist, bin - 1.0), next = power_x(hist, bin);
	const double height = height_of(hist, (double)hist->bins[bin].blocks);
	const double gap = next - x > 4 ? 1 : 0;
	fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"use\">",
		x + gap, hist->y + HEIGHT - height, next - x - 2 * gap, height);
	gm_value_format((struct gm_value){hist->unit, gm_bins_least(bin), NULL}, 0, least,
			sizeof least);
	gm_value_format((struct gm_value){hist->unit,
					  bin + 1 < GM_BINS ? gm_bins_least(bin + 1) : UINT64_MAX,
					  NULL},
			0, below, sizeof below);
	fprintf(out, "<title>%s blocks, %s: from %s to below %s</title></rect>\n",
		gm_tool_count(hist->bins[bin].blocks, count, sizeof count),
		gm_value_format(GM_BYTES(hist->bins[bin].bytes), 0, bytes, sizeof bytes), least,
		below);
}

static void count_axis(const struct hist *hist)
{
	FILE *out = hist->plot->out;
	const unsigned step = hist->rows > ROWS ? (unsigned)ceil(hist->rows / ROWS) : 1;
	char count[32];
	for (unsigned i = 0; i <= hist->rows; i += step) {
		const double blocks = decimal_power(i),
			     y = hist->y + HEIGHT - height_of(hist, blocks);
		gm_svg_line(out, hist->x, y, hist->x + hist->width, y, "grid");
		gm_svg_text(out, hist->x - 8, y + 4, "t e", "%s",
			    i < 7 ? gm_tool_count((unsigned long long)blocks, count, sizeof count)
				  : (snprintf(count, sizeof count, "1e%u", i), count));
	}
	gm_svg_line(out, hist->x, hist->y + HEIGHT, hist->x + hist->width, hist->y + HEIGHT,
		    "axis");
}

/* Draw a tick, unless its name would touch the previous name, which ends at *free. */
static void tick_draw(const struct hist *hist, double power, const char *name, double *free)
{
	const double x = power_x(hist, power), half = gm_svg_text_width(name) / 2;
	const double edge = hist->x + hist->width + GM_PLOT_BEHIND - half - 2;
	const double bottom = hist->y + HEIGHT;
	if (x < hist->x - 0.1 || x > hist->x + hist->width + 0.1 || x - half < *free)
		return;
	gm_svg_line(hist->plot->out, x, bottom, x, bottom + 4, "axis");
	gm_svg_text(hist->plot->out, x < edge ? x : edge, bottom + 17, "t m", "%s", name);
	*free = x + half + 10;
}

/* Ticks at every power of two, or, if space is short, at every 2nd, 5th or 10th. */
static void size_axis(const struct hist *hist)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	const double bin = hist->width / (hist->last - hist->first + 1);
	const unsigned step = bin > 58 ? 1 : 2 * bin > 58 ? 2 : 5 * bin > 58 ? 5 : 10;
	double free = 0;
	char name[32];
	for (unsigned power = 0; power < 64; power += step) {
		snprintf(name, sizeof name, "%u %s", 1u << power % 10, units[power / 10]);
		tick_draw(hist, power, name, &free);
	}
}

static void time_axis(const struct hist *hist)
{
	static const char *const units[] = {"ns", "us", "ms", "s"};
	static const unsigned digits[] = {1, 10, 100};
	double free = 0;
	char name[32];
	for (unsigned i = 0; i < 12; i++) {
		snprintf(name, sizeof name, "%u %s", digits[i % 3], units[i / 3]);
		tick_draw(hist, log_two(decimal_power(i)), name, &free);
	}
	/* Above 100 s hours and days replace powers of ten. */
	tick_draw(hist, log_two(3.6e12), "1 h", &free);
	tick_draw(hist, log_two(8.64e13), "1 d", &free);
}

/* The bins to show: all bins in use, and at least BINS_LEAST. False: no blocks. */
static bool hist_span(struct hist *hist)
{
	if (!gm_bins_span(hist->bins, &hist->first, &hist->last))
		return false;
	/* A logarithmic axis has no 0; such values are drawn at 1. */
	hist->first = hist->first ? hist->first : 1;
	hist->last = hist->last ? hist->last : 1;
	for (bool up = true; hist->last - hist->first + 1 < BINS_LEAST; up = !up)
		if (hist->first == 1 || (up && hist->last + 1 < GM_BINS))
			hist->last++;
		else
			hist->first--;
	return true;
}

static void hist_draw(struct hist *hist)
{
	FILE *out = hist->plot->out;
	struct gm_bin bins[GM_BINS];
	double most = 10;
	fprintf(out, "<g id=\"%s\">\n", hist->id);
	gm_svg_text(out, hist->x, hist->y - 16, "t b", "%s", hist->title);
	memcpy(bins, hist->bins, sizeof bins);
	bins[1].blocks += bins[0].blocks;
	bins[1].bytes += bins[0].bytes;
	bins[0] = (struct gm_bin){0};
	hist->bins = bins;
	if (!hist->plot->events || !hist_span(hist)) {
		gm_svg_text(out, hist->x, hist->y + 10, "t", "%s",
			    hist->plot->events ? "none"
					       : "needs a log of events: gpumemstat record");
		fputs("</g>\n", out);
		return;
	}
	for (unsigned i = 0; i < GM_BINS; i++)
		most = (double)bins[i].blocks > most ? (double)bins[i].blocks : most;
	hist->rows = ceil(log10(most) - 1e-9);
	count_axis(hist);
	for (unsigned i = hist->first; i <= hist->last; i++)
		if (bins[i].blocks)
			bar_draw(hist, i);
	if (hist->unit == GM_VALUE_NS)
		time_axis(hist);
	else
		size_axis(hist);
	fputs("</g>\n", out);
}

double gm_plot_histograms(const struct gm_plot *plot, double y)
{
	const bool beside = plot->width >= 900;
	const double half = beside ? plot->width / 2 : plot->width;
	const double width = half - GM_PLOT_BEFORE - GM_PLOT_BEHIND;
	char kept[96] = "", count[32];
	if (plot->bins.kept.blocks)
		snprintf(kept, sizeof kept, "; %s not freed",
			 gm_tool_count(plot->bins.kept.blocks, count, sizeof count));
	char title[160];
	snprintf(title, sizeof title, "blocks by lifetime%s", kept);
	struct hist sizes = {.plot = plot,
			     .title = "blocks by size",
			     .id = "sizes",
			     .bins = plot->bins.sizes,
			     .unit = GM_VALUE_BYTES,
			     .x = GM_PLOT_BEFORE,
			     .y = y + TITLE,
			     .width = width};
	struct hist lives = {.plot = plot,
			     .title = title,
			     .id = "lifetimes",
			     .bins = plot->bins.lives,
			     .unit = GM_VALUE_NS,
			     .x = beside ? half + GM_PLOT_BEFORE : GM_PLOT_BEFORE,
			     .y = beside ? y + TITLE : y + 2 * TITLE + HEIGHT + AXIS,
			     .width = width};
	hist_draw(&sizes);
	hist_draw(&lives);
	return lives.y + HEIGHT + AXIS;
}
