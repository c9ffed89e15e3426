/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matrices: of the size and kind of those that the thesis took from SuiteSparse, a skewed one, and
 * files of MatrixMarket. Values are replaced by whole numbers from 1 to 7.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs/common/coordinates.h"
#include "spgemm.h"

/*
 * Tables 4.1 and 5.2: rows, entries, and how many products there are for an entry of the square. A
 * band whose rows have d entries among w columns has about d * d products a row, and 2 w entries in
 * a row of the square: so w is d * d / 2 / overestimation. A grid has 7 points.
 */
static const struct kind {
	const char *name;
	uint32_t rows, entries;
	double overestimation; /* 0: a grid; below 0: rows of skewed lengths, at any columns */
} kinds[] = {
	{"atmosmodl", 1489752, 10319760, 0},
	{"pwtk", 217918, 11524432, 19.103},
	{"af_shell10", 1508065, 52259885, 12.897},
	{"cage14", 1505785, 27130349, 2.246},
	{"nv2", 1453908, 37475646, 6.552},
	{"Hook_1498", 1498023, 59374451, 8.863},
	{"BenElechi1", 245874, 13150496, 19.458},
	{"atmosmodm", 1489752, 10319760, 0},
	{"Geo_1438", 1437960, 60236322, 10.207},
	{"af_3_k101", 503625, 17550675, 12.901},
	{"Hardesty1", 938905, 12143314, 4.117},
	{"Serena", 1391349, 64131971, 9.854},
	{"boneS10", 914898, 40878708, 16.741},
	{"Emilia_923", 923136, 40373538, 10.198},
	{"dgreen", 1200611, 26606169, 6.035},
	{"SS", 1652680, 34753577, 4.969},
	{"Fault_639", 638802, 27245944, 10.256},
	{"Transport", 1602111, 23487281, 3.470},
	{"nlpkkt80", 1062400, 28192672, 5.110},
	{"cage15", 5154859, 99199551, 2.246}, /* the thesis has no figure: that of cage14 */
	{"skew", 1000000, 8000000, -1},
};
#define KINDS (sizeof kinds / sizeof *kinds)

void sp_matrix_list(void)
{
	printf("Names: ");
	for (unsigned i = 0; i < KINDS; i++)
		printf("%s%s", kinds[i].name, i + 1 < KINDS ? ", " : "\n");
}

void sp_matrix_free(struct sp_matrix *m)
{
	free(m->start);
	free(m->column);
	free(m->value);
	*m = (struct sp_matrix){0};
}

static bool matrix_alloc(struct sp_matrix *m, uint32_t rows, uint64_t entries, char why[256])
{
	m->rows = rows;
	m->start = calloc(rows + UINT64_C(1), sizeof *m->start);
	m->column = malloc((entries ? entries : 1) * sizeof *m->column);
	m->value = malloc((entries ? entries : 1) * sizeof *m->value);
	if (m->start && m->column && m->value)
		return true;
	sp_matrix_free(m);
	return pr_why_lacks(rows, entries, why);
}

/* --- generators --- */

static uint64_t mixed(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static double whole_value(uint64_t row, uint64_t column)
{
	return (double)(mixed(row << 32 | column) % 7 + 1);
}

/* `n` columns from `from` to `from` + `width`, in order: one in each n-th part. */
static uint32_t columns_spread(struct sp_matrix *m, uint32_t row, uint32_t at, uint64_t from,
			       uint64_t width, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		uint64_t low = i * width / n, high = (i + 1) * width / n;
		m->column[at++] =
			(uint32_t)(from + low +
				   mixed((uint64_t)row << 20 ^ i) % (high > low ? high - low : 1));
	}
	return at;
}

/* How many entries the row has: on average entries / rows; of skewed rows few have very many. */
static uint64_t row_length(const struct kind *k, uint32_t rows, uint32_t row)
{
	double mean = (double)k->entries / k->rows;
	if (k->overestimation < 0) {
		double uniform = (double)(mixed(row) >> 11) / 9007199254740992.0 + 1e-9;
		double length = mean / 3 / pow(uniform, 2.0 / 3); /* a mean of `mean` */
		return length < rows / 4.0 ? (uint64_t)length : rows / 4;
	}
	return (uint64_t)((row + 1) * mean) - (uint64_t)(row * mean);
}

static void band_make(const struct kind *k, struct sp_matrix *m)
{
	uint64_t rows = m->rows;
	uint32_t at = 0;
	for (uint32_t r = 0; r < rows; r++) {
		uint64_t n = row_length(k, m->rows, r), width = rows;
		if (k->overestimation > 0)
			width = (uint64_t)((double)n * (double)n / 2 / k->overestimation);
		width = width < n ? n : width > rows ? rows : width;
		n = n < rows ? n : rows;
		uint64_t from = r > width / 2 ? r - width / 2 : 0;
		from = k->overestimation < 0 ? 0 : from + width > rows ? rows - width : from;
		at = columns_spread(m, r, at, from, width, n);
		m->start[r + 1] = at;
	}
}

static void grid_make(struct sp_matrix *m)
{
	int64_t rows = m->rows, side = (int64_t)cbrt((double)rows);
	const int64_t steps[] = {-side * side, -side, -1, 0, 1, side, side * side};
	uint32_t at = 0;
	for (int64_t r = 0; r < rows; r++) {
		int64_t last = -1;
		for (unsigned i = 0; i < 7; i++)
			if (r + steps[i] > last && r + steps[i] < rows) {
				last = r + steps[i];
				m->column[at++] = (uint32_t)last;
			}
		m->start[r + 1] = at;
	}
}

static bool kind_make(const struct kind *k, double share, struct sp_matrix *m, char why[256])
{
	uint32_t rows = (uint32_t)(k->rows * share);
	uint64_t entries = 0;
	rows = rows ? rows : 1;
	for (uint32_t r = 0; r < rows && k->overestimation; r++)
		entries += row_length(k, rows, r);
	if (!matrix_alloc(m, rows, k->overestimation ? entries : rows * UINT64_C(7), why))
		return false;
	if (k->overestimation)
		band_make(k, m);
	else
		grid_make(m);
	for (uint32_t r = 0; r < rows; r++)
		for (uint32_t i = m->start[r]; i < m->start[r + 1]; i++)
			m->value[i] = whole_value(r, m->column[i]);
	return true;
}

/* --- files --- */

static bool file_make(const char *name, struct sp_matrix *m, char why[256])
{
	struct pr_coordinates file;
	struct pr_rows rows;
	if (!pr_reader_read(name, &file, why))
		return false;
	bool made = pr_rows_make(&file, &rows, why);
	pr_coordinates_free(&file);
	if (!made)
		return false;
	m->rows = rows.rows;
	m->start = rows.start;
	m->column = rows.column;
	m->value = malloc((m->start[m->rows] + UINT64_C(1)) * sizeof *m->value);
	if (!m->value) {
		const uint64_t entries = m->start[m->rows];
		sp_matrix_free(m);
		return pr_why_lacks(rows.rows, entries, why);
	}
	for (uint32_t r = 0; r < m->rows; r++)
		for (uint32_t i = m->start[r]; i < m->start[r + 1]; i++)
			m->value[i] = whole_value(r, m->column[i]);
	return true;
}

bool sp_matrix_make(const char *name, double share, struct sp_matrix *out, char why[256])
{
	for (unsigned i = 0; i < KINDS; i++)
		if (strcmp(name, kinds[i].name) == 0)
			return kind_make(&kinds[i], share, out, why);
	if (pr_reader_knows(name))
		return file_make(name, out, why);
	snprintf(why, 256, "%.200s: no such matrix; --help names them", name);
	errno = EINVAL;
	return false;
}

/* --- the CPU's result --- */

bool sp_matrix_square(const struct sp_matrix *m, uint64_t *entries, uint64_t *checksum)
{
	double *sum = calloc(m->rows, sizeof *sum); /* 0: no entry, for values are above it */
	uint32_t *columns = malloc(m->rows * sizeof *columns);
	bool done = sum && columns;
	*entries = *checksum = 0;
	for (uint32_t r = 0; done && r < m->rows; r++) {
		uint32_t n = 0;
		for (uint32_t a = m->start[r]; a < m->start[r + 1]; a++)
			for (uint32_t k = m->column[a], b = m->start[k]; b < m->start[k + 1]; b++) {
				if (sum[m->column[b]] == 0)
					columns[n++] = m->column[b];
				sum[m->column[b]] += m->value[a] * m->value[b];
			}
		for (uint32_t i = 0; i < n; i++) {
			*checksum += sp_entry_mix(r, columns[i], sum[columns[i]]);
			sum[columns[i]] = 0;
		}
		*entries += n;
	}
	free(sum);
	free(columns);
	return done;
}
