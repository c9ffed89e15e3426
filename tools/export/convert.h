/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts one log to one file. Single-threaded. */
#ifndef GM_TOOLS_EXPORT_CONVERT_H
#define GM_TOOLS_EXPORT_CONVERT_H

#include <stdio.h>

#include "tools/log/figures.h"
#include "tools/log/logs.h"
#include "tools/options.h"

struct gm_convert {
	const struct gm_options *options;
	enum gm_logs_need need;
	bool binary; /* refused on a terminal */
	void (*write)(FILE *out, const struct gm_options *options, struct gm_figures *figures);
};

/*
 * Write the named log, or without a name the log of the newest run, to options->file or standard
 * output. Refused: a run of several logs, binary data on a terminal, the log itself as output. A
 * contradiction in the log is reported after the output. Returns the exit status.
 */
int gm_convert_run(const struct gm_command *self, const struct gm_convert *convert,
		   char *const *names, size_t n);

#endif
