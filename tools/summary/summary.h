/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef GM_TOOLS_SUMMARY_SUMMARY_H
#define GM_TOOLS_SUMMARY_SUMMARY_H

#include "tools/log/course.h"
#include "tools/log/logs.h"

/* Show one log. JSON: members of the caller's open object. */
void gm_summary_one(struct gm_emit *emit, struct gm_logs_one *log);

/* The knobs with values other than the default, "NAME=VALUE, ...", without knobs of other lines;
 * NULL: none. The caller frees. */
char *gm_summary_knobs(const struct gm_log_about *about);

/* short.c: one log on a few lines, in text. */
void gm_summary_short(struct gm_emit *emit, struct gm_figures *figures);

/* A line in text: sleeps and wakes of the process, and what left this device; nothing if nothing
 * did. */
void gm_summary_sleep(struct gm_emit *emit, const struct gm_figures *figures, unsigned device);

/* frag.c: fragmentation of a device: now, peak, mean. `all`: external fragmentation also of little
 * idle memory. */
void gm_summary_fragmentation(struct gm_emit *emit, const struct gm_figures *figures,
			      unsigned device, const struct gm_course *course, bool all);

/* JSON: the pool's members of a sample, into the caller's open object. */
void gm_summary_pool(struct gm_emit *emit, const struct gm_sample *sample);

/* foreign.c: foreign and unaccounted memory of a device; host memory and other counts of the
 * process. */
void gm_summary_foreign(struct gm_emit *emit, const struct gm_figures *figures, unsigned device);
/* One line with the peaks of a device's kinds of foreign memory; nothing without such memory. */
void gm_summary_foreign_line(struct gm_emit *emit, const struct gm_figures *figures,
			     unsigned device);
void gm_summary_process(struct gm_emit *emit, const struct gm_figures *figures);

/* heap.c: malloc in kernels of a device, its contexts and heaps; the loaded images. */
void gm_summary_heaps(struct gm_emit *emit, struct gm_figures *figures, unsigned device);
void gm_summary_images(struct gm_emit *emit, const struct gm_figures *figures);

/* "heap_kernels": the growths of a device's heaps by kernel. JSON has the names as the compiler
 * gave them, unless `demangled`. */
void gm_summary_heap_kernels(struct gm_emit *emit, struct gm_figures *figures, unsigned device,
			     bool demangled);

/* table.c: private tables that gpumem does not know. */
void gm_summary_tables(struct gm_emit *emit, const struct gm_figures *figures);

/* refused.c: calls that lacked memory, and who had it then. */
void gm_summary_refused(struct gm_emit *emit, const struct gm_figures *figures);

/* copy.c: copies by the kind of host memory: a table in JSON, a line in text. */
void gm_summary_copies(struct gm_emit *emit, const struct gm_figures *figures);

#endif
