/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds sizes that are allocated and freed again and again. Memory is that of the distinct sizes.
 */
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

/* The size that was allocated most often, of those of which nine in ten blocks were freed and at
 * most one in a hundred was live at a time. All 0 if there is none, or the log has no events. */
struct gm_churn gm_churn_find(struct gm_log_file *file);

#endif
