/* SPDX-License-Identifier: BSD-3-Clause */
/* gpumemstat diff: changes of counters and findings from one run to another, and a verdict. */
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tools/finding/findings.h"
#include "tools/log/logs.h"
#include "tools/output/emit.h"

/* A counter of both runs, over all devices and logs. */
struct row {
	const char *name;
	enum gm_value_kind kind;
	uint64_t old, new;
};

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

struct run {
	struct gm_logs_one *logs;
	size_t n;
};

/* --- counters --- */

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

/* The sum over devices and logs; of shares and longest times the maximum. */
static uint64_t run_counter(const struct run *run, enum gm_counter c)
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

static uint64_t run_length(const struct run *run)
{
	uint64_t longest = 0;
	for (size_t i = 0; i < run->n; i++) {
		const uint64_t length = gm_figures_length(&run->logs[i].figures);
		longest = length > longest ? length : longest;
	}
	return longest;
}

static uint64_t row_change(const struct row *row)
{
	return row->new > row->old ? row->new - row->old : row->old - row->new;
}

/* Order: the kinds of `tables`, then the largest difference first. */
static int row_compare(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
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
static size_t rows_make(struct row rows[GM_COUNTER_COUNT + 1], const struct run *old,
			const struct run *new)
{
	size_t n = 0;
	for (unsigned c = 0; c < GM_COUNTER_COUNT; c++) {
		const enum gm_counter counter = (enum gm_counter)c;
		rows[n] = (struct row){gm_counter_table[c].name, counter_kind(counter),
				       run_counter(old, counter), run_counter(new, counter)};
		n += rows[n].kind != GM_VALUE_NONE && rows[n].old != rows[n].new;
	}
	rows[n] = (struct row){"length", GM_VALUE_NS, run_length(old), run_length(new)};
	n += rows[n].old != rows[n].new;
	qsort(rows, n, sizeof *rows, row_compare);
	return n;
}

/* "+50%", "-3.2%", "x12", "new", "gone" */
static char *ratio_text(const struct row *row, char *buf, size_t n)
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

static void rows_text(struct gm_emit *emit, const struct row *rows, size_t n, const char *title)
{
	const struct gm_column columns[] = {
		{NULL, title, GM_COLUMN_LEFT}, {NULL, "old", 0}, {NULL, "new", 0},
		{NULL, "change", 0},	       {NULL, "", 0},
	};
	gm_emit_break(emit);
	gm_emit_table(emit, NULL, false, columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; i < n; i++) {
		const struct row *row = &rows[i];
		char size[32], change[40], ratio[32];
		gm_value_format((struct gm_value){row->kind, row_change(row), NULL},
				emit->options->unit, size, sizeof size);
		snprintf(change, sizeof change, "%c%s", row->new > row->old ? '+' : '-', size);
		gm_emit_row(emit, NULL,
			    (struct gm_value[]){GM_TEXT(row->name),
						{row->kind, row->old, NULL},
						{row->kind, row->new, NULL},
						GM_TEXT(change),
						GM_TEXT(ratio_text(row, ratio, sizeof ratio))});
	}
	gm_emit_table_end(emit);
}

static void rows_json(struct gm_emit *emit, const struct row *rows, size_t n)
{
	static const struct gm_column columns[] = {{"old", NULL, 0}, {"new", NULL, 0}};
	gm_emit_table(emit, "counters", true, columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; i < n; i++)
		gm_emit_row(emit, rows[i].name,
			    (struct gm_value[]){{rows[i].kind, rows[i].old, NULL},
						{rows[i].kind, rows[i].new, NULL}});
	gm_emit_table_end(emit);
}

static void rows_show(struct gm_emit *emit, const struct row *rows, size_t n)
{
	if (emit->options->json) {
		rows_json(emit, rows, n);
		return;
	}
	if (n == 0)
		gm_emit_line(emit, "counters", "all as before");
	for (size_t t = 0, i = 0; t < TABLES; t++) {
		size_t of_kind = 0;
		while (i + of_kind < n && rows[i + of_kind].kind == tables[t].kind)
			of_kind++;
		if (of_kind)
			rows_text(emit, rows + i, of_kind, tables[t].title);
		i += of_kind;
	}
}

/* --- findings --- */

/* The first finding of each rule in a run. */
struct found {
	bool has[GM_FINDINGS_MOST];
	struct gm_finding of[GM_FINDINGS_MOST]; /* in the order of findings.def */
};

static void found_add(struct found *found, const struct gm_finding *findings, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		const unsigned rule = gm_finding_index(&findings[i]);
		if (!found->has[rule])
			found->of[rule] = findings[i];
		found->has[rule] = true;
	}
}

static void found_make(struct found *found, const struct run *run)
{
	struct gm_finding findings[GM_FINDINGS_MOST];
	*found = (struct found){0};
	found_add(found, findings, gm_findings_of_logs(run->logs, run->n, findings));
	for (size_t i = 0; i < run->n; i++)
		found_add(found, findings, gm_findings_of_log(&run->logs[i].figures, findings));
}

/* Show the findings of `a` that `b` lacks. Returns their number. */
static unsigned found_show(struct gm_emit *emit, const char *label, const struct found *a,
			   const struct found *b)
{
	char text[512];
	unsigned n = 0;
	gm_emit_list(emit, label);
	for (unsigned i = 0; i < GM_FINDINGS_MOST; i++) {
		if (!a->has[i] || b->has[i])
			continue;
		gm_emit_object(emit, NULL);
		gm_emit_value(emit, "rule", GM_TEXT(a->of[i].rule->name));
		gm_emit_value(emit, "text", GM_TEXT(gm_finding_text(&a->of[i], text, sizeof text)));
		gm_emit_end(emit);
		gm_emit_line(emit, n++ ? "" : label, "%s", text);
	}
	gm_emit_end(emit);
	return n;
}

static void findings_show(struct gm_emit *emit, const struct run *old, const struct run *new)
{
	struct found before, after;
	found_make(&before, old);
	found_make(&after, new);
	gm_emit_break(emit);
	gm_emit_object(emit, "findings");
	unsigned n = found_show(emit, "new", &after, &before);
	n += found_show(emit, "gone", &before, &after);
	gm_emit_end(emit);
	if (n == 0)
		gm_emit_line(emit, "findings", "the same");
}

/* --- the verdict --- */

static uint64_t run_peak(const struct run *run)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < run->n; i++)
		sum += gm_figures_requested_peak(&run->logs[i].figures);
	return sum;
}

/* Blocks that leaked, as the finding never_freed counts them. False: not known, because a process
 * did not end, or kept PyTorch's cache. */
static bool run_leaks(const struct run *run, uint64_t *blocks)
{
	bool known = true;
	*blocks = 0;
	for (size_t i = 0; i < run->n; i++) {
		const struct gm_figures *f = &run->logs[i].figures;
		known &= f->about->closed && !gm_figures_process(f, GM_C_torch_cache);
		*blocks += gm_figures_sum(f, GM_C_live_blocks);
	}
	return known;
}

static void verdict_json(struct gm_emit *emit, const char *key, struct gm_value old,
			 struct gm_value new)
{
	gm_emit_object(emit, key);
	gm_emit_value(emit, "old", old);
	gm_emit_value(emit, "new", new);
	gm_emit_end(emit);
}

/* "+24.0%", "as before"; sizes if one of them is 0 */
static char *peak_text(const struct row *peak, char *buf, size_t n)
{
	char old[32], new[32];
	if (peak->old == peak->new)
		snprintf(buf, n, "as before");
	else if (peak->old && peak->new)
		ratio_text(peak, buf, n);
	else
		snprintf(buf, n, "%s (%s before)", gm_size_format(peak->new, new, sizeof new),
			 gm_size_format(peak->old, old, sizeof old));
	return buf;
}

/* Calls of any kind. */
static uint64_t run_refused(const struct run *run)
{
	return run_counter(run, GM_C_allocate_failed) + run_counter(run, GM_C_refused_calls);
}

/* "peak +24.0%, 3 blocks leak (1 before)" */
static void verdict_show(struct gm_emit *emit, const struct run *old, const struct run *new)
{
	const struct row peak = {"", GM_VALUE_BYTES, run_peak(old), run_peak(new)};
	const uint64_t failed = run_refused(new), failed_old = run_refused(old);
	uint64_t leaks, leaks_old;
	const bool known = run_leaks(new, &leaks), known_old = run_leaks(old, &leaks_old);
	char ratio[80], count[32], refused[80] = "", leaking[80], before[48] = "";
	gm_emit_object(emit, "verdict");
	verdict_json(emit, "requested_peak", GM_BYTES(peak.old), GM_BYTES(peak.new));
	verdict_json(emit, "leaked_blocks", known_old ? GM_COUNT(leaks_old) : GM_NONE,
		     known ? GM_COUNT(leaks) : GM_NONE);
	verdict_json(emit, "allocate_failed", GM_COUNT(failed_old), GM_COUNT(failed));
	gm_emit_end(emit);
	snprintf(leaking, sizeof leaking, leaks ? "%s block%s" : "no block leaks",
		 gm_tool_count(leaks, count, sizeof count), leaks == 1 ? " leaks" : "s leak");
	if (known && known_old && leaks != leaks_old)
		snprintf(before, sizeof before, " (%s before)",
			 gm_tool_count(leaks_old, count, sizeof count));
	if (failed)
		snprintf(refused, sizeof refused, ", %s allocation%s failed",
			 gm_tool_count(failed, count, sizeof count), failed == 1 ? "" : "s");
	gm_emit_break(emit);
	gm_emit_line(emit, "verdict", "peak %s, %s%s%s", peak_text(&peak, ratio, sizeof ratio),
		     known ? leaking : "leaks not known", before, refused);
}

/* --- the runs --- */

static void run_show(struct gm_emit *emit, const char *label, const struct run *run)
{
	const struct gm_figures *first = &run->logs[0].figures;
	char more[32] = "", length[32];
	if (run->n > 1)
		snprintf(more, sizeof more, " and %zu more", run->n - 1);
	gm_value_format(GM_NS(run_length(run)), 0, length, sizeof length);
	gm_emit_object(emit, label);
	gm_emit_list(emit, "paths");
	for (size_t i = 0; i < run->n; i++)
		gm_emit_value(emit, NULL, GM_TEXT(run->logs[i].figures.about->path));
	gm_emit_end(emit);
	gm_emit_value(emit, "program", GM_TEXT(first->about->program));
	gm_emit_value(emit, "length_ns", GM_NS(run_length(run)));
	gm_emit_end(emit);
	gm_emit_line(emit, label, "%s%s: %s, %s, %s", first->about->path, more,
		     first->about->program, length, gm_figures_end(first));
}

static void runs_show(struct gm_emit *emit, const struct run *old, const struct run *new)
{
	struct row *rows = calloc(GM_COUNTER_COUNT + 1, sizeof *rows);
	if (!rows) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
	run_show(emit, "old", old);
	run_show(emit, "new", new);
	rows_show(emit, rows, rows_make(rows, old, new));
	findings_show(emit, old, new);
	verdict_show(emit, old, new);
	free(rows);
}

int gm_diff_main(const struct gm_command *self, int argc, char **argv)
{
	struct gm_options options;
	struct gm_emit emit;
	struct gm_logs runs[2];
	int first = gm_options_parse(&options, self, argc, argv);
	if (first == GM_OPTIONS_STOP)
		return options.status;
	if (argc - first > 2)
		return gm_tool_extra(self, argv[first + 2]);
	if (argc - first < 2)
		return gm_tool_usage(self->name, "%s: expected OLD and NEW", self->name);
	int status = gm_logs_open(&runs[0], &options, argv + first, 1) |
		     gm_logs_open(&runs[1], &options, argv + first + 1, 1);
	if (runs[0].n > 0 && runs[1].n > 0) {
		gm_emit_open(&emit, stdout, &options);
		runs_show(&emit, &(struct run){runs[0].at, runs[0].n},
			  &(struct run){runs[1].at, runs[1].n});
		status |= gm_emit_close(&emit);
	}
	status |= gm_logs_close(&runs[0]);
	return status | gm_logs_close(&runs[1]);
}
