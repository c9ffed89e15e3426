/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/launch/leftover_logs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/size.h"
#include "knob/knob.h"
#include "log/about.h"
#include "log/file.h"
#include "log/read.h"
#include "tools/launch/preload.h"
#include "tools/log/figures.h"
#include "tools/log/find.h"
#include "tools/tool.h"

enum { NAMED_MOST = 4 }; /* limit of logs named one by one */

struct peaks {
	size_t logs;
	uint64_t requested, mapped; /* the maximum over the logs */
	GM_ARRAY(const char *) paths;
};

/* The folder of the log `name`, with a slash. False: it differs from process to process. */
static bool name_folder(const char *name, char *out, size_t n)
{
	const char *slash = strrchr(name, '/');
	size_t at = 0;
	for (const char *p = name; slash && p <= slash; p++) {
		if (gm_find_word(p))
			return false;
		p += *p == '%' && p[1] == '%';
		if (at + 3 > n)
			return false;
		out[at++] = *p;
	}
	snprintf(out + at, n - at, "%s", slash ? "" : "./");
	return true;
}

bool gm_leftover_logs_try(const char *name, uint64_t bytes)
{
	struct gm_file file;
	char folder[PATH_MAX], path[2 * PATH_MAX];
	const char *slash = strrchr(name, '/');
	if (!name_folder(name, folder, sizeof folder))
		return true;
	/* No log of another command can have this name. */
	snprintf(path, sizeof path, "%s%s~", folder, slash ? slash + 1 : name);
	int error = gm_file_create(&file, path, NULL, 0);
	if (!error) {
		error = gm_file_reserve(&file, bytes);
		gm_file_remove(&file);
	}
	if (error)
		gm_tool_error("no log can be written in %s: %s", folder, gm_file_error(error));
	return !error;
}

/* --- the logs of an earlier run --- */

/* The name of this process's log. False: that differs from process to process. */
static bool name_exact(const char *name, char *path, size_t n)
{
	struct gm_about about;
	size_t length = strlen(name);
	if (!length || name[length - 1] == '/')
		return false;
	for (const char *p = strchr(name, '%'); p && p[1]; p = strchr(p + 2, '%'))
		if (p[1] == 'p' || p[1] == 'e')
			return false;
	gm_about_gather(&about);
	const struct gm_file_words words = gm_about_words(&about);
	return gm_file_name(path, n, name, "", &words);
}

/* True for a log, damaged or not, and for the empty file of a process that was killed before it
 * wrote the head of its log. */
static bool file_is_log(const char *path)
{
	char magic[sizeof GM_FORMAT_MAGIC - 1];
	FILE *file = fopen(path, "re");
	size_t n = file ? fread(magic, 1, sizeof magic, file) : 1;
	if (file)
		fclose(file);
	return n == 0 || (n == sizeof magic && memcmp(magic, GM_FORMAT_MAGIC, n) == 0);
}

/* The process that writes the log; 0: none. */
static int log_writer(const char *path)
{
	struct gm_log_file *file;
	char why[256];
	int pid = 0;
	if (gm_log_read_open(path, &file, why, sizeof why)) {
		pid = gm_log_read_about(file)->running ? gm_log_read_about(file)->pid : 0;
		gm_log_read_close(file);
	}
	return pid;
}

/* The library would take another name, with a number. False, after one message: it must not. */
static bool name_can_be_log(const char *path, const struct stat *st)
{
	if (S_ISREG(st->st_mode))
		return true;
	if (S_ISDIR(st->st_mode))
		gm_tool_error("%s: a folder; -o %s/ writes into it", path, path);
	else
		gm_tool_error("%s: not a regular file; no log can be written there", path);
	return false;
}

/* `exact`: the file has the name itself, without a number. */
static bool log_remove(const char *path, bool exact)
{
	struct stat st;
	int writer;
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return true;
	if (!file_is_log(path)) {
		if (exact)
			gm_tool_error("%s: not a gpumem log; not overwritten", path);
		return !exact;
	}
	if ((writer = log_writer(path))) {
		gm_tool_error("%s: process %d still writes it; not overwritten", path, writer);
		return false;
	}
	if (unlink(path) == 0 || errno == ENOENT)
		return true;
	gm_tool_error("%s: cannot be overwritten: %s", path, strerror(errno));
	return false;
}

bool gm_leftover_logs_overwrite(const char *name)
{
	struct gm_find old = {0};
	struct stat st;
	char path[PATH_MAX], glob[2 * PATH_MAX];
	bool good = true;
	if (!name_exact(name, path, sizeof path) || !gm_find_path_glob(path, glob, sizeof glob))
		return true;
	if (stat(path, &st) == 0 && !name_can_be_log(gm_find_from_here(path), &st))
		return false;
	gm_find_matching(&old, glob);
	for (size_t i = 0; good && i < old.paths.n; i++)
		good = log_remove(gm_find_from_here(old.paths.at[i]),
				  strcmp(old.paths.at[i], path) == 0);
	gm_find_free(&old);
	return good;
}

bool gm_leftover_logs_begin(struct gm_leftover_logs *leftover, const char *name)
{
	if (!gm_find_glob(name, leftover->glob, sizeof leftover->glob)) {
		gm_tool_error("%s: the name is too long", name);
		return false;
	}
	gm_find_matching(&leftover->before, leftover->glob);
	return true;
}

static bool log_was_there(const struct gm_leftover_logs *leftover, const char *path)
{
	for (size_t i = 0; i < leftover->before.paths.n; i++)
		if (strcmp(leftover->before.paths.at[i], path) == 0)
			return true;
	return false;
}

static void peaks_add(struct peaks *peaks, const char *path)
{
	struct gm_figures figures;
	char why[256];
	if (!gm_figures_open(&figures, path, why, sizeof why)) {
		gm_tool_error("%s: %s", path, why);
		return;
	}
	if (figures.about->recording) { /* the log of the process is beside it */
		gm_figures_close(&figures);
		return;
	}
	uint64_t requested = gm_figures_requested_peak(&figures);
	uint64_t mapped = gm_figures_sum(&figures, GM_C_mapped_peak);
	if (gm_array_push(&peaks->paths, path))
		peaks->logs++;
	peaks->requested = requested > peaks->requested ? requested : peaks->requested;
	peaks->mapped = mapped > peaks->mapped ? mapped : peaks->mapped;
	gm_figures_close(&figures);
}

static void nothing_report(const char *command)
{
	const char *obstacle = gm_preload_obstacle(command);
	const char *enable = getenv("GPUMEM_ENABLE"), *program = getenv("GPUMEM_PROGRAM");
	union gm_knob_value value = {.flag = true};
	char why[256];
	if (enable)
		gm_knob_parse(GM_KNOB_ID_enable, enable, &value, why, sizeof why);
	if (!value.flag)
		gm_tool_error("nothing was hooked: GPUMEM_ENABLE=%s", enable);
	else if (program && *program)
		gm_tool_error("no process whose program matches GPUMEM_PROGRAM=%s used CUDA",
			      program);
	else if (obstacle)
		gm_tool_error("libgpumem.so was not loaded by %s: %s", command, obstacle);
	else
		gm_tool_error("no process used CUDA; next: gpumemstat doctor -- COMMAND");
}

/* True if `gpumemstat` without arguments shows exactly these logs. */
static bool run_is_newest(const struct peaks *peaks)
{
	struct gm_find run = {0};
	size_t same = 0;
	gm_find_newest_run(&run, GM_FIND_DEFAULT_GLOB);
	for (size_t i = 0; i < run.paths.n; i++)
		for (size_t j = 0; j < peaks->logs; j++)
			same += strcmp(run.paths.at[i], gm_find_from_here(peaks->paths.at[j])) == 0;
	bool is = same == peaks->logs && run.paths.n == same;
	gm_find_free(&run);
	return is;
}

/* The arguments for several logs: none, each name, or a pattern of their names. */
static void arguments_next(const struct gm_leftover_logs *leftover, const struct peaks *peaks,
			   char *out, size_t n)
{
	size_t at = 0;
	*out = '\0';
	if (run_is_newest(peaks))
		return;
	if (peaks->logs > NAMED_MOST) {
		snprintf(out, n, " %s", gm_find_from_here(leftover->glob));
		return;
	}
	for (size_t i = 0; i < peaks->logs && at < n; i++)
		at += (size_t)snprintf(out + at, n - at, " %s",
				       gm_find_from_here(peaks->paths.at[i]));
}

static void logs_report(const struct gm_leftover_logs *leftover, const struct peaks *peaks,
			const char *peak)
{
	const char *first = gm_find_from_here(peaks->paths.at[0]);
	char next[2 * PATH_MAX];
	if (peaks->logs == 1) {
		gm_tool_error("%s: peak %s; next: gpumemstat %s", first, peak, first);
		return;
	}
	arguments_next(leftover, peaks, next, sizeof next);
	gm_tool_error("%zu logs, the first %s: highest peak %s; next: gpumemstat%s", peaks->logs,
		      first, peak, next);
}

void gm_leftover_logs_end(struct gm_leftover_logs *leftover, const char *command, bool brief,
			  struct gm_find *logs)
{
	struct gm_find after = {0};
	struct peaks peaks = {0};
	char requested[32], mapped[32], peak[96];
	gm_find_matching(&after, leftover->glob);
	for (size_t i = 0; command && i < after.paths.n; i++)
		if (!log_was_there(leftover, after.paths.at[i]))
			peaks_add(&peaks, after.paths.at[i]);
	snprintf(peak, sizeof peak, "%s requested, %s mapped",
		 gm_size_format(peaks.requested, requested, sizeof requested),
		 gm_size_format(peaks.mapped, mapped, sizeof mapped));
	if (command && peaks.logs == 0)
		nothing_report(command);
	else if (command && !brief)
		logs_report(leftover, &peaks, peak);
	else if (command)
		gm_tool_error("%zu process%s used CUDA: peak %s; next: gpumemstat record -- %s",
			      peaks.logs, peaks.logs > 1 ? "es" : "", peak, command);
	for (size_t i = 0; brief && i < after.paths.n; i++)
		unlink(after.paths.at[i]);
	for (size_t i = 0; logs && i < peaks.logs; i++)
		gm_find_add(logs, gm_find_from_here(peaks.paths.at[i]));
	gm_array_free(&peaks.paths);
	gm_find_free(&after);
	gm_find_free(&leftover->before);
}
