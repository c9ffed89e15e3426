/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requested and mapped memory over the time of a log, drawn in characters, from usage.h and the
 * peaks of the counters. Single-threaded.
 */
#ifndef GM_TOOLS_LOG_CURVE_H
#define GM_TOOLS_LOG_CURVE_H

#include "tools/log/figures.h"
#include "tools/output/emit.h"

/* The maximum of each in a part of the time, bytes. mapped: device heaps included. */
struct gm_curve_part {
	uint64_t requested, mapped;
};

struct gm_curve {
	unsigned columns;	     /* parts of the time, of equal length */
	struct gm_curve_part *parts; /* `columns` a device */
};

/* Read the log for all of its devices. Ends the program when memory is short. The
 * caller frees. */
void gm_curve_read(struct gm_curve *curve, const struct gm_figures *figures, unsigned columns);
void gm_curve_free(struct gm_curve *curve);

/* Columns left in the output beside a label of emit->label columns and the length of the run. */
unsigned gm_curve_columns(const struct gm_emit *emit);

/* Draw the curve of a device; nothing for a device without such memory. */
void gm_curve_draw(struct gm_emit *emit, const struct gm_curve *curve,
		   const struct gm_figures *figures, unsigned device);

#endif
