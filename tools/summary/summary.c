/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/summary/summary.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/finding/findings.h"

/* The figures for the comparison of several logs. */
static uint64_t figure_mapped(const struct gm_figures *f)
{
	return gm_figures_sum(f, GM_C_mapped_peak);
}

static uint64_t figure_calls(const struct gm_figures *f)
{
	return gm_figures_sum(f, GM_C_allocate_calls);
}

static uint64_t figure_driver(const struct gm_figures *f)
{
	return gm_figures_sum(f, GM_C_allocate_driver);
}

static uint64_t figure_failed(const struct gm_figures *f)
{
	return gm_figures_sum(f, GM_C_allocate_failed) + gm_figures_sum(f, GM_C_refused_calls);
}

static const struct figure {
	const char *key, *title;
	uint64_t (*of)(const struct gm_figures *figures);
	enum gm_value_kind kind;
} figures[] = {
	{"requested", "peak requested", gm_figures_requested_peak, GM_VALUE_BYTES},
	{"mapped", "peak mapped", figure_mapped, GM_VALUE_BYTES},
	{"calls", "allocations", figure_calls, GM_VALUE_COUNT},
	{"driver", "of these, driver", figure_driver, GM_VALUE_COUNT},
	{"failed", "failed", figure_failed, GM_VALUE_COUNT},
	{"length_ns", "length", gm_figures_length, GM_VALUE_NS},
};
enum { FIGURES = sizeof figures / sizeof *figures };

/* For the qsort in progress; the program has one thread. */
static const char *sort_key;

static int log_compare(const void *a, const void *b)
{
	const struct gm_logs_one *x = a, *y = b;
	const struct gm_log_about *p = x->figures.about, *q = y->figures.about;
	int order = 0;
	if (strcmp(sort_key, "program") == 0)
		order = strcmp(p->program, q->program);
	else if (strcmp(sort_key, "start") == 0)
		order = (p->start_wall > q->start_wall) - (p->start_wall < q->start_wall);
	for (size_t i = 0; i < FIGURES; i++)
		if (strcmp(sort_key, figures[i].key) == 0) {
			uint64_t m = figures[i].of(&x->figures), n = figures[i].of(&y->figures);
			order = (m < n) - (m > n); /* the largest first */
		}
	if (order == 0)
		order = (p->rank > q->rank) - (p->rank < q->rank);
	return order ? order : strcmp(p->path, q->path);
}

static int value_compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static void across_show(struct gm_emit *emit, const struct gm_logs_one *logs, size_t n)
{
	static const struct gm_column columns[] = {
		{"name", "across logs", GM_COLUMN_LEFT | GM_COLUMN_TEXT_ONLY},
		{"min", "min", 0},
		{"median", "median", 0},
		{"max", "max", 0},
	};
	uint64_t *values = calloc(n + 1, sizeof *values);
	gm_emit_table(emit, "across", true, columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; values && i < FIGURES; i++) {
		enum gm_value_kind kind = figures[i].kind;
		for (size_t j = 0; j < n; j++)
			values[j] = figures[i].of(&logs[j].figures);
		qsort(values, n, sizeof *values, value_compare);
		uint64_t low = values[(n - 1) / 2], high = values[n / 2];
		gm_emit_row(emit, figures[i].key,
			    (struct gm_value[]){GM_TEXT(figures[i].title),
						{kind, values[0], NULL},
						{kind, low + (high - low) / 2, NULL},
						{kind, values[n - 1], NULL}});
	}
	gm_emit_table_end(emit);
	free(values);
}

/* GM_COLUMN_JSON_ONLY, unless the logs are sorted by this key. */
static unsigned column_of_sort(const struct gm_emit *emit, const char *key)
{
	const char *sort = emit->options->sort;
	return sort && strcmp(sort, key) == 0 ? 0 : GM_COLUMN_JSON_ONLY;
}

static void wall_text(uint64_t wall, char *buf, size_t n)
{
	const time_t seconds = (time_t)(wall / 1000000000u);
	struct tm parts;
	if (!localtime_r(&seconds, &parts) || !strftime(buf, n, "%m-%d %H:%M:%S", &parts))
		snprintf(buf, n, "?");
}

/* One line a log. JSON has each log in full instead. */
static void lines_show(struct gm_emit *emit, const struct gm_logs_one *logs, size_t n)
{
	/* The sort key is always shown. */
	const struct gm_column columns[] = {
		{"rank", "rank", 0},
		{"program", "program", GM_COLUMN_LEFT | column_of_sort(emit, "program")},
		{"start", "start", GM_COLUMN_LEFT | column_of_sort(emit, "start")},
		{"requested", "requested", 0},
		{"mapped", "mapped", 0},
		{"calls", "calls", 0},
		{"driver", "driver", 0},
		{"failed", "failed", 0},
		{"log", "log", GM_COLUMN_LEFT | GM_COLUMN_WRAP},
	};
	char(*names)[512] = calloc(n, sizeof *names);
	char start[32];
	gm_emit_table(emit, NULL, false, columns, sizeof columns / sizeof *columns);
	for (size_t i = 0; names && i < n; i++) {
		const struct gm_figures *f = &logs[i].figures;
		const bool closed = f->about->closed, refused = f->refusals.n > 0;
		snprintf(names[i], sizeof *names, "%s%s%s%s%s%s", gm_figures_name(f),
			 closed && !refused ? "" : " (", closed ? "" : gm_figures_end(f),
			 !closed && refused ? "; " : "", refused ? "out of memory" : "",
			 closed && !refused ? "" : ")");
		wall_text(f->about->start_wall, start, sizeof start);
		gm_emit_row(
			emit, NULL,
			(struct gm_value[]){f->about->rank < 0 ? GM_NONE : GM_INT(f->about->rank),
					    GM_TEXT(f->about->program), GM_TEXT(start),
					    GM_BYTES(gm_figures_requested_peak(f)),
					    GM_BYTES(figure_mapped(f)), GM_COUNT(figure_calls(f)),
					    GM_COUNT(figure_driver(f)), GM_COUNT(figure_failed(f)),
					    GM_TEXT(names[i])});
	}
	gm_emit_table_end(emit);
	free(names);
}

/* Text: a line a log, then minimum, median and maximum. JSON: "across". */
static void comparison_show(struct gm_emit *emit, struct gm_logs_one *logs, size_t n)
{
	size_t most = 0;
	for (size_t i = 1; i < n; i++)
		if (figure_mapped(&logs[i].figures) > figure_mapped(&logs[most].figures))
			most = i;
	if (!emit->options->json)
		lines_show(emit, logs, n);
	gm_emit_break(emit);
	across_show(emit, logs, n);
	gm_emit_break(emit);
	gm_findings_show_many(emit, logs, n);
	gm_emit_line(emit, "next", "gpumemstat %s, the one with the most mapped",
		     logs[most].figures.about->path);
}

static void logs_show(struct gm_emit *emit, struct gm_logs_one *logs, size_t n)
{
	sort_key = emit->options->sort;
	if (sort_key)
		qsort(logs, n, sizeof *logs, log_compare);
	gm_emit_list(emit, "logs");
	for (size_t i = 0; i < n && (n == 1 || emit->options->json); i++) {
		gm_emit_object(emit, NULL);
		gm_summary_one(emit, &logs[i]);
		gm_emit_end(emit);
	}
	gm_emit_end(emit);
	if (n > 1)
		comparison_show(emit, logs, n);
}

int gm_summary_main(const struct gm_command *self, int argc, char **argv)
{
	struct gm_options options;
	int first = gm_options_parse(&options, self, argc, argv);
	if (first == GM_OPTIONS_STOP)
		return options.status;
	options.named = first < argc;
	return gm_logs_run(&options, argv + first, (size_t)(argc - first), logs_show);
}
