/* SPDX-License-Identifier: BSD-3-Clause */
/* A call that lacked memory of a device, and who had it then (log/owner.def). Single-threaded. */
#ifndef GM_TOOLS_LOG_REFUSAL_H
#define GM_TOOLS_LOG_REFUSAL_H

#include "tools/log/figures.h"
#include "tools/output/emit.h"

#define GM_REFUSAL_TEXT 768 /* bytes of the text of gm_refusal_text */

/* "cuMemCreate, 10.0 MiB asked; 60.0 MiB cuMemCreate; 0 B of others, 196 MiB free". Owners without
 * memory are left out. Returns `text`, cut at `room`. */
const char *gm_refusal_text(const struct gm_figures_refusal *refusal, char *text, size_t room);

/* JSON: members of the caller's open object. */
void gm_refusal_show(struct gm_emit *emit, const struct gm_figures_refusal *refusal);

#endif
