/* SPDX-License-Identifier: BSD-3-Clause */
/* A call that lacked memory of a device, and who had it then (log/owner.def). Single-threaded. */
#ifndef GM_TOOLS_LOG_LACKED_H
#define GM_TOOLS_LOG_LACKED_H

#include "tools/log/figures.h"
#include "tools/output/emit.h"

#define GM_LACKED_TEXT 768 /* bytes of the text of gm_lacked_text */

/* "cuMemCreate, 10.0 MiB asked; 60.0 MiB cuMemCreate; 0 B of others, 196 MiB free". Owners without
 * memory are left out. Returns `text`, cut at `room`. */
const char *gm_lacked_text(const struct gm_figures_refusal *refusal, char *text, size_t room);

/* JSON: members of the caller's open object. */
void gm_lacked_show(struct gm_emit *emit, const struct gm_figures_refusal *refusal);

#endif
