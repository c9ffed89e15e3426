/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a warp does with a row of the result. The columns that the row has so far are searched by
 * all lanes at once, and a new one is put behind them; where the last segment is full, the row
 * takes another one. On the CPU, for the simulated driver, a warp has one lane.
 *
 * One warp at a time has a row, so its entries need no atomic operations.
 */
#ifndef SPGEMM_ROWS_H
#define SPGEMM_ROWS_H

#include "spgemm.h"

#ifdef __CUDACC__
#define SP_ROW static __device__ inline
#define SP_LANES 32u
#define sp_lane() (threadIdx.x % SP_LANES)
#define sp_any(condition) (__any_sync(~0u, (condition)) != 0)
#define sp_meet() __syncwarp()
#define sp_first(value) __shfl_sync(~0u, (value), 0)
#define sp_add32(at, n) atomicAdd((at), (n))
#define sp_add64(at, n) atomicAdd((unsigned long long *)(at), (unsigned long long)(n))
#define sp_max32(at, n) atomicMax((at), (n))
#else
#include <stdlib.h>
#define SP_ROW static inline
#define SP_LANES 1u
#define sp_lane() 0u
#define sp_any(condition) (condition)
#define sp_meet() ((void)0)
#define sp_first(value) (value)
#define sp_add32(at, n) __atomic_fetch_add((at), (n), __ATOMIC_RELAXED)
#define sp_add64(at, n) __atomic_fetch_add((at), (uint64_t)(n), __ATOMIC_RELAXED)
#define sp_max32(at, n) ((void)(*(at) = *(at) < (n) ? (n) : *(at)))
#endif

SP_ROW uint32_t *segment_columns(struct sp_segment *s)
{
	return (uint32_t *)(s + 1);
}

SP_ROW double *segment_values(struct sp_segment *s)
{
	uint64_t columns = ((uint64_t)s->slots * sizeof(uint32_t) + 7) / 8 * 8;
	return (double *)((char *)(s + 1) + columns);
}

SP_ROW uint64_t segment_bytes(uint32_t slots)
{
	return sizeof(struct sp_segment) + ((uint64_t)slots * sizeof(uint32_t) + 7) / 8 * 8 +
	       slots * sizeof(double);
}

#define SP_LONGEST (1u << 20) /* slots of a segment of malloc */

SP_ROW uint32_t row_next_slots(const struct sp_work *w, const struct sp_row *row, uint32_t r)
{
	if (w->count)
		return w->count[r];
	if (w->space)
		return w->size;
	uint64_t slots = (uint64_t)w->size << (row->segments < 20 ? row->segments : 20);
	return slots < SP_LONGEST ? (uint32_t)slots : SP_LONGEST;
}

/* The first lane's: a segment, or NULL. */
SP_ROW struct sp_segment *segment_take(struct sp_work *w, uint32_t slots)
{
	uint64_t bytes = segment_bytes(slots);
	struct sp_segment *s = 0;
	if (!w->space) {
		s = (struct sp_segment *)malloc(bytes);
	} else {
		uint64_t at = sp_add64(&w->used, bytes);
		if (at + bytes <= w->space_bytes)
			s = (struct sp_segment *)(w->space + at);
	}
	if (!s)
		return s;
	s->next = 0;
	s->slots = slots;
	s->used = 0;
	sp_add64(&w->slots, slots);
	sp_add64(&w->bytes, bytes);
	return s;
}

/* Behind the last segment of the row. False: the budget is used up, or there is no space. */
SP_ROW bool row_extend(struct sp_work *w, struct sp_row *row, uint32_t r, uint32_t *budget)
{
	struct sp_segment *s = 0;
	if (*budget == 0)
		return false;
	if (sp_lane() == 0)
		s = segment_take(w, row_next_slots(w, row, r));
	s = (struct sp_segment *)sp_first((unsigned long long)(uintptr_t)s);
	if (!s)
		return false;
	if (row->last && sp_lane() == 0)
		row->last->next = s;
	row->first = row->first ? row->first : s;
	row->last = s;
	row->segments++;
	--*budget;
	sp_meet();
	return true;
}

/* Add to the entry of that column. False: the row has none. */
SP_ROW bool row_add(struct sp_row *row, uint32_t column, double value)
{
	for (struct sp_segment *s = row->first; s; s = s->next) {
		const uint32_t *columns = segment_columns(s), used = s->used;
		for (uint32_t from = 0; from < used; from += SP_LANES) {
			uint32_t i = from + sp_lane();
			bool here = i < used && columns[i] == column;
			if (!sp_any(here))
				continue;
			if (here)
				segment_values(s)[i] += value;
			sp_meet();
			return true;
		}
	}
	return false;
}

SP_ROW bool row_put(struct sp_work *w, struct sp_row *row, uint32_t r, uint32_t column,
		    double value, uint32_t *budget)
{
	if (row_add(row, column, value))
		return true;
	if ((!row->last || row->last->used == row->last->slots) && !row_extend(w, row, r, budget))
		return false;
	sp_meet(); /* all have read `used` */
	if (sp_lane() == 0) {
		uint32_t at = row->last->used++;
		segment_columns(row->last)[at] = column;
		segment_values(row->last)[at] = value;
	}
	sp_meet();
	return true;
}

/* Go on with the row. False: it needs more space. */
SP_ROW bool row_compute(struct sp_work *w, struct sp_row *row, uint32_t r, uint32_t budget)
{
	const struct sp_matrix *m = &w->matrix;
	for (; row->a < m->start[r + 1]; row->a++) {
		uint32_t k = m->column[row->a], end = m->start[k + 1];
		double value = m->value[row->a];
		for (row->b = row->b ? row->b : m->start[k]; row->b < end; row->b++)
			if (!row_put(w, row, r, m->column[row->b], value * m->value[row->b],
				     &budget))
				return false;
		row->b = 0;
	}
	return true;
}

/* One listed row; false: there is none left. */
SP_ROW bool warp_compute_next(struct sp_work *w)
{
	uint32_t at = sp_lane() == 0 ? sp_add32(&w->taken, 1u) : 0;
	at = sp_first(at);
	if (at >= w->listed)
		return false;
	uint32_t r = w->list[at];
	struct sp_row row = w->row[r];
	bool done = row_compute(w, &row, r, w->budget);
	if (sp_lane() == 0) {
		w->row[r] = row;
		if (!done)
			w->next[sp_add32(&w->remaining, 1u)] = r;
	}
	sp_meet();
	return true;
}

/* The rows that remain are the list of the next round. */
SP_ROW void round_begin(struct sp_work *w)
{
	uint32_t *list = w->list;
	w->list = w->next;
	w->next = list;
	w->listed = w->remaining;
	w->taken = 0;
	w->remaining = 0;
	w->rounds++;
}

/* Count the entries of the next listed row in a segment of scratch. */
SP_ROW bool warp_count_next(struct sp_work *w, struct sp_segment *scratch, uint32_t slots)
{
	uint32_t at = sp_lane() == 0 ? sp_add32(&w->taken, 1u) : 0;
	at = sp_first(at);
	if (at >= w->listed)
		return false;
	uint32_t r = w->list[at];
	struct sp_row row = {scratch, scratch, w->matrix.start[r], 0, 0};
	if (sp_lane() == 0) {
		scratch->next = 0;
		scratch->slots = slots;
		scratch->used = 0;
	}
	sp_meet();
	row_compute(w, &row, r, 0);
	if (sp_lane() == 0) {
		w->count[r] = scratch->used;
		if (scratch->used) {
			sp_add64(&w->slots, scratch->used);
			sp_add64(&w->bytes, segment_bytes(scratch->used));
		}
	}
	sp_meet();
	return true;
}

/* The products of a row: no row of the result has more entries, nor more than there are columns. */
SP_ROW void row_upper(struct sp_work *w, uint32_t r)
{
	const struct sp_matrix *m = &w->matrix;
	uint64_t products = 0;
	for (uint32_t a = m->start[r]; a < m->start[r + 1]; a++)
		products += m->start[m->column[a] + 1] - m->start[m->column[a]];
	uint32_t slots = products < m->rows ? (uint32_t)products : m->rows;
	w->count[r] = slots;
	if (!slots)
		return;
	sp_add64(&w->slots, slots);
	sp_add64(&w->bytes, segment_bytes(slots));
	sp_max32(&w->longest, slots);
}

/* One lane's: the entries of a row; segments of malloc are freed. */
SP_ROW void row_finish(struct sp_work *w, uint32_t r)
{
	uint64_t entries = 0, checksum = 0;
	for (struct sp_segment *s = w->row[r].first, *next; s; s = next) {
		for (uint32_t i = 0; i < s->used; i++)
			checksum += sp_entry_mix(r, segment_columns(s)[i], segment_values(s)[i]);
		entries += s->used;
		next = s->next;
		if (!w->space)
			free(s);
	}
	sp_add64(&w->entries, entries);
	sp_add64(&w->checksum, checksum);
}

#endif
