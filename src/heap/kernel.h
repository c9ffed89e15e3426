/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The heap's own kernel (job.h): one launch at a time, on the heap's stream. None may run beside a
 * kernel that may allocate, unless the policy can be read meanwhile (gm_heap_policy_is_steady).
 *
 *   gm_heap_exclude     launches into the heap wait from here on
 *   gm_heap_run...      `ran` is recorded behind the kernel: launches go on, their streams wait
 *   gm_heap_admit       the kernel has completed
 *
 * Any thread; no lock is held.
 */
#ifndef GM_HEAP_KERNEL_H
#define GM_HEAP_KERNEL_H

#include "heap/host.h"

/* Exclude kernels that may allocate. False: one is in flight, or another thread excludes them. */
bool gm_heap_exclude(struct gm_heap_host *heap);
bool gm_heap_exclude_locked(struct gm_heap_host *heap); /* the heap's lock is held */
void gm_heap_admit(struct gm_heap_host *heap);

/*
 * Launch the kernel with shared->job, and wait for it. gm_heap_run: the heap's context is current.
 * gm_heap_run_there makes it current; the caller prevents its end. gm_heap_run_alive prevents that
 * itself (gm_context_enter): CUDA_ERROR_NOT_READY if it cannot.
 */
CUresult gm_heap_run(struct gm_heap_host *heap, enum gm_job_op op);
CUresult gm_heap_run_there(struct gm_heap_host *heap, enum gm_job_op op);
CUresult gm_heap_run_alive(struct gm_heap_host *heap, enum gm_job_op op);

/* Only launch it, on this stream, with the job at this offset of `shared`. The heap's context is
 * current. */
CUresult gm_heap_run_on(struct gm_heap_host *heap, CUstream stream, enum gm_job_op op, size_t job);

#endif
