/* SPDX-License-Identifier: BSD-3-Clause */
#include "stack/lines.h"

enum { NO_LINE = -128 };

static int lnotab_find(const uint8_t *table, size_t n, int line, int at)
{
	int begin = 0;
	for (; n >= 2 && (begin += table[0]) <= at; table += 2, n -= 2)
		line += (int8_t)table[1];
	return line;
}

static int ranges_find(const uint8_t *table, size_t n, int line, int at)
{
	int end = 0;
	for (; n >= 2; table += 2, n -= 2) {
		const int step = (int8_t)table[1];
		if (step != NO_LINE)
			line += step;
		end += table[0];
		if (at < end)
			return step == NO_LINE ? 0 : line;
	}
	return 0;
}

/* The forms of an entry that change the line. */
enum { ONE_LINE = 10, ONE_LINE_LAST = 12, NO_COLUMNS = 13, LONG = 14, NONE = 15 };

/* A signed number in groups of six bits, the sign in its lowest bit. */
static int step_read(const uint8_t **table, const uint8_t *end)
{
	unsigned value = 0, shift = 0, byte = 64;
	while (byte & 64 && *table < end && shift < 30) {
		byte = *(*table)++;
		value |= (byte & 63) << shift;
		shift += 6;
	}
	return value & 1 ? -(int)(value >> 1) : (int)(value >> 1);
}

/* The first byte of an entry, alone, has its highest bit set. */
static int locations_find(const uint8_t *table, size_t n, int line, int at)
{
	const uint8_t *end = table + n;
	int stop = 0; /* of the entry's instructions, in units of two bytes */
	while (table < end) {
		const unsigned form = *table >> 3 & 15;
		stop += (*table++ & 7) + 1;
		if (form >= ONE_LINE && form <= ONE_LINE_LAST)
			line += (int)form - ONE_LINE;
		else if (form == NO_COLUMNS || form == LONG)
			line += step_read(&table, end);
		if (at / 2 < stop)
			return form == NONE ? 0 : line;
		while (table < end && !(*table & 128))
			table++;
	}
	return 0;
}

int gm_lines_find(enum gm_lines_form form, const uint8_t *table, size_t n, int first, int at)
{
	if (at < 0)
		return first;
	return form == GM_LINES_LNOTAB	 ? lnotab_find(table, n, first, at)
	       : form == GM_LINES_RANGES ? ranges_find(table, n, first, at)
					 : locations_find(table, n, first, at);
}
