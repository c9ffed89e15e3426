/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which thread a row of parts (page.h) belongs to. It stays its own for life; what a thread that
 * has ended counted stays in the row, which the next thread in need takes over.
 */
#ifndef GM_LOG_PARTS_H
#define GM_LOG_PARTS_H

#include "log/page.h"

/* Say which counter is at which place. */
void gm_parts_describe(struct gm_parts *parts);

/* A row of parts for the calling thread that adds to `row` of the page; GM_PART_ROWS: all are taken
 * by threads that live. The caller keeps others out. */
unsigned gm_parts_take(struct gm_parts *parts, unsigned row);

/* Add to `value`, row `row` of the page as far as the page itself has it, what the parts have. */
void gm_parts_sum(const struct gm_parts *parts, unsigned row, uint64_t value[GM_COUNTER_COUNT]);

/* Copy all rows that are in use. The caller keeps out whoever takes rows. */
void gm_parts_copy(const struct gm_parts *from, struct gm_parts *to);

/* In a forked child: nobody owns any row, and those of `parts` are empty. */
void gm_parts_forget(struct gm_parts *parts);

#endif
