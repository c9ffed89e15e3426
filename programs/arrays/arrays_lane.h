/* SPDX-License-Identifier: BSD-3-Clause */
/* What a thread does, on the GPU, and on the CPU for the simulated driver. */
#ifndef ARRAYS_LANE_H
#define ARRAYS_LANE_H

#include "programs/arrays/arrays.h"
#include "programs/common/lane.h"

PR_LANE uint32_t kmeans_distance(const struct kmeans *k, uint32_t i, uint32_t cluster)
{
	uint32_t sum = 0;
	for (uint32_t d = 0; d < k->dims; d++) {
		int32_t by = (int32_t)k->feature[(uint64_t)d * k->points + i] -
			     (int32_t)k->centre[cluster * k->dims + d];
		sum += (uint32_t)(by * by);
	}
	return sum;
}

/* Of clusters as near as each other, the first one. */
PR_LANE void lane_assign(const struct kmeans *k, uint32_t i)
{
	uint32_t best = 0, least = kmeans_distance(k, i, 0);
	for (uint32_t c = 1; c < k->clusters; c++) {
		uint32_t distance = kmeans_distance(k, i, c);
		if (distance < least) {
			least = distance;
			best = c;
		}
	}
	if (k->member[i] != best)
		pr_add32(k->moved, 1);
	k->member[i] = best;
	pr_add32(&k->count[best], 1);
	for (uint32_t d = 0; d < k->dims; d++)
		pr_add32(&k->sum[best * k->dims + d], k->feature[(uint64_t)d * k->points + i]);
}

/* A cluster without points keeps its centre. */
PR_LANE void lane_centre(const struct kmeans *k, uint32_t c)
{
	uint32_t count = k->count[c];
	for (uint32_t d = 0; d < k->dims; d++) {
		uint32_t *sum = &k->sum[c * k->dims + d];
		if (count)
			k->centre[c * k->dims + d] = (uint8_t)(*sum / count);
		*sum = 0;
	}
	k->count[c] = 0;
}

PR_LANE void lane_spmv(const struct spmv *m, const float *x, float *y, uint32_t r)
{
	float sum = 0;
	for (uint32_t d = 0; d < m->length[r]; d++) {
		uint64_t at = m->start[d] + r;
		sum += m->value[at] * x[m->column[at]];
	}
	y[m->row[r]] = sum;
}

#endif
