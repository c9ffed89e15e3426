/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shedding: a heap with kernels in flight all the time returns memory that they did not need for
 * GPUMEM_TRIM_AFTER. No thread waits for the GPU:
 *
 *   a trim       requests a shed that is due
 *   a launch     puts the shed's kernel (device/shed.h) before its own, on its stream
 *   the kernel   takes chunks from the device: they are LEAVING
 *   a trim       makes the chunks CLAIMED when all kernels that were in flight then have ended
 *   meanwhile    a growth takes a chunk that is LEAVING, without a call of the driver
 *
 * The heap's lock is held, but for gm_heap_shed_launch.
 */
#ifndef GM_HEAP_SHED_H
#define GM_HEAP_SHED_H

#include "heap/host.h"

/* Two sheds are no less than this apart, in ns. */
#define GM_SHED_LEAST UINT64_C(100000000)

/* The time of the next work of gm_heap_shed_poll, by the service's clock; UINT64_MAX: none. */
uint64_t gm_heap_shed_due(const struct gm_heap_host *heap);

/* Request a shed that is due; take in one that has run; make chunks CLAIMED that no kernel can use
 * any more. Any thread. */
void gm_heap_shed_poll(struct gm_heap_host *heap, uint64_t now);

/* A launch begins. True: the caller releases the lock and calls gm_heap_shed_launch, with the
 * heap's context current. */
bool gm_heap_shed_begin(struct gm_heap_host *heap);
void gm_heap_shed_launch(struct gm_heap_host *heap, CUstream stream);

/* A shed was launched and has not run yet. */
bool gm_heap_shed_is_pending(const struct gm_heap_host *heap);

/* Begin the grace period of LEAVING chunks, if no launch is in progress. */
void gm_heap_shed_see_launches(struct gm_heap_host *heap);

/* Make a LEAVING chunk of at least `need` granules, or a few fewer (GM_HEAP_LOW), GM_CHUNK_MAPPED.
 * NULL: there is none. */
struct gm_heap_chunk *gm_heap_shed_return(struct gm_heap_host *heap, uint32_t need);

#endif
