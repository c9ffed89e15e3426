/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/plot/ticks.h"

#include <stdio.h>

static const struct unit {
	const char *name;
	uint64_t least; /* the smallest end of an axis in this unit */
	double scale;
} bytes[] = {{"EiB", 1ull << 60, 0x1p60},
	     {"PiB", 1ull << 50, 0x1p50},
	     {"TiB", 1ull << 40, 0x1p40},
	     {"GiB", 1ull << 30, 0x1p30},
	     {"MiB", 1ull << 20, 0x1p20},
	     {"KiB", 1ull << 10, 0x1p10},
	     {"B", 0, 1}},
  times[] = {{"h", 7200000000000, 3.6e12}, {"min", 120000000000, 6e10}, {"s", 1000000000, 1e9},
	     {"ms", 1000000, 1e6},	   {"us", 1000, 1e3},		{"ns", 0, 1}};

struct gm_ticks gm_ticks_make(enum gm_ticks_unit unit, uint64_t value, unsigned most)
{
	static const double round[] = {1, 2, 5, 10};
	const struct unit *at = unit == GM_TICKS_BYTES ? bytes : times;
	while (value < at->least)
		at++;
	const double span = (double)value / at->scale;
	/* Steps of bytes and ns are whole numbers; steps of other units may be fractions. */
	double step = at->scale > 1 ? 1e-3 : 1;
	for (unsigned i = 0; span > step * most; i = (i + 1) % 3)
		step *= round[i + 1] / round[i];
	return (struct gm_ticks){at->name, at->scale, step, (unsigned)(span / step + 1e-9)};
}

char *gm_ticks_name(const struct gm_ticks *ticks, unsigned i, char *buf, size_t n)
{
	snprintf(buf, n, i ? "%.10g %s" : "0", i * ticks->step, ticks->name);
	return buf;
}

double gm_ticks_value(const struct gm_ticks *ticks, unsigned i)
{
	return i * ticks->step * ticks->unit;
}
