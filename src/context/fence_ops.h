/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The pool's only view of the GPU's progress: one table of calls. context/fence.h has the one
 * implementation outside unit tests. Each call names a context by its key; `arg` is the pool's
 * fence_arg. Any thread may call, with no lock held. Fences of one context pass in the order in
 * which they were recorded. A context that has ended has no pending work.
 */
#ifndef GM_CONTEXT_FENCE_OPS_H
#define GM_CONTEXT_FENCE_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/driver.h"

/* How a wait ended. */
enum gm_fenced {
	GM_FENCED_PASSED, /* all work submitted to the context before the call has completed */
	GM_FENCED_LATER,  /* open stream captures forbid a fence: retire the block, retry later */
};

struct gm_fence_ops {
	/* The result of a native free of a block of the context now: CUDA_SUCCESS, or the error of
	 * open captures or of a broken context. Does not wait. */
	CUresult (*ask)(void *arg, uint64_t context);
	/* True: `ask` would return CUDA_SUCCESS for any context. NULL: unknown. */
	bool (*is_quiet)(void);
	/* True: all work submitted to the context has completed. False also if open captures forbid
	 * the query. Does not wait. NULL: unknown. */
	bool (*is_idle)(void *arg, uint64_t context);
	/* Wait for the work of the context. `native`: the call stands for a cudaFree of the
	 * program, so an error of the native call is the result. */
	CUresult (*wait)(void *arg, uint64_t context, bool native, enum gm_fenced *fenced);
	/*
	 * Record a fence behind all work submitted to the context so far. CUDA_SUCCESS: *fence is
	 * the caller's until `drop`, or NULL if no work can be pending. CUDA_ERROR_NOT_READY:
	 * captures are open. This member and the three below are NULL where the driver cannot
	 * record such fences (before 12.5).
	 */
	CUresult (*record)(void *arg, uint64_t context, CUevent *fence);
	/* CUDA_SUCCESS: the fence has passed; CUDA_ERROR_NOT_READY: it is pending. */
	CUresult (*passed)(void *arg, uint64_t context, CUevent fence);
	/* Wait until the fence has passed. */
	CUresult (*wait_for)(void *arg, uint64_t context, CUevent fence);
	void (*drop)(void *arg, uint64_t context, CUevent fence);
	/* Give the GPU `ns` of time, as a sleep of this thread does. NULL: the caller sleeps. */
	void (*nap)(void *arg, uint64_t ns);
};

#endif
