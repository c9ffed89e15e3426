/* SPDX-License-Identifier: BSD-3-Clause */
#include "programs/common/coordinates.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

bool pr_why_lacks(uint64_t rows, uint64_t entries, char why[256])
{
	snprintf(why, 256, "no memory of the host for %" PRIu64 " rows and %" PRIu64 " entries",
		 rows, entries);
	errno = ENOMEM;
	return false;
}

bool pr_coordinates_make(struct pr_coordinates *c, uint64_t entries, char why[256])
{
	const uint64_t rows = c->rows;
	c->entries = 0;
	c->row = malloc((entries + 1) * sizeof *c->row);
	c->column = malloc((entries + 1) * sizeof *c->column);
	if (c->row && c->column)
		return true;
	pr_coordinates_free(c);
	return pr_why_lacks(rows, entries, why);
}

void pr_coordinates_free(struct pr_coordinates *c)
{
	free(c->row);
	free(c->column);
	*c = (struct pr_coordinates){0};
}

/* --- rows --- */

void pr_rows_free(struct pr_rows *r)
{
	free(r->start);
	free(r->column);
	*r = (struct pr_rows){0};
}

static int column_compare(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

/* By rows; the columns of a row as they came. */
static void rows_sort(const struct pr_coordinates *c, struct pr_rows *out)
{
	for (uint64_t i = 0; i < c->entries; i++)
		out->start[c->row[i] + 1]++;
	for (uint64_t r = 0; r < c->rows; r++)
		out->start[r + 1] += out->start[r];
	for (uint64_t i = 0; i < c->entries; i++)
		out->column[out->start[c->row[i]]++] = c->column[i];
	for (uint64_t r = c->rows; r > 0; r--)
		out->start[r] = out->start[r - 1];
	out->start[0] = 0;
}

bool pr_rows_make(const struct pr_coordinates *c, struct pr_rows *out, char why[256])
{
	out->rows = (uint32_t)c->rows;
	out->start = calloc(c->rows + 1, sizeof *out->start);
	out->column = malloc((c->entries + 1) * sizeof *out->column);
	if (!out->start || !out->column) {
		pr_rows_free(out);
		return pr_why_lacks(c->rows, c->entries, why);
	}
	rows_sort(c, out);
	uint32_t at = 0, from = 0;
	for (uint32_t r = 0; r < out->rows; r++) {
		uint32_t end = out->start[r + 1], first = at;
		qsort(out->column + from, end - from, sizeof *out->column, column_compare);
		for (uint32_t i = from; i < end; i++)
			if (at == first || out->column[at - 1] != out->column[i])
				out->column[at++] = out->column[i];
		from = end;
		out->start[r + 1] = at;
	}
	return true;
}
