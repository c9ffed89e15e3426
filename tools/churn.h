/* SPDX-License-Identifier: BSD-3-Clause */
/* Sizes that are allocated and freed over and over. */
#ifndef GM_TOOLS_CHURN_H
#define GM_TOOLS_CHURN_H

#include <stdint.h>

#include "log/read.h"

struct gm_churn {
	uint64_t size;	    /* requested */
	uint64_t allocated; /* times */
	uint64_t freed;
	uint64_t most; /* alive at a time */
};

/* Of the sizes of which nine in ten blocks were freed, and at most one in a hundred was alive at a
 * time, the one that was allocated most often; all 0 if there is none, or no events. */
struct gm_churn gm_churn_find(struct gm_log_file *file);

#endif
