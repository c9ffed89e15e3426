/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/logs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "tools/log/find.h"
#include "tools/log/process.h"

bool gm_logs_suits(struct gm_logs_one *log, enum gm_logs_need need, int device)
{
	const struct gm_log_about *about = log->figures.about;
	*log->why = '\0';
	if (need == GM_LOGS_EVENTS && strcmp(about->level, "events") != 0)
		snprintf(log->why, sizeof log->why,
			 "a log without events: gpumemstat record makes one with them");
	else if (device >= 0 && (unsigned)device >= about->n_devices)
		snprintf(log->why, sizeof log->why, "--device=%d: the log has %u device%s", device,
			 about->n_devices, about->n_devices == 1 ? "" : "s");
	return !*log->why;
}

/* An operand that is no file, and the number of a process: why that has no log. */
static void process_explain(struct gm_logs_one *log, const char *operand)
{
	struct gm_process process;
	int pid;
	if (access(operand, F_OK) == 0 || !gm_process_parse(operand, &pid))
		return;
	snprintf(log->why, sizeof log->why, "%s",
		 gm_process_find(pid, &process)
			 ? "this process writes no log: 'gpumemstat log PID events' begins one"
			 : gm_process_why(pid));
}

static bool log_open(struct gm_logs_one *log, const char *path, enum gm_logs_need need, int device)
{
	if (!gm_figures_open(&log->figures, path, log->why, sizeof log->why)) {
		process_explain(log, path);
		return false;
	}
	if (gm_logs_suits(log, need, device))
		return true;
	gm_figures_close(&log->figures);
	return false;
}

/* Add the recording of a process, or else its log. False: the operand names no such process. */
static bool process_add(struct gm_find *found, const char *operand)
{
	struct gm_process process;
	int pid;
	if (access(operand, F_OK) == 0 || !gm_process_parse(operand, &pid) ||
	    !gm_process_find(pid, &process))
		return false;
	const char *path = *process.recording ? process.recording : process.log;
	if (*path)
		gm_find_add(found, gm_find_from_here(path));
	return *path;
}

/* Add the files of an operand: the file, or the newest run with this name or in this folder, or
 * what a process writes. */
static void operand_add(struct gm_find *found, const char *operand)
{
	char glob[2 * PATH_MAX];
	size_t before = found->paths.n;
	if (gm_find_in_folder(found, operand) || process_add(found, operand))
		return;
	if (!gm_find_is_name(operand) || !gm_find_glob(operand, glob, sizeof glob)) {
		gm_find_add(found, operand);
		return;
	}
	gm_find_newest_run(found, glob);
	if (found->paths.n == before)
		gm_find_add(found, operand); /* opening it gives the message */
}

bool gm_logs_find(struct gm_find *found, char *const *names, size_t n)
{
	*found = (struct gm_find){0};
	for (size_t i = 0; i < n; i++)
		operand_add(found, names[i]);
	if (n == 0)
		gm_find_newest_run(found, GM_FIND_DEFAULT_GLOB);
	if (found->paths.n == 0)
		gm_tool_error("no log *.gml here: 'gpumemstat record COMMAND' makes one");
	return found->paths.n > 0;
}

static int logs_open(struct gm_logs *out, const struct gm_options *options, char *const *names,
		     size_t n, enum gm_logs_need need)
{
	struct gm_find found;
	*out = (struct gm_logs){0};
	gm_logs_find(&found, names, n);
	out->at = calloc(found.paths.n + 1, sizeof *out->at);
	if (!out->at) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
	for (size_t i = 0; i < found.paths.n; i++) {
		struct gm_logs_one *log = &out->at[out->n];
		if (!log_open(log, found.paths.at[i], need, options->device)) {
			gm_tool_error("%s: %s", gm_tool_name(found.paths.at[i]), log->why);
			continue;
		}
		log->contradicts = !gm_log_read_check(log->figures.file, log->why, sizeof log->why);
		out->n++;
	}
	const bool all = found.paths.n > 0 && out->n == found.paths.n;
	gm_find_free(&found);
	return all ? GM_EXIT_OK : GM_EXIT_FAILED;
}

int gm_logs_open(struct gm_logs *out, const struct gm_options *options, char *const *names,
		 size_t n)
{
	return logs_open(out, options, names, n, GM_LOGS_ANY);
}

int gm_logs_close(struct gm_logs *logs)
{
	int status = GM_EXIT_OK;
	for (size_t i = 0; i < logs->n; i++) {
		struct gm_logs_one *log = &logs->at[i];
		if (log->contradicts) {
			gm_tool_error("%s: %s%s", log->figures.about->path,
				      *log->figures.about->damage ? "" : "contradicts itself: ",
				      log->why);
			status = GM_EXIT_FAILED;
		}
		gm_figures_close(&log->figures);
	}
	free(logs->at);
	return status;
}

static void logs_show_each(struct gm_emit *emit, const struct gm_logs_one *logs, size_t n,
			   void (*show)(struct gm_emit *emit, const struct gm_figures *figures))
{
	gm_emit_list(emit, "logs");
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			gm_emit_break(emit);
		show(emit, &logs[i].figures);
	}
	gm_emit_end(emit);
}

int gm_logs_run(const struct gm_options *options, char *const *names, size_t n,
		void (*show)(struct gm_emit *emit, struct gm_logs_one *logs, size_t n))
{
	struct gm_logs logs;
	struct gm_emit emit;
	int status = gm_logs_open(&logs, options, names, n);
	if (logs.n > 0) {
		gm_emit_open(&emit, stdout, options);
		show(&emit, logs.at, logs.n);
		status |= gm_emit_close(&emit);
	}
	return status | gm_logs_close(&logs);
}

int gm_logs_main(const struct gm_command *self, int argc, char **argv, enum gm_logs_need need,
		 const char *(*wrong)(const struct gm_options *options),
		 void (*show)(struct gm_emit *emit, const struct gm_figures *figures))
{
	struct gm_options options;
	struct gm_logs logs;
	struct gm_emit emit;
	int first = gm_options_parse(&options, self, argc, argv);
	if (first == GM_OPTIONS_STOP)
		return options.status;
	const char *why = wrong ? wrong(&options) : NULL;
	if (why)
		return gm_tool_usage(self->name, "%s", why);
	int status = logs_open(&logs, &options, argv + first, (size_t)(argc - first), need);
	if (logs.n > 0) {
		gm_emit_open(&emit, stdout, &options);
		logs_show_each(&emit, logs.at, logs.n, show);
		status |= gm_emit_close(&emit);
	}
	return status | gm_logs_close(&logs);
}

enum gm_value_kind gm_logs_counter_kind(enum gm_counter counter)
{
	static const enum gm_value_kind kinds[] = {
		[GM_UNIT_COUNT] = GM_VALUE_COUNT,
		[GM_UNIT_BYTES] = GM_VALUE_BYTES,
		[GM_UNIT_NS] = GM_VALUE_NS,
		[GM_UNIT_PPM] = GM_VALUE_PPM,
		[GM_UNIT_BYTES_SECONDS] = GM_VALUE_COUNT,
		[GM_UNIT_PPM_SECONDS] = GM_VALUE_COUNT,
	};
	return kinds[gm_counter_table[counter].unit];
}

void gm_logs_head(struct gm_emit *emit, const struct gm_figures *f)
{
	char length[32];
	gm_emit_value(emit, "path", GM_TEXT(f->about->path));
	gm_emit_value(emit, "program", GM_TEXT(f->about->program));
	gm_emit_value(emit, "rank", f->about->rank < 0 ? GM_NONE : GM_INT(f->about->rank));
	gm_emit_value(emit, "length_ns", GM_NS(gm_figures_length(f)));
	gm_emit_line(emit, "log", "%s: %s, %s, %s", f->about->path, gm_figures_program(f),
		     gm_time_format(gm_figures_length(f), length, sizeof length),
		     gm_figures_end(f));
}
