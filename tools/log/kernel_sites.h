/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows malloc in kernels by call: live blocks, NULLs, wrong frees. Single-threaded. */
#ifndef GM_TOOLS_LOG_KERNEL_SITES_H
#define GM_TOOLS_LOG_KERNEL_SITES_H

#include "tools/log/figures.h"
#include "tools/output/emit.h"

/* Write the calls of a device, those with most live bytes first: text, or "sites" in JSON. `rows`:
 * most in text. Sorts figures->sites. */
void gm_kernel_sites_show(struct gm_emit *emit, struct gm_figures *figures, unsigned device,
			  size_t rows);

/* True if the log has calls of that device that allocated, or went wrong. */
bool gm_kernel_sites_any(const struct gm_figures *figures, unsigned device);

#endif
