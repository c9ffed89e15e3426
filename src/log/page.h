/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The page of live counters (gpumem-log(5), LAYOUT). It is mapped from the log while there is one
 * that can be mapped, so that even kill -9 leaves exact numbers, else from a memfd named "gpumem".
 */
#ifndef GM_LOG_PAGE_H
#define GM_LOG_PAGE_H

#include <stdatomic.h>
#include <stddef.h>

#include "log/counters.h"

#define GM_PAGE_MAGIC "GPUMEMCT"
#define GM_PAGE_VERSION 1
#define GM_PAGE_ROWS (1 + GM_COUNTER_DEVICES)			/* the process, then the devices */
#define GM_PAGE_STRIDE (((unsigned)GM_COUNTER_COUNT + 7) & ~7u) /* rows begin on cache lines */

struct gm_page_head {
	char magic[8];
	uint32_t version;
	uint32_t counters; /* values used in each row, in the order of counters.def */
	uint32_t stride;   /* values from one row to the next */
	uint32_t rows;
	uint32_t pid;
	uint32_t closed;   /* 1: the log was closed cleanly */
	uint64_t start;	   /* CLOCK_MONOTONIC, ns */
	uint64_t last;	   /* last sign of life, likewise */
	uint64_t sequence; /* newest segment of the log */
	uint64_t length;   /* of the log, bytes */
};

struct gm_counter_page {
	struct gm_page_head head;
	_Atomic uint64_t value[GM_PAGE_ROWS][GM_PAGE_STRIDE];
};
_Static_assert(offsetof(struct gm_counter_page, value) == 64, "values begin on a cache line");

/* Fill in what stands before the values. */
void gm_counters_describe(struct gm_page_head *head);

/*
 * Move the live counters into `page`, or back into private memory (NULL: the values stay as they
 * are and the old page is left alone from now on). The caller sees to it that nobody counts
 * meanwhile, or accepts that a count in flight goes to the old page.
 */
void gm_counters_move(struct gm_counter_page *page);

/* Copy the live values, not the head, while others count: each is one that it had. */
void gm_counters_copy(struct gm_counter_page *to);

/* The page that is counted in now. */
struct gm_counter_page *gm_counters_page(void);

#endif
