/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment of a program under the preload, and reasons why the preload cannot be loaded into
 * a program. Single-threaded. */
#ifndef GM_TOOLS_LAUNCH_PRELOAD_H
#define GM_TOOLS_LAUNCH_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* Find libgpumem.so: $GPUMEM_LIBRARY_PATH, beside this program (as built or as copied), or in the
 * installed folder. False, after one message: not found. */
bool gm_preload_find(char *path, size_t n);

/* Put `library` first in LD_PRELOAD. False, after one message: not possible. */
bool gm_preload_set(const char *library);

/* The file that execvp would run for `command`; false: none. */
bool gm_preload_resolve(const char *command, char *path, size_t n);

/* Why the loader ignores LD_PRELOAD for an open file: "it is set-user-ID"; NULL: it does not. */
const char *gm_preload_rights(int fd, const struct stat *st);

/* Why the preload cannot be loaded into `command` (found as by execvp): "it is statically linked",
 * ...; NULL: no reason known. */
const char *gm_preload_obstacle(const char *command);

/* True if `command` is a script without its interpreter, whose name goes to `missing`. */
bool gm_preload_interpreter_missing(const char *command, char *missing, size_t n);

#endif
