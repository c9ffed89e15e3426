/* SPDX-License-Identifier: BSD-3-Clause */
/* The logs that a command left behind, and the line about them. Single-threaded. */
#ifndef GM_TOOLS_LAUNCH_LEFTOVER_LOGS_H
#define GM_TOOLS_LAUNCH_LEFTOVER_LOGS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "tools/log/find.h"

struct gm_leftover_logs {
	char glob[2 * PATH_MAX];
	struct gm_find before; /* logs with such names before the command started */
};

/* Can a log of `bytes` bytes be written at GPUMEM_LOG_NAME=`name`? One is created there and
 * removed, unless its folder depends on the process. False, after one message: no. */
bool gm_leftover_logs_try(const char *name, uint64_t bytes);

/* Before the command starts: remember the files with names that GPUMEM_LOG_NAME=`name` can give.
 * False, after one message: the name is too long. */
bool gm_leftover_logs_begin(struct gm_leftover_logs *leftover, const char *name);

/*
 * After the command: name on stderr the new logs, the highest peak, and the next command to type;
 * or say that no process used CUDA, or why `command` could not load the library. `brief`: the logs
 * are not named, and are removed here.
 */
void gm_leftover_logs_report(const struct gm_leftover_logs *leftover, const char *command,
			     bool brief);

void gm_leftover_logs_end(struct gm_leftover_logs *leftover);

#endif
