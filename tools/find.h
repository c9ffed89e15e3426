/* SPDX-License-Identifier: BSD-3-Clause */
/* Finding the logs of a run by their names and headers. */
#ifndef GM_TOOLS_FIND_H
#define GM_TOOLS_FIND_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/array.h"

#define GM_FIND_DEFAULT_NAME "gpumem.%h.%p.gml"
#define GM_FIND_DEFAULT_GLOB "gpumem.*.gml"

struct gm_find {
	GM_ARRAY(char *) paths;
};
/* Ends the program when memory is short. */
void gm_find_add(struct gm_find *find, const char *path);
void gm_find_free(struct gm_find *find);

/*
 * The newest run among the logs that `glob` matches (GM_FIND_DEFAULT_GLOB: those of this folder):
 * the log that was begun last, and all of the same job, or, outside a job, all whose life overlaps
 * that of one already in. Sorted by rank, then start. Logs that cannot be read are named on stderr
 * and left out.
 */
void gm_find_newest_run(struct gm_find *find, const char *glob);

/* The glob that matches what GPUMEM_LOG_NAME=`name` can become: %-words become '*'. False: too
 * long. */
bool gm_find_glob(const char *name, char *out, size_t n);

/* Is it no file, but such a name with %-words in it? */
bool gm_find_is_name(const char *text);

/* Names matching the glob, and those with a .1, .2 ... behind it. */
void gm_find_matching(struct gm_find *find, const char *glob);

#endif
