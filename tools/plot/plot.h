/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parts of `gpumemstat plot`: read.c reads a log into a few thousand numbers, time.c draws the
 * diagrams over time, hist.c the histograms. Lengths are pixels. Single-threaded.
 */
#ifndef GM_TOOLS_PLOT_PLOT_H
#define GM_TOOLS_PLOT_PLOT_H

#include <stdio.h>

#include "tools/log/bins.h"
#include "tools/log/figures.h"

/* Bytes, and shares from 0 to 1. */
enum gm_plot_curve {
	GM_PLOT_IN_USE,
	GM_PLOT_REQUESTED,
	GM_PLOT_MAPPED,
	GM_PLOT_TAKEN, /* mapped and lent */
	GM_PLOT_LENT,
	GM_PLOT_DRIVER,
	GM_PLOT_EXTERNAL,
	GM_PLOT_EXTERNAL_REMAP,
	GM_PLOT_UTILISATION,
	GM_PLOT_CURVES
};

/* The values of a curve within a column of pixels. */
struct gm_plot_range {
	double least, most, last;
	bool known;
};

struct gm_plot {
	FILE *out;
	const struct gm_figures *figures;
	unsigned device;
	double width;
	uint64_t length;  /* of the log, ns; at least 1 */
	unsigned columns; /* of each curve */
	struct gm_plot_range *curves[GM_PLOT_CURVES];
	double most[GM_PLOT_CURVES];
	struct {
		bool known;
		double bytes, ns;
	} peak; /* of requested memory, as in summary */
	struct {
		uint64_t n;
		double asked, ns; /* of the first */
	} refusals;
	bool trace;  /* the driver serves all requests */
	bool each;   /* fragmentation is that after each event */
	bool events; /* `bins` are known */
	struct gm_bins bins;
};

/* Margins at the left, for the names of ticks, and at the right. */
enum { GM_PLOT_BEFORE = 72, GM_PLOT_BEHIND = 20 };

/* Read `device` in plot->columns columns. Ends the program when memory is short. The caller frees.
 */
void gm_plot_read(struct gm_plot *plot);
void gm_plot_free(struct gm_plot *plot);

/* Draw a diagram with title, legend and axes, its top at `y`. Return the y of the next diagram. */
double gm_plot_usage(const struct gm_plot *plot, double y);
double gm_plot_fragmentation(const struct gm_plot *plot, double y);
double gm_plot_histograms(const struct gm_plot *plot, double y);

#endif
