/* SPDX-License-Identifier: BSD-3-Clause */
/* The points and the matrix of hostarrays, and what the CPU makes of them. */
#include "programs/arrays/arrays.h"

#include <stdlib.h>
#include <string.h>

#include "programs/common/args.h"

/* --- K-means --- */

/* Points lie around as many places as there are clusters, in cubes whose sides touch. */
uint8_t kmeans_feature(const struct kmeans *k, uint32_t point, uint32_t dim)
{
	uint32_t group = (uint32_t)(arrays_mix(point, 1) % k->clusters);
	return (uint8_t)(arrays_mix(group, 2 + dim) % 128 +
			 arrays_mix(arrays_mix(point, 2), dim) % 128);
}

void kmeans_begin(const struct kmeans *k, const uint8_t *feature, uint8_t *centre)
{
	for (uint32_t c = 0; c < k->clusters; c++)
		for (uint32_t d = 0; d < k->dims; d++) {
			uint64_t point = (uint64_t)c * k->points / k->clusters;
			centre[c * k->dims + d] = feature[(uint64_t)d * k->points + point];
		}
}

static uint32_t point_nearest(const struct kmeans *k, uint32_t i)
{
	uint32_t best = 0, least = UINT32_MAX;
	for (uint32_t c = 0; c < k->clusters; c++) {
		uint32_t sum = 0;
		for (uint32_t d = 0; d < k->dims; d++) {
			int by = k->feature[(uint64_t)d * k->points + i];
			by -= k->centre[c * k->dims + d];
			sum += (uint32_t)(by * by);
		}
		if (sum < least) {
			least = sum;
			best = c;
		}
	}
	return best;
}

static void centres_move(struct kmeans *k)
{
	memset(k->sum, 0, sizeof *k->sum * k->clusters * k->dims);
	memset(k->count, 0, sizeof *k->count * k->clusters);
	for (uint32_t i = 0; i < k->points; i++) {
		k->count[k->member[i]]++;
		for (uint32_t d = 0; d < k->dims; d++)
			k->sum[k->member[i] * k->dims + d] +=
				k->feature[(uint64_t)d * k->points + i];
	}
	for (uint32_t n = 0; n < k->clusters * k->dims; n++)
		if (k->count[n / k->dims])
			k->centre[n] = (uint8_t)(k->sum[n] / k->count[n / k->dims]);
}

uint32_t kmeans_reference(struct kmeans *k, uint32_t steps)
{
	for (uint32_t step = 1; step <= steps; step++) {
		uint32_t moved = 0;
		for (uint32_t i = 0; i < k->points; i++) {
			uint32_t best = point_nearest(k, i);
			moved += best != k->member[i];
			k->member[i] = best;
		}
		centres_move(k);
		if (!moved)
			return step;
	}
	return steps;
}

/* --- sparse matrix --- */

uint32_t spmv_length(uint32_t row, uint32_t average)
{
	return 1 + (uint32_t)(arrays_mix(row, 3) % (2 * average - 1));
}

uint32_t spmv_column(uint32_t row, uint32_t k, uint32_t rows)
{
	return (uint32_t)((arrays_mix(arrays_mix(row, 4), k) >> 32) * rows >> 32);
}

/* A row's sum is at most 1, so that vectors stay small. */
float spmv_value(uint32_t row, uint32_t k, uint32_t length)
{
	return (float)(1 + arrays_mix(arrays_mix(row, 5), k) % 8) / (8 * (float)length);
}

void spmv_reference(uint32_t rows, uint32_t average, uint32_t steps, float *x, float *y)
{
	for (uint32_t step = 0; step < steps; step++) {
		for (uint32_t row = 0; row < rows; row++) {
			uint32_t length = spmv_length(row, average);
			y[row] = 0;
			for (uint32_t k = 0; k < length; k++)
				y[row] += spmv_value(row, k, length) * x[spmv_column(row, k, rows)];
		}
		memcpy(x, y, rows * sizeof *x);
	}
}

/* Rows by length, the longest first; those of a length in their order. */
static void rows_sort(struct spmv *m, uint32_t average)
{
	uint32_t *from = pr_host_take(2 * (uint64_t)average + 1, sizeof *from);
	for (uint32_t row = 0; row < m->rows; row++)
		from[2 * average - spmv_length(row, average)]++;
	for (uint32_t n = 0, sum = 0; n < 2 * average; n++) {
		uint32_t count = from[n];
		from[n] = sum;
		sum += count;
	}
	for (uint32_t row = 0; row < m->rows; row++) {
		uint32_t length = spmv_length(row, average), at = from[2 * average - length]++;
		m->row[at] = row;
		m->length[at] = length;
		m->entries += length;
	}
	free(from);
}

void spmv_make(struct spmv *m, uint32_t rows, uint32_t average)
{
	*m = (struct spmv){.rows = rows};
	m->row = pr_host_take(rows, sizeof *m->row);
	m->length = pr_host_take(rows, sizeof *m->length);
	rows_sort(m, average);
	m->diagonals = m->length[0];
	m->start = pr_host_take(m->diagonals, sizeof *m->start);
	m->column = pr_host_take(m->entries, sizeof *m->column);
	m->value = pr_host_take(m->entries, sizeof *m->value);
	uint64_t at = 0;
	for (uint32_t d = 0; d < m->diagonals; d++) {
		m->start[d] = at;
		for (uint32_t r = 0; r < rows && m->length[r] > d; r++, at++) {
			m->column[at] = spmv_column(m->row[r], d, rows);
			m->value[at] = spmv_value(m->row[r], d, m->length[r]);
		}
	}
}
