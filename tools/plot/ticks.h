/* SPDX-License-Identifier: BSD-3-Clause */
/* Round values on the axis of a diagram, from 0 on, and their names. Pure functions. */
#ifndef GM_TOOLS_PLOT_TICKS_H
#define GM_TOOLS_PLOT_TICKS_H

#include <stddef.h>
#include <stdint.h>

enum gm_ticks_unit { GM_TICKS_BYTES, GM_TICKS_NS };

struct gm_ticks {
	const char *name; /* of the unit: "MiB" */
	double unit;	  /* bytes or ns */
	double step;	  /* in units: 1, 2 or 5 times a power of ten */
	unsigned n;	  /* ticks above 0 */
};

/* At most `most` ticks above 0 and up to `value`, in the largest unit with `value` at least 1 (min
 * and h: 2). */
struct gm_ticks gm_ticks_make(enum gm_ticks_unit unit, uint64_t value, unsigned most);

/* The name of tick i: "0", "20 MiB", "0.5 s". Returns `buf`. */
char *gm_ticks_name(const struct gm_ticks *ticks, unsigned i, char *buf, size_t n);

/* The value of tick i, bytes or ns. */
double gm_ticks_value(const struct gm_ticks *ticks, unsigned i);

#endif
