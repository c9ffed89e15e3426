/* SPDX-License-Identifier: BSD-3-Clause */
/* The logs that a command is asked about. */
#ifndef GM_TOOLS_LOGS_H
#define GM_TOOLS_LOGS_H

#include "emit.h"
#include "figures.h"

struct gm_logs_one {
	struct gm_figures figures;
	bool contradicts;
	char why[256]; /* the contradiction */
};

/*
 * Read the logs that are named, by their files or as GPUMEM_LOG_NAME names them, or the newest
 * run's when none is, and have `show` write them; it may reorder them. What cannot be read is named
 * on stderr and left out, contradictions are named after the output. Returns the exit status.
 */
int gm_logs_run(const struct gm_options *options, char *const *names, size_t n,
		void (*show)(struct gm_emit *emit, struct gm_logs_one *logs, size_t n));

#endif
