/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Owners of the rows of parts (page.h). A row stays with its thread for the thread's life. After
 * that it keeps its counts, and another thread may take it over.
 */
#ifndef GM_LOG_PARTS_H
#define GM_LOG_PARTS_H

#include "log/page.h"

/* Write the table of counters by place. */
void gm_parts_describe(struct gm_parts *parts);

/* Take a row of parts, to be added to `row` of the page, for the calling thread. Returns its index;
 * GM_PART_ROWS: living threads own all. pre: GM_LOCK_RANK_COUNTER is held. */
unsigned gm_parts_take(struct gm_parts *parts, unsigned row);

/* Add the parts of row `row` of the page to `value`. Any thread; no lock. */
void gm_parts_sum(const struct gm_parts *parts, unsigned row, uint64_t value[GM_COUNTER_COUNT]);

/* Copy all rows in use. pre: GM_LOCK_RANK_COUNTER is held. */
void gm_parts_copy(const struct gm_parts *from, struct gm_parts *to);

/* In a forked child: no row has an owner, and those of `parts` are cleared. */
void gm_parts_forget(struct gm_parts *parts);

#endif
