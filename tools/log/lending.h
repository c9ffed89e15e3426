/* SPDX-License-Identifier: BSD-3-Clause */
/* What GPUMEM_LEND did with PyTorch's cached segments on a device. Single-threaded. */
#ifndef GM_TOOLS_LOG_LENDING_H
#define GM_TOOLS_LOG_LENDING_H

#include "tools/log/figures.h"
#include "tools/output/emit.h"

/* Text: lines, of which the first has the label "lending"; none if the knob is not set and nothing
 * was lent. JSON: an object "lending". */
void gm_lending_show(struct gm_emit *emit, const struct gm_figures *figures, unsigned device);

#endif
