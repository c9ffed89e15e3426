/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts a command under the preload: run, record, and check -- COMMAND. Single-threaded. */
#ifndef GM_TOOLS_LAUNCH_LAUNCH_H
#define GM_TOOLS_LAUNCH_LAUNCH_H

#include <stdbool.h>

#include "tools/log/find.h"
#include "tools/options.h"

/* Exit statuses besides those of the command. */
enum { GM_EXIT_OWN_FAILURE = 125, GM_EXIT_CANNOT_RUN = 126, GM_EXIT_NOT_FOUND = 127 };

struct gm_launch {
	const struct gm_command *self;
	struct gm_options *options;
	bool record; /* a log of every event; else a small one that is removed at the end */
	bool exec, torch, fast;
	const char *output; /* of -o; NULL: not given */
	const char *named;  /* an option that gm_launch_option obeyed, "-o"; NULL: none */
};

/* Begin with the options of `self`. GPUMEM_LOG of the environment is removed: only that of -e
 * counts. */
void gm_launch_begin(struct gm_launch *launch, const struct gm_command *self,
		     struct gm_options *options, bool record);

/* Obey the option `index` with its argument optarg: set the environment of the command. False:
 * options->status is set, after a message. */
bool gm_launch_option(struct gm_launch *launch, int index);

/* Run the command, print a line about its logs on stderr, and add their paths to `logs` unless that
 * is NULL. Returns the exit status: that of the command, 128 + N when signal N ended it, or one of
 * the above. `ran`: did it run? May be NULL. */
int gm_launch_run(struct gm_launch *launch, char **command, struct gm_find *logs, bool *ran);

#endif
