/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "tools/diff/diff.h"

/* One table for each kind of value. */
static const struct table {
	const char *title;
	enum gm_value_kind kind;
} tables[] = {
	{"memory", GM_VALUE_BYTES},
	{"calls", GM_VALUE_COUNT},
	{"time", GM_VALUE_NS},
	{"ratios", GM_VALUE_PPM},
};
enum { TABLES = sizeof tables / sizeof *tables };

/* Counters that tell a reader something by themselves. */
static const char *const titles[GM_COUNTER_COUNT] = {
	[GM_C_requested_peak] = "blocks, at the peak",
	[GM_C_tensor_peak] = "tensors, at the peak",
	[GM_C_mapped_peak] = "the pool, at the peak",
	[GM_C_foreign_peak] = "outside of it, at the peak",
	[GM_C_heap_mapped_peak] = "heaps of kernels, at the peak",
	[GM_C_foreign_host_peak] = "pinned host memory, at the peak",
	[GM_C_requested] = "blocks, at the end",
	[GM_C_tensor_bytes] = "tensors, at the end",
	[GM_C_allocate_bytes] = "allocated in total",
	[GM_C_allocate_calls] = "allocations",
	[GM_C_allocate_failed] = "failed allocations",
	[GM_C_refused_calls] = "other calls that lacked memory",
	[GM_C_heap_nulls] = "failed mallocs in kernels",
	[GM_C_free_calls] = "frees",
	[GM_C_live_blocks] = "blocks, at the end",
	[GM_C_tensor_calls] = "tensors",
	[GM_C_map_calls] = "chunks of memory mapped",
	[GM_C_bounds_refused] = "copies out of bounds",
	[GM_C_sleeps] = "sleeps",
	[GM_C_allocate_ns] = "in allocations",
	[GM_C_free_ns] = "in frees",
	[GM_C_map_ns] = "mapping memory",
	[GM_C_fence_ns] = "waiting for the GPU",
	[GM_C_external_peak] = "fragmentation, at most",
};

/* True for counters of the log itself: they differ between two runs of the same program. */
static bool counter_is_of_log(enum gm_counter c)
{
	static const enum gm_counter of_log[] = {GM_C_log_records, GM_C_samples, GM_C_sampled_ns,
						 GM_C_stacks};
	for (size_t i = 0; i < sizeof of_log / sizeof *of_log; i++)
		if (of_log[i] == c)
			return true;
	return false;
}

static enum gm_value_kind counter_kind(enum gm_counter c)
{
	const struct gm_counter_info *info = &gm_counter_table[c];
	if (counter_is_of_log(c))
		return GM_VALUE_NONE;
	/* Clock times and sums over time are not comparable between runs. */
	if (info->kind == GM_KIND_INTEGRAL ||
	    (info->kind == GM_KIND_GAUGE && info->unit == GM_UNIT_NS))
		return GM_VALUE_NONE;
	return gm_logs_counter_kind(c);
}

uint64_t gm_diff_counter(const struct gm_diff_run *run, enum gm_counter c)
{
	const struct gm_counter_info *info = &gm_counter_table[c];
	const bool highest = info->kind == GM_KIND_PEAK && info->unit != GM_UNIT_BYTES;
	uint64_t value = 0;
	for (size_t i = 0; i < run->n; i++) {
		const struct gm_figures *f = &run->logs[i].figures;
		const unsigned devices = info->scope == GM_SCOPE_PROCESS ? 1 : f->n_devices;
		for (unsigned d = 0; d < devices; d++) {
			const uint64_t one = gm_figures_device(f, d, c);
			value = highest ? (one > value ? one : value) : value + one;
		}
	}
	return value;
}

uint64_t gm_diff_length(const struct gm_diff_run *run)
{
	uint64_t longest = 0;
	for (size_t i = 0; i < run->n; i++) {
		const uint64_t length = gm_figures_length(&run->logs[i].figures);
		longest = length > longest ? length : longest;
	}
	return longest;
}

static uint64_t row_change(const struct gm_diff_row *row)
{
	return row->new > row->old ? row->new - row->old : row->old - row->new;
}

/* Order: the kinds of `tables`, then the largest difference first. */
static int row_compare(const void *a, const void *b)
{
	const struct gm_diff_row *x = a, *y = b;
	unsigned i = 0, j = 0;
	while (tables[i].kind != x->kind)
		i++;
	while (tables[j].kind != y->kind)
		j++;
	if (i != j)
		return i < j ? -1 : 1;
	if (row_change(x) != row_change(y))
		return row_change(x) > row_change(y) ? -1 : 1;
	return strcmp(x->name, y->name);
}

/* The counters that differ, in the order of the output. Returns their number. */
static size_t rows_make(struct gm_diff_row rows[GM_COUNTER_COUNT + 1],
			const struct gm_diff_run *old, const struct gm_diff_run *new)
{
	size_t n = 0;
	for (unsigned c = 0; c < GM_COUNTER_COUNT; c++) {
		const enum gm_counter counter = (enum gm_counter)c;
		rows[n] = (struct gm_diff_row){gm_counter_table[c].name, titles[c],
					       counter_kind(counter), gm_diff_counter(old, counter),
					       gm_diff_counter(new, counter)};
		n += rows[n].kind != GM_VALUE_NONE && rows[n].old != rows[n].new;
	}
	rows[n] = (struct gm_diff_row){"length", "length of the run", GM_VALUE_NS,
				       gm_diff_length(old), gm_diff_length(new)};
	n += rows[n].old != rows[n].new;
	qsort(rows, n, sizeof *rows, row_compare);
	return n;
}

char *gm_diff_ratio(const struct gm_diff_row *row, char *buf, size_t n)
{
	const double share = row->old ? (double)row->new / (double)row->old - 1 : 0;
	if (!row->old)
		snprintf(buf, n, "new");
	else if (!row->new)
		snprintf(buf, n, "gone");
	else if (share >= 9)
		snprintf(buf, n, "x%.0f", share + 1);
	else
		snprintf(buf, n, "%+.1f%%", 100 * share);
	return buf;
}

char *gm_diff_change(const struct gm_emit *emit, enum gm_value_kind kind, int64_t change, char *buf,
		     size_t n)
{
	char size[32];
	const uint64_t value = change < 0 ? -(uint64_t)change : (uint64_t)change;
	gm_value_format((struct gm_value){kind, value, NULL}, emit->options->unit, size,
			sizeof size);
	snprintf(buf, n, "%s%s", change < 0 ? "-" : change > 0 ? "+" : "", size);
	return buf;
}

static void rows_text(struct gm_emit *emit, const struct gm_diff_row *rows, size_t n,
		      const char *title)
{
	const struct gm_column columns[] = {
		{NULL, title, GM_COLUMN_LEFT}, {NULL, "old", 0}, {NULL, "new", 0},
		{NULL, "change", 0},	       {NULL, "", 0},
	};
	gm_emit_break(emit);
	gm_emit_table(emit, NULL, false, columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; i < n; i++) {
		const struct gm_diff_row *row = &rows[i];
		char change[40], ratio[32];
		gm_diff_change(emit, row->kind, (int64_t)(row->new - row->old), change,
			       sizeof change);
		gm_emit_row(emit, NULL,
			    (struct gm_value[]){
				    GM_TEXT(emit->options->verbose ? row->name : row->title),
				    {row->kind, row->old, NULL},
				    {row->kind, row->new, NULL},
				    GM_TEXT(change),
				    GM_TEXT(gm_diff_ratio(row, ratio, sizeof ratio))});
	}
	gm_emit_table_end(emit);
}

static void rows_json(struct gm_emit *emit, const struct gm_diff_row *rows, size_t n)
{
	static const struct gm_column columns[] = {{"old", NULL, 0}, {"new", NULL, 0}};
	gm_emit_table(emit, "counters", true, columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; i < n; i++)
		gm_emit_row(emit, rows[i].name,
			    (struct gm_value[]){{rows[i].kind, rows[i].old, NULL},
						{rows[i].kind, rows[i].new, NULL}});
	gm_emit_table_end(emit);
}

/* Keep those with a title. */
static size_t rows_choose(struct gm_diff_row *rows, size_t n)
{
	size_t to = 0;
	for (size_t i = 0; i < n; i++)
		if (rows[i].title)
			rows[to++] = rows[i];
	return to;
}

static void rows_show(struct gm_emit *emit, struct gm_diff_row *rows, size_t all)
{
	const size_t n = emit->options->verbose ? all : rows_choose(rows, all);
	for (size_t t = 0, i = 0; t < TABLES; t++) {
		size_t of_kind = 0;
		while (i + of_kind < n && rows[i + of_kind].kind == tables[t].kind)
			of_kind++;
		if (of_kind)
			rows_text(emit, rows + i, of_kind, tables[t].title);
		i += of_kind;
	}
	if (n < all || all == 0)
		gm_emit_break(emit);
	if (n < all)
		gm_emit_line(emit, "counters", "%zu%s differ%s: -v", all - n, n ? " more" : "",
			     all - n == 1 ? "s" : "");
	else if (all == 0)
		gm_emit_line(emit, "counters", "all as before");
}

void gm_diff_show_counters(struct gm_emit *emit, const struct gm_diff_run *old,
			   const struct gm_diff_run *new)
{
	struct gm_diff_row *rows = calloc(GM_COUNTER_COUNT + 1, sizeof *rows);
	if (!rows) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
	const size_t n = rows_make(rows, old, new);
	if (emit->options->json)
		rows_json(emit, rows, n);
	else
		rows_show(emit, rows, n);
	free(rows);
}
