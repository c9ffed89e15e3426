/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels in flight that may allocate. The heap's lock is held; any thread. */
#ifndef GM_HEAP_FLIGHT_H
#define GM_HEAP_FLIGHT_H

#include "heap/host.h"

/* True: a kernel is being launched, or its write has not arrived, or it has none; or a shed is
 * pending. */
bool gm_heap_is_in_flight(const struct gm_heap_host *heap);

/* Likewise, except for kernels without a write: the end is seen without a call of the driver. */
bool gm_heap_is_tracked(const struct gm_heap_host *heap);

/* A shed (chunks/chunks.h) was launched and has not run yet. */
bool gm_heap_shed_is_pending(const struct gm_heap_host *heap);

/* The name of the running kernels, if they have one name; NULL: they have several, or it is
 * unknown. */
const char *gm_heap_kernel(const struct gm_heap_host *heap);

/* The caller is about to write the number of a launch, of this kernel, behind the stream's last
 * one. NULL: no track is free. */
struct gm_heap_track *gm_heap_track_begin(struct gm_heap_host *heap, uint64_t stream,
					  const char *kernel);

/* Put a write of the launch's number behind the launch. Without the heap's lock. */
bool gm_heap_track_write(struct gm_heap_host *heap, struct gm_heap_track *track, CUstream stream);

#endif
