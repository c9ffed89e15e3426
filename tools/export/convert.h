/* SPDX-License-Identifier: BSD-3-Clause */
/* One log becomes one file. Single-threaded. */
#ifndef GM_TOOLS_EXPORT_CONVERT_H
#define GM_TOOLS_EXPORT_CONVERT_H

#include <stdio.h>

#include "tools/log/figures.h"
#include "tools/log/logs.h"
#include "tools/options.h"

struct gm_convert {
	const struct gm_options *options;
	enum gm_logs_need need;
	bool binary; /* no terminal shows it */
	void (*write)(FILE *out, const struct gm_options *options, struct gm_figures *figures);
};

/*
 * Write the log that is named, or without a name that of the newest run, to options->file or to
 * standard output. A run of several logs is refused, as are binary data on a terminal and the log
 * itself as output; a contradiction is named after the output. Returns the exit status.
 */
int gm_convert_run(const struct gm_command *self, const struct gm_convert *convert,
		   char *const *names, size_t n);

#endif
