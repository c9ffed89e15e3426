/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading a heap's figures (see also heap.h). Any thread. */
#ifndef GM_HEAP_SAMPLE_H
#define GM_HEAP_SAMPLE_H

#include "heap/host.h"

/* Read the heap by a kernel that `run` launches (kernel.h), and wait for it. No lock is held.
 * CUDA_ERROR_NOT_READY: kernels that may allocate are in flight. */
CUresult gm_heap_read(struct gm_heap_host *heap,
		      CUresult (*run)(struct gm_heap_host *, enum gm_job_op));

/* Take in a reading that has completed, before the heap changes. The heap's lock is held. */
void gm_heap_collect_reading(struct gm_heap_host *heap);

/* A kernel that may allocate was launched: the heap is to be read again. No lock is held. */
void gm_heap_mark_stale(struct gm_heap_host *heap);

#endif
