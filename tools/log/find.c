/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/log/find.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "knob/knob.h"
#include "log/read.h"
#include "tools/tool.h"

void gm_find_free(struct gm_find *find)
{
	for (size_t i = 0; i < find->paths.n; i++)
		free(find->paths.at[i]);
	gm_array_free(&find->paths);
}

void gm_find_add(struct gm_find *find, const char *path)
{
	char *copy = strdup(path);
	if (!copy || !gm_array_push(&find->paths, copy)) {
		gm_tool_error("out of memory");
		exit(GM_EXIT_FAILED);
	}
}

bool gm_find_word(const char *text)
{
	return *text == '%' && text[1] && text[1] != '%' &&
	       strchr(gm_knob_table[GM_KNOB_ID_log_name].argument, text[1]);
}

bool gm_find_glob(const char *name, char *out, size_t n)
{
	char whole[PATH_MAX];
	size_t at = 0, length = strlen(name);
	/* Like the writer: a folder gets the default name. */
	const char *rest = !length || name[length - 1] == '/' ? GM_FIND_DEFAULT_NAME : "";
	if ((size_t)snprintf(whole, sizeof whole, "%s%s", name, rest) >= sizeof whole)
		return false;
	for (const char *p = whole; *p; p++) {
		if (at + 3 > n)
			return false;
		if (gm_find_word(p)) {
			out[at++] = '*';
			p++;
			continue;
		}
		p += *p == '%' && p[1] == '%';
		if (strchr("*?[\\", *p))
			out[at++] = '\\';
		out[at++] = *p;
	}
	out[at] = '\0';
	return true;
}

bool gm_find_path_glob(const char *path, char *out, size_t n)
{
	char doubled[2 * PATH_MAX];
	size_t at = 0;
	for (; *path && at + 3 < sizeof doubled; path++) {
		doubled[at++] = *path;
		if (*path == '%')
			doubled[at++] = '%';
	}
	doubled[at] = '\0';
	return gm_find_glob(doubled, out, n);
}

bool gm_find_is_name(const char *text)
{
	const char *percent = strchr(text, '%');
	while (percent && !gm_find_word(percent))
		percent = strchr(percent + 1 + (percent[1] == '%'), '%');
	return percent && access(text, F_OK) != 0;
}

const char *gm_find_from_here(const char *path)
{
	char here[PATH_MAX];
	const size_t n = getcwd(here, sizeof here) ? strlen(here) : 0;
	return n > 1 && strncmp(path, here, n) == 0 && path[n] == '/' ? path + n + 1 : path;
}

void gm_find_matching(struct gm_find *find, const char *pattern)
{
#define FOUR "[0-9a-f][0-9a-f][0-9a-f][0-9a-f]"
	static const char *const behind[] = {"", ".[0-9]", ".[0-9][0-9]", ".[0-9][0-9][0-9]",
					     "." FOUR FOUR FOUR FOUR};
#undef FOUR
	for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
		char whole[2 * PATH_MAX];
		glob_t found;
		snprintf(whole, sizeof whole, "%s%s", pattern, behind[i]);
		if (glob(whole, 0, NULL, &found) == 0) {
			for (size_t j = 0; j < found.gl_pathc; j++)
				gm_find_add(find, found.gl_pathv[j]);
			globfree(&found);
		}
	}
}

bool gm_find_in_folder(struct gm_find *find, const char *path)
{
	char name[PATH_MAX], pattern[2 * PATH_MAX];
	struct stat st;
	const size_t before = find->paths.n, n = strlen(path);
	if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode) ||
	    (size_t)snprintf(name, sizeof name, "%s%s%%h.gml", path,
			     n && path[n - 1] == '/' ? "" : "/") >= sizeof name ||
	    !gm_find_glob(name, pattern, sizeof pattern))
		return false;
	gm_find_newest_run(find, pattern);
	return find->paths.n > before;
}

struct candidate {
	const char *path;
	char job[128];
	uint64_t start, end; /* wall clock, ns */
	int rank;
	bool in, recording;
};

static bool candidate_read(const char *path, struct candidate *out)
{
	struct gm_log_file *file;
	char why[256];
	if (!gm_log_read_open(path, &file, why, sizeof why)) {
		gm_tool_error("%s: %s", path, why);
		return false;
	}
	const struct gm_log_about *about = gm_log_read_about(file);
	*out = (struct candidate){.path = path,
				  .start = about->start_wall,
				  .end = about->start_wall + (about->end > about->start
								      ? about->end - about->start
								      : 0),
				  .rank = about->rank,
				  .recording = about->recording};
	snprintf(out->job, sizeof out->job, "%s", about->job);
	gm_log_read_close(file);
	return true;
}

/* True if `a` belongs to the run of `b`. */
static bool candidate_joins(const struct candidate *a, const struct candidate *b)
{
	if (*a->job || *b->job)
		return strcmp(a->job, b->job) == 0;
	return a->start <= b->end && b->start <= a->end;
}

/* A recording lies beside the log of its process, and would count that twice; only recordings count
 * where there is nothing else. Returns the number of those left. */
static size_t candidates_leave_recordings(struct candidate *logs, size_t n)
{
	size_t to = 0;
	for (size_t i = 0; i < n; i++)
		if (!logs[i].recording)
			logs[to++] = logs[i];
	return to ? to : n;
}

static void candidates_spread(struct candidate *logs, size_t n)
{
	for (bool more = true; more;) {
		more = false;
		for (size_t i = 0; i < n; i++)
			for (size_t j = 0; j < n && !logs[i].in; j++)
				if (logs[j].in && candidate_joins(&logs[i], &logs[j]))
					more = logs[i].in = true;
	}
}

static int candidate_compare(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return strcmp(x->path, y->path);
}

void gm_find_newest_run(struct gm_find *find, const char *glob)
{
	struct gm_find all = {0};
	size_t n = 0, newest = 0;
	gm_find_matching(&all, glob);
	struct candidate *logs = calloc(all.paths.n + 1, sizeof *logs);
	for (size_t i = 0; logs && i < all.paths.n; i++)
		n += candidate_read(all.paths.at[i], &logs[n]);
	n = candidates_leave_recordings(logs, n);
	for (size_t i = 1; i < n; i++)
		if (logs[i].start > logs[newest].start)
			newest = i;
	if (n > 0) {
		logs[newest].in = true;
		candidates_spread(logs, n);
		qsort(logs, n, sizeof *logs, candidate_compare);
	}
	for (size_t i = 0; i < n; i++)
		if (logs[i].in)
			gm_find_add(find, logs[i].path);
	free(logs);
	gm_find_free(&all);
}

static bool find_has(const struct gm_find *find, const char *path)
{
	for (size_t i = 0; i < find->paths.n; i++)
		if (strcmp(find->paths.at[i], path) == 0)
			return true;
	return false;
}

/* 0: no log, or a recording, of which one process may make many. */
static uint64_t log_start(const char *path)
{
	struct gm_log_file *file;
	char why[256];
	uint64_t start = 0;
	if (gm_log_read_open(path, &file, why, sizeof why)) {
		const struct gm_log_about *about = gm_log_read_about(file);
		start = about->recording ? 0 : about->start_wall;
		gm_log_read_close(file);
	}
	return start;
}

bool gm_find_newer(const char *path, const struct gm_find *named, char *newer, size_t n)
{
	struct gm_find all = {0};
	char glob[2 * PATH_MAX];
	const uint64_t own = log_start(path);
	uint64_t newest = own;
	bool found = false;
	if (own && gm_find_path_glob(path, glob, sizeof glob))
		gm_find_matching(&all, glob);
	for (size_t i = 0; i < all.paths.n; i++) {
		const uint64_t start = log_start(all.paths.at[i]);
		if (start >= newest && !find_has(named, all.paths.at[i])) {
			found = true;
			newest = start;
			snprintf(newer, n, "%s", all.paths.at[i]);
		}
	}
	gm_find_free(&all);
	return found;
}
