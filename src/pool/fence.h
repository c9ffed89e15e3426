/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gm_fence: all work submitted to a context before the call has completed. One cuCtxRecordEvent
 * (before driver 12.5: cuCtxSynchronize), waited for with no lock held and the capture mode
 * RELAXED.
 *
 * cuCtxRecordEvent would invalidate any stream capture that is open in the context, so captures are
 * counted: begin takes the context's capture lock exclusively around the driver's call, gm_fence
 * takes it shared around the record. While captures are open no fence is possible. What cudaFree
 * would natively answer then is what cuEventQuery of an old event of ours answers (measured for all
 * twelve cases of capture mode x same or other thread x exchanged or not), so that is asked; if it
 * passes, the fence is put off (GM_FENCED_LATER).
 *
 * Where every capture of the process is counted there is a short way for what a free waits for: a
 * thread sees that no capture is open anywhere, and records an event of the context and asks it,
 * with neither the lock nor the mode exchanged; begin waits until nobody does. What several threads
 * ask at the same time, one of them asks for all.
 */
#ifndef GM_POOL_FENCE_H
#define GM_POOL_FENCE_H

#include "base/debug.h"
#include "pool/context.h"
#include "pool/pool.h"

/* The `is_idle` of struct gm_pool_config; arg is the const struct gm_driver *. */
bool gm_fence_is_idle(void *arg, uint64_t context);

/* The `fence` of struct gm_pool_config; arg is the const struct gm_driver *. */
CUresult gm_fence(void *arg, uint64_t context, bool native, enum gm_fenced *fenced);

/*
 * The `defer` of struct gm_pool_config: the parts of gm_fence one by one, arg as above; .record is
 * NULL where the driver has no cuCtxRecordEvent. The pool calls them at its own time, on any
 * thread: not while the program is ending the context.
 */
const struct gm_deferral *gm_fence_deferral(const struct gm_driver *driver);

/* What a native allocation would answer because of open captures or a broken context: CUDA_SUCCESS,
 * or the error. Cheap while there is neither. */
CUresult gm_fence_may_allocate(const struct gm_driver *driver, struct gm_context *context);

/*
 * Tell what any call of the driver answered. After an error that stays with a context (a kernel's
 * illegal address, ...) native allocations and frees repeat it, so that from then on the driver is
 * asked before memory is handed out without it. One compare where nothing went wrong.
 */
void gm_fence_suspect_error(CUresult error);
static inline void gm_fence_suspect(CUresult result)
{
	if (GM_UNLIKELY(result != CUDA_SUCCESS))
		gm_fence_suspect_error(result);
}

/* All captures are counted from here on: by whoever hears of each that begins. In a forked child
 * none are. */
void gm_fence_captures_counted(void);

/* A capture began that nobody could count, or may have: from now on they are not all counted. */
void gm_fence_capture_missed(void);

/* Around the driver's cuStreamBeginCapture*: begin takes the lock, end counts and releases it. */
void gm_fence_capture_begin(struct gm_context *context);
void gm_fence_capture_begun(struct gm_context *context, bool success);

/* A capture ended or its stream was destroyed. */
void gm_fence_capture_ended(struct gm_context *context);

/* How often a thread sees whether another's look has ended before it goes its own way; for tests.
 */
extern unsigned gm_fence_patience;

/* In a forked child: no capture is open, and nothing went wrong. */
void gm_fence_forget_all(void);

#endif
