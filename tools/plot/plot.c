/* SPDX-License-Identifier: BSD-3-Clause */
/* gpumemstat plot: one SVG of the memory of a device over time. */
#include "tools/plot/plot.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/size.h"
#include "tools/export/convert.h"
#include "tools/plot/svg.h"

enum { BOTTOM = 12, WIDTH_DEFAULT = 1200 };

/* The colours of Okabe and Ito are distinct for colour-blind readers; lines also differ in dashes.
 * Text and paper follow the reader's choice of light or dark. */
static const char style[] =
	"<style>\n"
	".paper{fill:#fff}\n"
	"text{fill:#1b1f24}\n"
	".t{font:12px system-ui,\"DejaVu Sans\",Verdana,Arial,sans-serif}\n"
	".h{font-size:15px;font-weight:600}\n"
	".b{font-weight:600}\n"
	".m{text-anchor:middle}\n"
	".e{text-anchor:end}\n"
	".axis{stroke:#57606a}\n"
	".grid{stroke:#8c959f;stroke-opacity:.3}\n"
	"path{stroke-linejoin:round}\n"
	".use{fill:#0072b2}\n"
	".wave{fill:#7fb8d8}\n"
	".idle{fill:#d3ebf8}\n"
	".lent{fill:#e4bcd2}\n"
	".mapped,.requested,.driver,.external,.remap,.utilisation{fill:none;stroke-width:1.6}\n"
	".mapped{stroke:#57606a}\n"
	".requested{stroke:#e69f00;stroke-dasharray:5 3}\n"
	".driver{stroke:#cc79a7;stroke-dasharray:8 2 2 2}\n"
	".external{stroke:#d55e00;stroke-width:2.6}\n"
	".remap{stroke:#009e73;stroke-dasharray:5 3}\n"
	".utilisation{stroke:#0072b2;stroke-dasharray:2 2}\n"
	".peak{stroke:#1b1f24;stroke-dasharray:2 2}\n"
	".peakdot{fill:#fff;stroke:#1b1f24;stroke-width:1.6}\n"
	".oom{stroke:#d55e00;stroke-width:1.6;stroke-dasharray:6 3}\n"
	".label{font-weight:600;paint-order:stroke;stroke:#fff;stroke-width:4px}\n"
	".oomtext{fill:#b34700}\n"
	"@media (prefers-color-scheme:dark){\n"
	".paper{fill:#0d1117}\n"
	"text{fill:#e6edf3}\n"
	".axis,.mapped{stroke:#9ea7b3}\n"
	".use{fill:#3d9bd6}\n"
	".wave{fill:#2a6590}\n"
	".idle{fill:#17344a}\n"
	".lent{fill:#5f3a4e}\n"
	".external{stroke:#f0803c}\n"
	".remap{stroke:#5fe0b7}\n"
	".utilisation{stroke:#56b4e9}\n"
	".peak{stroke:#e6edf3}\n"
	".peakdot{fill:#0d1117;stroke:#e6edf3}\n"
	".label{stroke:#0d1117}\n"
	".oomtext{fill:#ff9d5c}\n"
	"}\n"
	"</style>\n";

/* Draw a line of text; a line that is too wide is cut and ends in "...". */
static void line_draw(const struct gm_plot *plot, double y, const char *class, double scale,
		      const char *text)
{
	char cut[512];
	snprintf(cut, sizeof cut, "%s", text);
	size_t n = strlen(cut);
	const double room = plot->width - 2 * GM_PLOT_BEHIND;
	if (gm_svg_text_width(cut) * scale > room)
		while (n > 3 && gm_svg_text_width(cut) * scale > room) {
			n--;
			while (n > 3 && (cut[n - 3] & 0xc0) == 0x80)
				n--;
			strcpy(cut + n - 3, "...");
		}
	gm_svg_text(plot->out, GM_PLOT_BEHIND, y, class, "%s", cut);
}

static double head_draw(const struct gm_plot *plot)
{
	const struct gm_log_about *about = plot->figures->about;
	const struct gm_log_read_device unknown = {.name = "not known"}, *device = &unknown;
	char text[512], total[32], length[32], start[32] = "";
	const time_t wall = (time_t)(about->start_wall / 1000000000);
	struct tm tm;
	if (plot->device < about->n_devices)
		device = &about->devices[plot->device];
	if (localtime_r(&wall, &tm))
		strftime(start, sizeof start, "%Y-%m-%d %H:%M:%S", &tm);
	snprintf(text, sizeof text, "%s, pid %d on %s", about->program, about->pid, about->host);
	line_draw(plot, 28, "t h", 1.3, text);
	snprintf(text, sizeof text, "device %u: %s, %s; %s from %s, %s", plot->device, device->name,
		 gm_size_format(device->total, total, sizeof total),
		 gm_time_format(gm_figures_length(plot->figures), length, sizeof length), start,
		 gm_figures_end(plot->figures));
	line_draw(plot, 48, "t", 1, text);
	return 66;
}

/* Draw head and diagrams. Returns the height, which is known only after drawing. */
static double body_draw(const struct gm_plot *plot)
{
	double y = head_draw(plot);
	y = gm_plot_usage(plot, y);
	y = gm_plot_fragmentation(plot, y);
	return gm_plot_histograms(plot, y) + BOTTOM;
}

static void svg_write(struct gm_plot *plot)
{
	FILE *out = plot->out;
	char *body = NULL;
	size_t size = 0;
	plot->out = open_memstream(&body, &size);
	if (!plot->out) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
	const double height = body_draw(plot);
	fclose(plot->out);
	plot->out = out;
	/* Fits a narrower page, and keeps its proportions. */
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
		"width=\"100%%\" style=\"max-width:%.0fpx;height:auto\" role=\"img\">\n<title>",
		plot->width, height, plot->width);
	gm_svg_escape(out, plot->figures->about->program);
	fprintf(out, ": device memory over time</title>\n%s", style);
	gm_svg_rect(out, 0, 0, plot->width, height, "paper");
	if (body)
		fwrite(body, 1, size, out);
	fputs("</svg>\n", out);
	free(body);
}

/* The first device with allocations, else the first used device, else 0. */
static unsigned device_first(const struct gm_figures *figures)
{
	for (unsigned d = 0; d < figures->n_devices; d++)
		if (gm_figures_device(figures, d, GM_C_allocate_calls))
			return d;
	for (unsigned d = 0; d < figures->n_devices; d++)
		if (figures->devices[d].used)
			return d;
	return 0;
}

static void log_plot(FILE *out, const struct gm_options *options, struct gm_figures *figures)
{
	struct gm_plot plot = {
		.out = out,
		.figures = figures,
		.device = options->device < 0 ? device_first(figures) : (unsigned)options->device,
		.width = options->pixels ? options->pixels : WIDTH_DEFAULT,
	};
	plot.columns = (unsigned)plot.width - GM_PLOT_BEFORE - GM_PLOT_BEHIND;
	gm_plot_read(&plot);
	svg_write(&plot);
	gm_plot_free(&plot);
}

int gm_plot_main(const struct gm_command *self, int argc, char **argv)
{
	struct gm_options options;
	int first = gm_options_parse(&options, self, argc, argv);
	if (first == GM_OPTIONS_STOP)
		return options.status;
	const struct gm_convert convert = {.options = &options, .write = log_plot};
	return gm_convert_run(self, &convert, argv + first, (size_t)(argc - first));
}
