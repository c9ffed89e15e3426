/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens a trace. Its first byte gives the kind of file; gzip(1) decompresses. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "log/format.h"
#include "tools/replay/replay.h"
#include "tools/tool.h"

extern char **environ;

#define GZIP_FIRST 0x1f

/* Start `gzip -dc` with `in` as its input; *out: its output. False: not started. */
static bool gzip_start(struct gm_trace *trace, int in, FILE **out, pid_t *pid)
{
	char program[] = "gzip", option[] = "-dc", *const argv[] = {program, option, NULL};
	posix_spawn_file_actions_t actions;
	int ends[2];
	if (pipe2(ends, O_CLOEXEC))
		return gm_trace_fail(trace, "%s", strerror(errno));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	int error = posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	if (!error && (*out = fdopen(ends[0], "r")))
		return true;
	close(ends[0]);
	return gm_trace_fail(trace, "compressed, and gzip cannot be run: %s", strerror(error));
}

static bool gzip_read(struct gm_trace *trace, FILE *in, uint64_t unit)
{
	FILE *out;
	pid_t pid;
	int status = 0;
	if (lseek(fileno(in), 0, SEEK_SET) != 0)
		return gm_trace_fail(trace, "compressed, and no file: put gzip -dc in front of it");
	if (!gzip_start(trace, fileno(in), &out, &pid))
		return false;
	bool ok = gm_trace_read_csv(trace, out, unit);
	bool whole = feof(out);
	fclose(out);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	/* A truncated file ends within a line: report the file, not the line. */
	if (whole && (!WIFEXITED(status) || WEXITSTATUS(status))) {
		trace->line = 0;
		return gm_trace_fail(trace, "compressed, and damaged or cut off: gzip cannot read "
					    "all of it");
	}
	return ok;
}

static bool trace_read(struct gm_trace *trace, FILE *in, const struct gm_options *options)
{
	int first = getc(in);
	if (first == EOF)
		return gm_trace_fail(trace, "%s", ferror(in) ? strerror(errno) : "empty");
	ungetc(first, in);
	if (first == *GM_FORMAT_MAGIC)
		return in == stdin ? gm_trace_fail(trace, "a log can only be read from its file")
				   : gm_trace_read_log(trace, options);
	if (options->device > 0)
		return gm_trace_fail(trace, "--device=%d: a CSV has no devices", options->device);
	return first == GZIP_FIRST ? gzip_read(trace, in, options->unit_size)
				   : gm_trace_read_csv(trace, in, options->unit_size);
}

bool gm_trace_read(struct gm_trace *trace, const char *path, const struct gm_options *options)
{
	bool standard = strcmp(path, "-") == 0, ok;
	*trace = (struct gm_trace){.path = standard ? "standard input" : path};
	FILE *in = standard ? stdin : fopen(path, "re");
	if (in)
		ok = trace_read(trace, in, options);
	else
		ok = gm_trace_fail(trace, "%s", errno == ENOENT ? "no such file" : strerror(errno));
	if (in && !standard)
		fclose(in);
	if (ok)
		return true;
	if (trace->line)
		gm_tool_error("%s:%llu: %s", trace->path, (unsigned long long)trace->line,
			      trace->why);
	else
		gm_tool_error("%s: %s", gm_tool_name(trace->path), trace->why);
	gm_trace_free(trace);
	return false;
}
