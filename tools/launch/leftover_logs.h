/* SPDX-License-Identifier: BSD-3-Clause */
/* The logs left by a command, and the line about them. Single-threaded. */
#ifndef GM_TOOLS_LAUNCH_LEFTOVER_LOGS_H
#define GM_TOOLS_LAUNCH_LEFTOVER_LOGS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/log/find.h"

struct gm_leftover_logs {
	char glob[2 * PATH_MAX];
	struct gm_find before; /* logs with matching names before the start of the command */
};

/* Test whether a log of `bytes` bytes can be written at GPUMEM_LOG_NAME=`name`: create one there
 * and remove it, unless its folder depends on the process. False, after one message: impossible. */
bool gm_leftover_logs_try(const char *name, uint64_t bytes);

/*
 * Remove the logs of an earlier run at GPUMEM_LOG_NAME=`name`: the file, and those of its other
 * processes, NAME.1, NAME.2 ... A name with %p or %e, or in a folder, differs from process to
 * process: its logs stay. False, after one message: the file is no log, a process still writes it,
 * or it cannot be removed.
 */
bool gm_leftover_logs_overwrite(const char *name);

/* Before the command starts: record the existing files that match GPUMEM_LOG_NAME=`name`. False,
 * after one message: the name is too long. */
bool gm_leftover_logs_begin(struct gm_leftover_logs *leftover, const char *name);

/*
 * After the command: print on stderr the new logs, the highest peak, and the next command to type.
 * Without logs: that no process used CUDA, with the next command, or why `command` could not load
 * the library. `command` NULL: print nothing. `brief`: remove the logs instead of naming them; else
 * add their paths to `logs`, which may be NULL.
 */
void gm_leftover_logs_end(struct gm_leftover_logs *leftover, const char *command, bool brief,
			  struct gm_find *logs);

#endif
