/* SPDX-License-Identifier: BSD-3-Clause */
/* gpumemstat hist: how many blocks of which size, and how long they lived, by powers of two. */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "blocks.h"
#include "emit.h"
#include "logs.h"

/* Bin 0 is for 0; bin b for 2^(b-1) and more, below 2^b. */
enum { BINS = 65, BAR_LEAST = 8, BEFORE_BAR = 66 };

struct bin {
	uint64_t blocks, bytes;
};

struct hist {
	struct bin sizes[BINS], lives[BINS];
	struct bin kept; /* never freed */
	struct bin
		unknown; /* freed, but allocated before the log's first record; or not numbered */
};

/* The two tables. */
struct kind {
	const char *key, *title, *least, *below;
	enum gm_value_kind unit;
};
static const struct kind of_sizes = {"sizes", "sizes", "least", "below", GM_VALUE_BYTES};
static const struct kind of_lives = {"lifetimes", "lifetimes", "least_ns", "below_ns", GM_VALUE_NS};

static unsigned bin_of(uint64_t value)
{
	return value ? 64 - (unsigned)__builtin_clzll(value) : 0;
}

static uint64_t bin_least(unsigned bin)
{
	return bin ? 1ull << (bin - 1) : 0;
}

static void bin_count(struct bin *bin, uint64_t bytes)
{
	bin->blocks++;
	bin->bytes += bytes;
}

static void hist_count(struct hist *hist, enum gm_blocks_change change,
		       const struct gm_blocks_one *block, const struct gm_record *r)
{
	if (r->kind == GM_RECORD_ALLOCATE &&
	    (change == GM_BLOCKS_BORN || change == GM_BLOCKS_UNNAMED))
		bin_count(&hist->sizes[bin_of(block->size)], block->size);
	if (change == GM_BLOCKS_GONE && block->born)
		bin_count(&hist->lives[bin_of(r->time > block->born ? r->time - block->born : 0)],
			  block->size);
	else if (change == GM_BLOCKS_GONE || change == GM_BLOCKS_UNBORN)
		bin_count(&hist->unknown, r->size);
}

static void hist_read(struct hist *hist, struct gm_log_file *file, int device)
{
	struct gm_blocks blocks = {0};
	struct gm_blocks_one block;
	struct gm_log_entry entry;
	gm_log_read_rewind(file);
	while (gm_log_read_next(file, &entry)) {
		const enum gm_blocks_change change =
			gm_blocks_follow(&blocks, &entry.record, device, &block);
		if (change != GM_BLOCKS_SAME)
			hist_count(hist, change, &block, &entry.record);
	}
	for (size_t i = 0; i < blocks.room; i++)
		if (blocks.at[i].id)
			bin_count(&hist->kept, blocks.at[i].size);
	gm_blocks_free(&blocks);
}

static struct bin bins_sum(const struct bin bins[BINS])
{
	struct bin sum = {0};
	for (unsigned i = 0; i < BINS; i++) {
		sum.blocks += bins[i].blocks;
		sum.bytes += bins[i].bytes;
	}
	return sum;
}

/* The first and the last bin in use. False: none is. */
static bool bins_span(const struct bin bins[BINS], unsigned *first, unsigned *last)
{
	bool any = false;
	for (unsigned i = 0; i < BINS; i++)
		if (bins[i].blocks) {
			*first = any ? *first : i;
			*last = i;
			any = true;
		}
	return any;
}

static struct gm_value share(uint64_t part, uint64_t whole)
{
	return whole ? GM_PPM((uint64_t)((unsigned __int128)part * 1000000 / whole)) : GM_NONE;
}

/* A bar of `part` of `most`, at least a column for what is not 0. The caller frees. */
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

/* Bins between others that are empty make one row. */
static void bins_text(struct gm_emit *emit, const struct kind *kind, const struct bin bins[BINS])
{
	const struct gm_column columns[] = {
		{NULL, kind->title, GM_COLUMN_LEFT},
		{NULL, "blocks", 0},
		{NULL, "share", 0},
		{NULL, "bytes", 0},
		{NULL, "share", 0},
		{NULL, "blocks", GM_COLUMN_LEFT},
	};
	const struct bin sum = bins_sum(bins);
	const unsigned width = emit->options->width > BEFORE_BAR + BAR_LEAST
				       ? emit->options->width - BEFORE_BAR
				       : BAR_LEAST;
	unsigned first = 0, last = 0;
	uint64_t most = 0;
	if (!bins_span(bins, &first, &last))
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
		gm_value_format((struct gm_value){kind->unit, bin_least(i), NULL},
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

static void bins_json(struct gm_emit *emit, const struct kind *kind, const struct bin bins[BINS])
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
					    GM_COUNT(bin_least(i)),
					    i + 1 < BINS ? GM_COUNT(bin_least(i + 1)) : GM_NONE,
					    GM_COUNT(bins[i].blocks), GM_COUNT(bins[i].bytes)});
	gm_emit_table_end(emit);
}

static void bin_json(struct gm_emit *emit, const char *key, const struct bin *bin)
{
	gm_emit_object(emit, key);
	gm_emit_value(emit, "blocks", GM_COUNT(bin->blocks));
	gm_emit_value(emit, "bytes", GM_BYTES(bin->bytes));
	gm_emit_end(emit);
}

static void bin_text(struct gm_emit *emit, const char *label, const struct bin *bin,
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
	struct hist hist = {0};
	const int device = emit->options->device;
	hist_read(&hist, f->file, device);
	gm_emit_object(emit, NULL);
	gm_logs_head(emit, f);
	gm_emit_value(emit, "device", device < 0 ? GM_NONE : GM_INT(device));
	if (device >= 0)
		gm_emit_line(emit, "device", "%d", device);
	if (emit->options->json) {
		bins_json(emit, &of_sizes, hist.sizes);
		bins_json(emit, &of_lives, hist.lives);
	} else if (bins_sum(hist.sizes).blocks == 0) {
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

static void logs_show(struct gm_emit *emit, struct gm_logs_one *logs, size_t n)
{
	gm_logs_show_each(emit, logs, n, log_show);
}

int gm_hist_main(const struct gm_command *self, int argc, char **argv)
{
	struct gm_options options;
	int first = gm_options_parse(&options, self, argc, argv);
	if (first == GM_OPTIONS_STOP)
		return options.status;
	return gm_logs_run_events(&options, argv + first, (size_t)(argc - first), logs_show);
}
