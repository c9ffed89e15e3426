/* SPDX-License-Identifier: BSD-3-Clause */
/* What a command left behind: its logs, and the one line that says so. */
#ifndef GM_TOOLS_LEFT_H
#define GM_TOOLS_LEFT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "find.h"

struct gm_left {
	char glob[2 * PATH_MAX];
	struct gm_find before; /* logs of such names that were there already */
};

/* Can a log of `bytes` lie where GPUMEM_LOG_NAME=`name` says? One is made there and taken away
 * again, unless its folder depends on the process. False: one line has said why not. */
bool gm_left_try(const char *name, uint64_t bytes);

/* Before the command starts: remember what has a name that GPUMEM_LOG_NAME=`name` may give. False:
 * the name is too long, and that was said. */
bool gm_left_begin(struct gm_left *left, const char *name);

/*
 * After it: say on stderr which logs are new, the highest peak, and what to type next; or that no
 * process used CUDA, or why `command` could not load the library. `brief`: the logs are about to
 * go, so do not name them; they are removed here.
 */
void gm_left_say(const struct gm_left *left, const char *command, bool brief);

void gm_left_end(struct gm_left *left);

#endif
