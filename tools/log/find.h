/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the logs of a run by their names and headers. Single-threaded. */
#ifndef GM_TOOLS_LOG_FIND_H
#define GM_TOOLS_LOG_FIND_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/array.h"

#define GM_FIND_DEFAULT_NAME "gpumem.%h.%p.gml"
#define GM_FIND_DEFAULT_GLOB "*.gml"

struct gm_find {
	GM_ARRAY(char *) paths;
};
/* Add a copy of `path`. Ends the program when memory is short. */
void gm_find_add(struct gm_find *find, const char *path);
void gm_find_free(struct gm_find *find);

/*
 * Add the logs of the newest run among the files that match `glob` (GM_FIND_DEFAULT_GLOB: logs of
 * the current folder): the log with the latest start and all logs of its job; without a job, all
 * logs that overlap in time with a log of the run. Sorted by rank, then start. Unreadable logs are
 * reported on stderr and skipped.
 */
void gm_find_newest_run(struct gm_find *find, const char *glob);

/* Add the logs of the newest run in a folder. False: `path` is no folder, or has no log. */
bool gm_find_in_folder(struct gm_find *find, const char *path);

/* True if `text` begins with a word of GPUMEM_LOG_NAME, such as "%p"; "%%" is no word. */
bool gm_find_word(const char *text);

/* The glob for GPUMEM_LOG_NAME=`name`: each %-word becomes '*'. False: too long. */
bool gm_find_glob(const char *name, char *out, size_t n);

/* The glob that matches a path alone. False: too long. */
bool gm_find_path_glob(const char *path, char *out, size_t n);

/* True for a name with %-words that is not an existing file. */
bool gm_find_is_name(const char *text);

/* The newest log that found the name of this one taken, PATH.1, PATH.2 ..., began later, and is
 * none of `named`. Writes its path; false: there is none, or `path` is no log. */
bool gm_find_newer(const char *path, const struct gm_find *named, char *newer, size_t n);

/* The path as seen from the current folder. */
const char *gm_find_from_here(const char *path);

/* Add the files that match the glob, and those with .1, .2 ... appended. */
void gm_find_matching(struct gm_find *find, const char *glob);

#endif
