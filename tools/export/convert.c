/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/export/convert.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* True if both paths name the same file. */
static bool file_is(const char *path, const char *other)
{
	struct stat a, b;
	return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/* The file to write; NULL: standard output. */
static const char *output_path(const struct gm_options *options)
{
	return options->file && strcmp(options->file, "-") ? options->file : NULL;
}

/* NULL, after a message: the file cannot be opened. */
static FILE *output_open(const char *path, const char *log)
{
	if (!path)
		return stdout;
	if (file_is(path, log)) {
		gm_tool_error("%s: is the log itself", path);
		return NULL;
	}
	FILE *out = fopen(path, "we");
	if (!out)
		gm_tool_error("%s: %s", path, strerror(errno));
	return out;
}

static int output_close(FILE *out, const char *path)
{
	if (out == stdout)
		return gm_tool_flush();
	errno = 0;
	const bool failed = ferror(out);
	if (fclose(out) == 0 && !failed)
		return GM_EXIT_OK;
	gm_tool_error("%s: %s", path, strerror(errno ? errno : EIO));
	return GM_EXIT_FAILED;
}

static int log_write(const struct gm_convert *convert, struct gm_logs_one *log)
{
	const char *path = log->figures.about->path;
	char why[sizeof log->why];
	snprintf(why, sizeof why, "%s", log->why);
	if (!gm_logs_suits(log, convert->need, convert->options->device)) {
		gm_tool_error("%s: %s", path, log->why);
		log->contradicts = false;
		return GM_EXIT_FAILED;
	}
	snprintf(log->why, sizeof log->why, "%s", why);
	FILE *out = output_open(output_path(convert->options), path);
	if (!out)
		return GM_EXIT_FAILED;
	convert->write(out, convert->options, &log->figures);
	return output_close(out, output_path(convert->options));
}

/* The only log of a run. False, after a message: no log, or several. */
static bool log_find(struct gm_find *found, char *const *names, size_t n)
{
	if (!gm_logs_find(found, names, n))
		return false;
	if (found->paths.n == 1)
		return true;
	gm_tool_error("the run has %zu logs: name one of them", found->paths.n);
	return false;
}

int gm_convert_run(const struct gm_command *self, const struct gm_convert *convert,
		   char *const *names, size_t n)
{
	struct gm_find found;
	struct gm_logs logs;
	if (n > 1)
		return gm_tool_extra(self, names[1]);
	if (convert->binary && !output_path(convert->options) && isatty(STDOUT_FILENO))
		return gm_tool_usage(self->name, "a terminal shows no binary data: -o FILE");
	if (!log_find(&found, names, n)) {
		gm_find_free(&found);
		return GM_EXIT_FAILED;
	}
	int status = gm_logs_open(&logs, convert->options, found.paths.at, 1);
	if (logs.n == 1)
		status |= log_write(convert, &logs.at[0]);
	status |= gm_logs_close(&logs);
	gm_find_free(&found);
	return status;
}
