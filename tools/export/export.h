/* SPDX-License-Identifier: BSD-3-Clause */
/* The formats of `gpumemstat export`, one file each. A format reads the log in passes and writes
 * while it reads. The caller checks for write errors. Single-threaded. */
#ifndef GM_TOOLS_EXPORT_EXPORT_H
#define GM_TOOLS_EXPORT_EXPORT_H

#include <stdio.h>

#include "tools/log/figures.h"
#include "tools/options.h"

#define GM_FORMAT(name, binary, events)                                    \
	void gm_export_##name(FILE *out, const struct gm_options *options, \
			      struct gm_figures *figures);
#include "tools/export/formats.def"
#undef GM_FORMAT

#endif
