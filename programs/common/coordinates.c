/* SPDX-License-Identifier: BSD-3-Clause */
#include "programs/common/coordinates.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_ENTRIES (UINT32_MAX / 2)

bool pr_coordinates_make(struct pr_coordinates *c, uint64_t entries, char why[256])
{
	c->entries = 0;
	c->row = malloc((entries + 1) * sizeof *c->row);
	c->column = malloc((entries + 1) * sizeof *c->column);
	if (c->row && c->column)
		return true;
	pr_coordinates_free(c);
	snprintf(why, 256, "no memory of the host for %" PRIu64 " entries", entries);
	return false;
}

void pr_coordinates_free(struct pr_coordinates *c)
{
	free(c->row);
	free(c->column);
	*c = (struct pr_coordinates){0};
}

/* --- files --- */

struct file {
	FILE *stream;
	const char *comment; /* with which lines begin that say nothing */
	uint64_t line, entries;
	bool symmetric;
};

static bool file_line(struct file *f, char line[1024])
{
	do {
		f->line++;
		if (!fgets(line, 1024, f->stream))
			return false;
	} while (strncmp(line, f->comment, strlen(f->comment)) == 0 ||
		 line[strspn(line, " \t\r\n")] == '\0');
	return true;
}

/* Each of these returns what is wrong; NULL: nothing. */

static const char *size_check(const struct file *f, const struct pr_coordinates *c)
{
	bool fits = c->rows && c->rows < UINT32_MAX && f->entries < MOST_ENTRIES;
	return fits ? NULL : "too large, or empty";
}

static const char *market_head(struct file *f, struct pr_coordinates *out)
{
	char line[1024], object[64], format[64], field[64], symmetry[64];
	uint64_t columns;
	f->line = 1;
	if (!fgets(line, sizeof line, f->stream) ||
	    sscanf(line, "%%%%MatrixMarket %63s %63s %63s %63s", object, format, field, symmetry) !=
		    4)
		return "not a file of MatrixMarket";
	if (strcmp(object, "matrix") != 0 || strcmp(format, "coordinate") != 0)
		return "not a matrix of coordinates";
	f->symmetric = strcmp(symmetry, "general") != 0;
	if (!file_line(f, line) || sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu64, &out->rows,
					  &columns, &f->entries) != 3)
		return "its size is missing";
	return out->rows == columns ? size_check(f, out) : "not a square";
}

static const char *dimacs_head(struct file *f, struct pr_coordinates *out)
{
	char line[1024];
	if (!file_line(f, line) ||
	    sscanf(line, "p sp %" SCNu64 " %" SCNu64, &out->rows, &f->entries) != 2)
		return "not a graph of DIMACS";
	return size_check(f, out);
}

static const char *entries_read(struct file *f, const char *format, struct pr_coordinates *out)
{
	char line[1024];
	for (uint64_t i = 0; i < f->entries; i++) {
		uint64_t r, c;
		if (!file_line(f, line))
			return "it ends before its last entry";
		if (sscanf(line, format, &r, &c) != 2 || !r || !c || r > out->rows || c > out->rows)
			return "not an entry";
		for (int half = 0; half < (f->symmetric && r != c ? 2 : 1); half++) {
			out->row[out->entries] = (uint32_t)(half ? c : r) - 1;
			out->column[out->entries++] = (uint32_t)(half ? r : c) - 1;
		}
	}
	return NULL;
}

static bool file_read(const char *name, struct file f,
		      const char *(*head)(struct file *f, struct pr_coordinates *out),
		      const char *format, struct pr_coordinates *out, char why[256])
{
	f.stream = fopen(name, "r");
	*out = (struct pr_coordinates){0};
	if (!f.stream) {
		snprintf(why, 256, "%.200s: %s", name, strerror(errno));
		return false;
	}
	const char *fault = head(&f, out);
	bool room = fault || pr_coordinates_make(out, f.entries << f.symmetric, why);
	if (!fault && room)
		fault = entries_read(&f, format, out);
	if (fault) {
		snprintf(why, 256, "%.180s: line %" PRIu64 ": %s", name, f.line, fault);
		pr_coordinates_free(out);
	}
	fclose(f.stream);
	return room && !fault;
}

bool pr_coordinates_market(const char *name, struct pr_coordinates *out, char why[256])
{
	return file_read(name, (struct file){.comment = "%"}, market_head, "%" SCNu64 " %" SCNu64,
			 out, why);
}

bool pr_coordinates_dimacs(const char *name, struct pr_coordinates *out, char why[256])
{
	return file_read(name, (struct file){.comment = "c"}, dimacs_head, "a %" SCNu64 " %" SCNu64,
			 out, why);
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
		snprintf(why, 256, "no memory of the host for %" PRIu64 " entries", c->entries);
		return false;
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
