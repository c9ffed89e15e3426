/* SPDX-License-Identifier: BSD-3-Clause */
#include "logs.h"

#include <stdlib.h>

#include "find.h"

/* Open the logs; unreadable ones are named on stderr. Returns the number opened. */
static size_t logs_open(struct gm_logs_one *logs, char *const *paths, size_t n)
{
	size_t opened = 0;
	for (size_t i = 0; i < n; i++) {
		struct gm_logs_one *log = &logs[opened];
		if (!gm_figures_open(&log->figures, paths[i], log->why, sizeof log->why)) {
			gm_tool_error("%s: %s", gm_tool_name(paths[i]), log->why);
			continue;
		}
		log->contradicts = !gm_log_read_check(log->figures.file, log->why, sizeof log->why);
		opened++;
	}
	return opened;
}

static int logs_close(struct gm_logs_one *logs, size_t n)
{
	int status = GM_EXIT_OK;
	for (size_t i = 0; i < n; i++) {
		if (logs[i].contradicts) {
			gm_tool_error("%s: contradicts itself: %s", logs[i].figures.about->path,
				      logs[i].why);
			status = GM_EXIT_FAILED;
		}
		gm_figures_close(&logs[i].figures);
	}
	return status;
}

static int logs_show(const struct gm_options *options, char *const *paths, size_t n,
		     void (*show)(struct gm_emit *emit, struct gm_logs_one *logs, size_t n))
{
	struct gm_logs_one *logs = calloc(n, sizeof *logs);
	struct gm_emit emit;
	if (!logs) {
		gm_tool_error("out of memory");
		return GM_EXIT_FAILED;
	}
	size_t opened = logs_open(logs, paths, n);
	int status = opened < n ? GM_EXIT_FAILED : GM_EXIT_OK;
	if (opened > 0) {
		gm_emit_open(&emit, stdout, options);
		show(&emit, logs, opened);
		status |= gm_emit_close(&emit);
	}
	status |= logs_close(logs, opened);
	free(logs);
	return status;
}

/* Add the files of an operand: itself, or the newest run with such a name. */
static void operand_add(struct gm_find *found, const char *operand)
{
	char glob[2 * PATH_MAX];
	size_t before = found->paths.n;
	if (!gm_find_is_name(operand) || !gm_find_glob(operand, glob, sizeof glob)) {
		gm_find_add(found, operand);
		return;
	}
	gm_find_newest_run(found, glob);
	if (found->paths.n == before)
		gm_find_add(found, operand); /* so that the message names it */
}

int gm_logs_run(const struct gm_options *options, char *const *names, size_t n,
		void (*show)(struct gm_emit *emit, struct gm_logs_one *logs, size_t n))
{
	struct gm_find found = {0};
	int status = GM_EXIT_FAILED;
	for (size_t i = 0; i < n; i++)
		operand_add(&found, names[i]);
	if (n == 0)
		gm_find_newest_run(&found, GM_FIND_DEFAULT_GLOB);
	if (found.paths.n > 0)
		status = logs_show(options, found.paths.at, found.paths.n, show);
	else
		gm_tool_error("no log gpumem.*.gml here: 'gpumemstat record COMMAND' makes one");
	gm_find_free(&found);
	return status;
}
