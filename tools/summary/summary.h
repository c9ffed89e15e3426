/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef GM_TOOLS_SUMMARY_SUMMARY_H
#define GM_TOOLS_SUMMARY_SUMMARY_H

#include "tools/log/logs.h"

/* Show one log. JSON: the members of an object that the caller has opened. */
void gm_summary_one(struct gm_emit *emit, struct gm_logs_one *log);

/* The knobs that are not default, "NAME=VALUE, ...", without those that other lines show; NULL:
 * none. The caller frees. */
char *gm_summary_knobs(const struct gm_log_about *about);

/* summary_short.c: one log on a few lines, in text. */
void gm_summary_short(struct gm_emit *emit, struct gm_figures *figures);

/* summary_frag.c: fragmentation of a device: now, peak, mean. */
void gm_summary_fragmentation(struct gm_emit *emit, const struct gm_figures *figures,
			      unsigned device);

/* foreign.c: foreign memory of a device, and memory that is not accounted for; memory of the host,
 * and other counts of the process. */
void gm_summary_foreign(struct gm_emit *emit, const struct gm_figures *figures, unsigned device);
/* The peaks of the kinds of foreign memory that a device had, on one line; nothing without. */
void gm_summary_foreign_line(struct gm_emit *emit, const struct gm_figures *figures,
			     unsigned device);
void gm_summary_process(struct gm_emit *emit, const struct gm_figures *figures);

/* summary_heap.c: malloc in kernels of a device, its contexts and heaps; the images that were
 * loaded. */
void gm_summary_heaps(struct gm_emit *emit, struct gm_figures *figures, unsigned device);
void gm_summary_images(struct gm_emit *emit, const struct gm_figures *figures);

/* summary_copy.c: copies by the kind of the host's memory: a table in JSON, a line in text. */
void gm_summary_copies(struct gm_emit *emit, const struct gm_figures *figures);

/* One line a log, then minimum, median and maximum. Text; and "across" in JSON. */
void gm_summary_many(struct gm_emit *emit, struct gm_logs_one *logs, size_t n);

#endif
