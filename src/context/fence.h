/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fences: gm_fence waits until all work submitted to a context before the call has completed. It is
 * one cuCtxRecordEvent, waited for with no lock held and the capture mode RELAXED. Before driver
 * 12.5 it is cuCtxSynchronize, under the shared capture lock.
 *
 * cuCtxRecordEvent invalidates any stream capture that is open in the context. So captures are
 * counted, under the context's capture lock:
 *
 *     capture   lock exclusively -> cuStreamBeginCapture, count it             -> release
 *     fence     lock shared      -> none counted? then cuCtxRecordEvent        -> release -> wait
 *
 * While captures are open no fence is possible. Then the result of a native cudaFree is that of
 * cuEventQuery on an old event of ours (the probe; measured for all twelve cases of capture mode x
 * same or other thread x exchanged or not). If the probe succeeds, the fence is postponed
 * (GM_FENCED_LATER).
 *
 * Where every capture of the process is counted and none is open, a free polls first (poll.h),
 * without the capture lock and without a change of the capture mode.
 *
 * Any thread may call these functions, with no lock held.
 */
#ifndef GM_CONTEXT_FENCE_H
#define GM_CONTEXT_FENCE_H

#include "base/debug.h"
#include "context/context.h"
#include "context/fence_ops.h"

/*
 * The table for a driver; fence_arg is the const struct gm_driver *. The four calls for recorded
 * fences are NULL where the driver has no cuCtxRecordEvent.
 */
const struct gm_fence_ops *gm_fence_ops(const struct gm_driver *driver);

/* Members `wait` and `is_idle` of the table. */
CUresult gm_fence(void *arg, uint64_t context, bool native, enum gm_fenced *fenced);
bool gm_fence_is_idle(void *arg, uint64_t context);

/* The error that a native allocation would return because of open captures or a broken context,
 * else CUDA_SUCCESS. Two loads while there is neither. */
CUresult gm_fence_may_allocate(const struct gm_driver *driver, struct gm_context *context);

/*
 * Report the result of any driver call. After a sticky error (a kernel's illegal address, ...)
 * native allocations and frees return it again, so from then on the probe is queried before memory
 * is handed out. One compare on success.
 */
void gm_fence_suspect_error(CUresult error);
static inline void gm_fence_suspect(CUresult result)
{
	if (GM_UNLIKELY(result != CUDA_SUCCESS))
		gm_fence_suspect_error(result);
}

/* From now on the caller counts each capture that begins. A forked child starts anew. */
void gm_fence_captures_counted(void);

/* A capture may have begun uncounted: from now on not all captures are counted. */
void gm_fence_capture_missed(void);

/* Around the driver's cuStreamBeginCapture*: begin takes the capture lock, begun counts the capture
 * and releases the lock. */
void gm_fence_capture_begin(struct gm_context *context);
void gm_fence_capture_begun(struct gm_context *context, bool success);

/* A capture ended or its stream was destroyed. */
void gm_fence_capture_ended(struct gm_context *context);

/* In a forked child: no capture is open, and no error was seen. */
void gm_fence_forget_all(void);

#endif
