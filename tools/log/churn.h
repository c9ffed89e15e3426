/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the size that is allocated and freed most often. Memory use: the distinct sizes. */
#ifndef GM_TOOLS_LOG_CHURN_H
#define GM_TOOLS_LOG_CHURN_H

#include <stdint.h>

#include "log/read.h"

struct gm_churn {
	uint64_t size;	    /* requested */
	uint64_t allocated; /* number of allocations */
	uint64_t freed;
	uint64_t most; /* most live at a time */
};

/* The size with most allocations, among sizes with at least nine of ten blocks freed and at most
 * one of a hundred live at a time. All 0: no such size, or no events in the log. */
struct gm_churn gm_churn_find(struct gm_log_file *file);

#endif
