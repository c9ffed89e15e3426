/* SPDX-License-Identifier: BSD-3-Clause */
/* gpumemstat hist: the number of blocks by size and by lifetime, in powers of two. */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tools/log/bins.h"
#include "tools/log/logs.h"
#include "tools/output/emit.h"

enum { BINS = GM_BINS, BAR_LEAST = 8, BEFORE_BAR = 66 };

/* The two tables. */
struct kind {
	const char *key, *title, *least, *below;
	enum gm_value_kind unit;
};
static const struct kind of_sizes = {"sizes", "sizes", "least", "below", GM_VALUE_BYTES};
static const struct kind of_lives = {"lifetimes", "lifetimes", "least_ns", "below_ns", GM_VALUE_NS};

static struct gm_value share(uint64_t part, uint64_t whole)
{
	return whole ? GM_PPM((uint64_t)((unsigned __int128)part * 1000000 / whole)) : GM_NONE;
}

/* A bar for `part`, where `most` has `width` columns; rounded up. The caller frees. */
static char *bar_make(uint64_t part, uint64_t most, unsigned width)
{
	const unsigned n =
		most ? (unsigned)(((unsigned __int128)part * width + most - 1) / most) : 0;
	char *text = calloc(1, n + 1);
	if (!text) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
	memset(text, '#', n);
	return text;
}

/* A run of empty bins is one row, "...". */
static void bins_text(struct gm_emit *emit, const struct kind *kind, const struct gm_bin bins[BINS])
{
	const struct gm_column columns[] = {
		{NULL, kind->title, GM_COLUMN_LEFT},
		{NULL, "blocks", 0},
		{NULL, "share", 0},
		{NULL, "bytes", 0},
		{NULL, "share", 0},
		{NULL, "blocks", GM_COLUMN_LEFT},
	};
	const struct gm_bin sum = gm_bins_sum(bins);
	const unsigned width = emit->options->width > BEFORE_BAR + BAR_LEAST
				       ? emit->options->width - BEFORE_BAR
				       : BAR_LEAST;
	unsigned first = 0, last = 0;
	uint64_t most = 0;
	if (!gm_bins_span(bins, &first, &last))
		return;
	for (unsigned i = first; i <= last; i++)
		most = bins[i].blocks > most ? bins[i].blocks : most;
	gm_emit_break(emit);
	gm_emit_table(emit, NULL, true, columns, sizeof columns / sizeof *columns);
	for (unsigned i = first; i <= last; i++) {
		char least[32], name[48], *bar;
		if (!bins[i].blocks && !bins[i - 1].blocks)
			continue;
		bar = bar_make(bins[i].blocks, most, width);
		gm_value_format((struct gm_value){kind->unit, gm_bins_least(i), NULL},
				emit->options->unit, least, sizeof least);
		snprintf(name, sizeof name,
			 !bins[i].blocks ? "..."
			 : i		 ? "%s and more"
					 : "%s",
			 least);
		gm_emit_row(emit, NULL,
			    (struct gm_value[]){GM_TEXT(name), GM_COUNT(bins[i].blocks),
						share(bins[i].blocks, sum.blocks),
						GM_BYTES(bins[i].bytes),
						share(bins[i].bytes, sum.bytes), GM_TEXT(bar)});
		free(bar);
	}
	gm_emit_row(emit, NULL,
		    (struct gm_value[]){GM_TEXT("all"), GM_COUNT(sum.blocks), GM_NONE,
					GM_BYTES(sum.bytes), GM_NONE, GM_TEXT("")});
	gm_emit_table_end(emit);
}

static void bins_json(struct gm_emit *emit, const struct kind *kind, const struct gm_bin bins[BINS])
{
	const struct gm_column columns[] = {
		{kind->least, NULL, 0},
		{kind->below, NULL, 0},
		{"blocks", NULL, 0},
		{"bytes", NULL, 0},
	};
	gm_emit_table(emit, kind->key, false, columns, sizeof columns / sizeof *columns);
	for (unsigned i = 0; i < BINS; i++)
		if (bins[i].blocks)
			gm_emit_row(emit, NULL,
				    (struct gm_value[]){
					    GM_COUNT(gm_bins_least(i)),
					    i + 1 < BINS ? GM_COUNT(gm_bins_least(i + 1)) : GM_NONE,
					    GM_COUNT(bins[i].blocks), GM_COUNT(bins[i].bytes)});
	gm_emit_table_end(emit);
}

static void bin_json(struct gm_emit *emit, const char *key, const struct gm_bin *bin)
{
	gm_emit_object(emit, key);
	gm_emit_value(emit, "blocks", GM_COUNT(bin->blocks));
	gm_emit_value(emit, "bytes", GM_BYTES(bin->bytes));
	gm_emit_end(emit);
}

static void bin_text(struct gm_emit *emit, const char *label, const struct gm_bin *bin,
		     const char *why)
{
	char count[32], bytes[32];
	if (bin->blocks)
		gm_emit_line(emit, label, "%s block%s, %s%s",
			     gm_tool_count(bin->blocks, count, sizeof count),
			     bin->blocks == 1 ? "" : "s",
			     gm_value_format(GM_BYTES(bin->bytes), emit->options->unit, bytes,
					     sizeof bytes),
			     why);
}

static void log_show(struct gm_emit *emit, const struct gm_figures *f)
{
	struct gm_bins hist = {0};
	const int device = emit->options->device;
	gm_bins_read(&hist, f->file, device, GM_LEVEL_BLOCKS);
	gm_emit_object(emit, NULL);
	gm_logs_head(emit, f);
	gm_emit_value(emit, "device", device < 0 ? GM_NONE : GM_INT(device));
	if (device >= 0)
		gm_emit_line(emit, "device", "%d", device);
	if (emit->options->json) {
		bins_json(emit, &of_sizes, hist.sizes);
		bins_json(emit, &of_lives, hist.lives);
	} else if (gm_bins_sum(hist.sizes).blocks == 0) {
		gm_emit_line(emit, "sizes", "no allocation succeeded");
	} else {
		bins_text(emit, &of_sizes, hist.sizes);
		bins_text(emit, &of_lives, hist.lives);
		gm_emit_break(emit);
	}
	bin_json(emit, "never_freed", &hist.kept);
	bin_json(emit, "unknown", &hist.unknown);
	bin_text(emit, f->about->closed ? "never freed" : "not freed", &hist.kept, "");
	bin_text(emit, "unknown", &hist.unknown, ", freed; their allocation is not in the log");
	gm_emit_end(emit);
}

int gm_hist_main(const struct gm_command *self, int argc, char **argv)
{
	return gm_logs_main(self, argc, argv, GM_LOGS_EVENTS, NULL, log_show);
}
