/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fence behind all work of all contexts of the process: one event in each (context/fence.h). Any
 * thread may call these functions, with no lock held.
 */
#ifndef GM_CONTEXT_EVERYWHERE_H
#define GM_CONTEXT_EVERYWHERE_H

#include "context/fence_ops.h"

#define GM_EVERYWHERE_CONTEXTS 16

struct gm_everywhere {
	unsigned n;
	struct {
		uint64_t context; /* its key */
		CUevent event;	  /* NULL: its work was complete */
	} at[GM_EVERYWHERE_CONTEXTS];
};

/* Record it. CUDA_SUCCESS: the caller owns *out until gm_everywhere_passed returns SUCCESS, or
 * gm_everywhere_drop. CUDA_ERROR_NOT_READY: a capture is open, or there are more contexts than
 * GM_EVERYWHERE_CONTEXTS; else the driver's error. */
CUresult gm_everywhere_record(const struct gm_fence_ops *ops, void *arg, struct gm_everywhere *out);

/* CUDA_SUCCESS: it has passed, and is dropped. CUDA_ERROR_NOT_READY: it is pending. Else the
 * driver's error: it is pending. */
CUresult gm_everywhere_passed(const struct gm_fence_ops *ops, void *arg, struct gm_everywhere *all);
void gm_everywhere_drop(const struct gm_fence_ops *ops, void *arg, struct gm_everywhere *all);

#endif
