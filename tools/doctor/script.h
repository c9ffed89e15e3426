/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the beginning of a script: which program decides about the preload. */
#ifndef GM_TOOLS_DOCTOR_SCRIPT_H
#define GM_TOOLS_DOCTOR_SCRIPT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct gm_script {
	char interpreter[PATH_MAX]; /* of the first line; behind env(1), the program that env
				       searches */
	/* A manager of versions, as pyenv, asked by the line `exec pyenv exec python3`; "": none.
	 */
	char manager[32];
};

/*
 * Parse the first bytes of a file, terminated. False: no script. A script of a shell whose line
 * `exec PROGRAM "$0"` hands it to PROGRAM is a script of PROGRAM, as those that pip writes if the
 * path of Python is too long for the first line.
 */
bool gm_script_read(const char *head, struct gm_script *out);

/* True if a path names a shell: its scripts start programs, which decide. */
bool gm_script_is_shell(const char *path);

/* True if a name needs no quotes in a command of a shell. */
bool gm_script_name_is_plain(const char *name);

#endif
