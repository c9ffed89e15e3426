/* SPDX-License-Identifier: BSD-3-Clause */
/* The environment of a program that runs under the preload, and why the preload may not get into
 * it. */
#ifndef GM_TOOLS_PRELOAD_H
#define GM_TOOLS_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* Where libgpumem.so is: $GPUMEM_LIBRARY_PATH, beside this program (as built or as carried), or
 * where it was installed. False: nowhere, and one line has said so. */
bool gm_preload_find(char *path, size_t n);

/* Put `library` in front of LD_PRELOAD. False: it cannot stand there, and one line has said so. */
bool gm_preload_set(const char *library);

/* The file that execvp would run for `command`; false: none. */
bool gm_preload_resolve(const char *command, char *path, size_t n);

/* Why the loader would ignore LD_PRELOAD for an open file: "it is set-user-ID"; NULL: it would not.
 */
const char *gm_preload_rights(int fd, const struct stat *st);

/* Why the preload cannot get into `command` (as execvp finds it): "it is statically linked", ...;
 * NULL when nothing speaks against it. */
const char *gm_preload_obstacle(const char *command);

/* True if `command` is a script whose interpreter does not exist; its name goes to `missing`. */
bool gm_preload_interpreter_missing(const char *command, char *missing, size_t n);

#endif
