/* SPDX-License-Identifier: BSD-3-Clause */
/* gpumemstat report: one page of HTML about runs; tools/report/ has the page without its data. */
#include "tools/report/report.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Points of all timelines of a page together, and the minimum of one timeline. */
enum { POINTS_MOST = 65536, POINTS_LEAST = 1024 };

/* The page (page.S). The data replaces this mark in it. */
extern const char gm_report_page[], gm_report_page_end[];
static const char mark[] = "@DATA@";

static size_t points_each(const struct gm_logs *logs)
{
	size_t n = 0;
	for (size_t i = 0; i < logs->n; i++)
		for (unsigned d = 0; d < logs->at[i].figures.n_devices; d++)
			n += logs->at[i].figures.devices[d].used;
	const size_t each = POINTS_MOST / (n ? n : 1);
	return each < POINTS_LEAST ? POINTS_LEAST : each;
}

static void data_write(struct gm_emit *emit, struct gm_logs *logs)
{
	const char unit[] = {emit->options->unit, '\0'};
	gm_emit_value(emit, "unit", *unit ? GM_TEXT(unit) : GM_NONE);
	gm_report_counters_show(emit);
	gm_emit_list(emit, "logs");
	for (size_t i = 0; i < logs->n; i++) {
		gm_emit_object(emit, NULL);
		gm_report_log_show(emit, &logs->at[i], points_each(logs));
		gm_emit_end(emit);
	}
	gm_emit_end(emit);
}

static void page_write(FILE *out, struct gm_logs *logs, const struct gm_options *options)
{
	struct gm_options json = *options;
	struct gm_emit emit;
	const size_t n = (size_t)(gm_report_page_end - gm_report_page);
	const char *at = memmem(gm_report_page, n, mark, sizeof mark - 1);
	const char *rest = at + sizeof mark - 1;
	json.json = true;
	fwrite(gm_report_page, 1, (size_t)(at - gm_report_page), out);
	gm_emit_open_page(&emit, out, &json);
	data_write(&emit, logs);
	gm_emit_close(&emit);
	fwrite(rest, 1, (size_t)(gm_report_page_end - rest), out);
}

/* The page, or its data alone; the caller frees. */
static char *text_make(struct gm_logs *logs, const struct gm_options *options, size_t *n)
{
	char *text = NULL;
	struct gm_emit emit;
	FILE *out = open_memstream(&text, n);
	if (out && options->json) {
		gm_emit_open(&emit, out, options);
		data_write(&emit, logs);
		gm_emit_close(&emit);
	} else if (out) {
		page_write(out, logs, options);
	}
	if (!out || ferror(out) | fclose(out)) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
	return text;
}

/* --- the file --- */

/* The log's name in this folder, with .html in place of .gml. */
static const char *name_default(const struct gm_logs *logs, char *buf, size_t n)
{
	const char *log = gm_figures_name(&logs->at[0].figures);
	const size_t length = strlen(log);
	const bool ends = length > 4 && strcmp(log + length - 4, ".gml") == 0;
	snprintf(buf, n, "%.*s.html", (int)(length - (ends ? 4 : 0)), log);
	return buf;
}

static bool file_is_log(const char *name, const struct gm_logs *logs)
{
	struct stat file, log;
	for (size_t i = 0; stat(name, &file) == 0 && i < logs->n; i++)
		if (stat(logs->at[i].figures.about->path, &log) == 0 && file.st_dev == log.st_dev &&
		    file.st_ino == log.st_ino)
			return true;
	return false;
}

/* False, after a message: no file, or an incomplete one. */
static bool file_write(const char *name, const struct gm_logs *logs, const char *text, size_t n)
{
	if (file_is_log(name, logs)) {
		gm_tool_error("%s: a log, which the report would overwrite", name);
		return false;
	}
	FILE *out = fopen(name, "we");
	int error = !out || fwrite(text, 1, n, out) != n ? errno : 0;
	if (out && fclose(out) != 0 && !error)
		error = errno;
	if (error)
		gm_tool_error("%s: %s", name, strerror(error));
	return !error;
}

static bool standard_write(const char *text, size_t n)
{
	if (fwrite(text, 1, n, stdout) == n)
		return true;
	gm_tool_error("standard output: %s", strerror(errno));
	clearerr(stdout);
	return false;
}

/* Write the report to the file of -o. Default: a page to a file named after the log, JSON to
 * standard output; `-o -` is standard output. */
static int report_write(struct gm_logs *logs, const struct gm_options *options)
{
	char buf[NAME_MAX + sizeof ".html"], size[32];
	const char *const name = options->file	 ? options->file
				 : options->json ? "-"
						 : name_default(logs, buf, sizeof buf);
	struct gm_options lines = *options;
	struct gm_emit emit;
	size_t n = 0;
	char *text = text_make(logs, options, &n);
	const bool standard = strcmp(name, "-") == 0;
	const bool written = standard ? standard_write(text, n) : file_write(name, logs, text, n);
	free(text);
	if (standard || !written)
		return written ? gm_tool_flush() : GM_EXIT_FAILED;
	lines.json = false;
	gm_emit_open(&emit, stdout, &lines);
	gm_emit_line(&emit, "report", "%s: %s%s", name,
		     gm_value_format(GM_BYTES(n), options->unit, size, sizeof size),
		     options->json ? "" : ", to be opened in a browser");
	return gm_emit_close(&emit);
}

int gm_report_main(const struct gm_command *self, int argc, char **argv)
{
	struct gm_options options;
	struct gm_logs logs;
	int first = gm_options_parse(&options, self, argc, argv);
	if (first == GM_OPTIONS_STOP)
		return options.status;
	int status = gm_logs_open(&logs, &options, argv + first, (size_t)(argc - first));
	if (logs.n > 0)
		status |= report_write(&logs, &options);
	return status | gm_logs_close(&logs);
}
