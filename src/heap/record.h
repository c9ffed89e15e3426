/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counters and records of heaps: gpumem-log(5), Device heaps. Without the heap's lock, but for
 * gm_heap_record_mapped and gm_heap_record_figures, whose callers hold it. Any thread.
 */
#ifndef GM_HEAP_RECORD_H
#define GM_HEAP_RECORD_H

#include "heap/host.h"

/* The heap was made. */
void gm_heap_record_made(struct gm_heap_host *heap);

/* The heap ends: count that, and write its last record, unless that is written. */
void gm_heap_record_end(struct gm_heap_host *heap);

/* Write the last record alone; false: it was written before. */
bool gm_heap_record_last(struct gm_heap_host *heap);

/* The bytes of all chunks have changed by `bytes`. The heap's lock is held. */
void gm_heap_record_mapped(struct gm_heap_host *heap, int64_t bytes);

/*
 * The heap got a chunk of `bytes` at `address`, for kernels that want `want` granules in total; or
 * it was refused `bytes`, by its own limit (`limit`) or the pool. `start`: the start of the growth,
 * CLOCK_MONOTONIC.
 */
void gm_heap_record_growth(struct gm_heap_host *heap, CUdeviceptr address, uint64_t bytes,
			   uint64_t want, uint64_t start);
void gm_heap_record_refusal(struct gm_heap_host *heap, uint64_t bytes, uint64_t want,
			    uint64_t start, bool limit);

/* The growth that is recorded next made no driver call. */
void gm_heap_record_slack(struct gm_heap_host *heap);

/* Chunks of `bytes` were shed, and no kernel can use them any more. Any lock may be held. */
void gm_heap_record_shed(struct gm_heap_host *heap, uint64_t bytes);

/* A reading was taken in: heap->last was `before`. The heap's lock is held. */
void gm_heap_record_figures(struct gm_heap_host *heap, const struct gm_heap_figures *before);

#endif
