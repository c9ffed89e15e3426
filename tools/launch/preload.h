/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment of a program under the preload, and reasons against preloading a program.
 * Single-threaded. */
#ifndef GM_TOOLS_LAUNCH_PRELOAD_H
#define GM_TOOLS_LAUNCH_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* Find libgpumem.so: $GPUMEM_LIBRARY_PATH; else beside this program (.libs of a build included), in
 * ../lib or ../lib64, or in the installed folder. False, after one message: not found. */
bool gm_preload_find(char *path, size_t n);

/* Append `library` to LD_PRELOAD, because a sanitizer's runtime must be first, and remove any other
 * libgpumem.so from it. False, after one message: not possible. */
bool gm_preload_set(const char *library);

/* Find the file that execvp would run for `command`. False: none. */
bool gm_preload_resolve(const char *command, char *path, size_t n);

/* Why the loader ignores LD_PRELOAD for an open file: "it is set-user-ID"; NULL: it does not. */
const char *gm_preload_rights(int fd, const struct stat *st);

/* Why the preload cannot be loaded into `command` (found as by execvp), with the remedy if there is
 * one: "it is a 32-bit program", ...; NULL: no reason known. */
const char *gm_preload_obstacle(const char *command);

/* True if `command` is a script and its interpreter does not exist; `missing` gets its name. */
bool gm_preload_interpreter_missing(const char *command, char *missing, size_t n);

#endif
