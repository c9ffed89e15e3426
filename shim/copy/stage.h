/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies between pageable host memory and the device, through pinned slots (copy/ring.h) where
 * that is faster than the driver's call (GPUMEM_COPY). Any thread, inside of gm_shim_enter, no
 * lock held.
 *
 * An asynchronous copy of a line is staged, too: with pageable memory the driver's call waits for
 * its stream and returns when the copy is complete, from the device at every size, to it from
 * 4 MiB (measured: doc/performance.md), and no smaller copy is staged. Unknown, and so the
 * driver's: asynchronous copies of rectangles, with attributes, and in batches.
 */
#ifndef GM_SHIM_COPY_STAGE_H
#define GM_SHIM_COPY_STAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/debug.h"

struct gm_transfer;

/* The least size of a copy that may be staged; SIZE_MAX: none is. */
extern _Atomic size_t gm_stage_least;

/* May a copy of so many bytes be staged? One relaxed load. */
static inline bool gm_stage_wants(size_t bytes)
{
	return GM_UNLIKELY(bytes >= atomic_load_explicit(&gm_stage_least, memory_order_relaxed));
}

/* True: the copy was made, as by the driver's call. False: make that. After gm_transfer_begin. */
bool gm_stage_copy(struct gm_transfer *t);

/* Does the driver not know this memory of the host? It knows what is pinned, registered, managed or
 * a device's. Calls the driver; legal during captures. */
bool gm_stage_is_pageable(uint64_t host);

/* Once, when the shim starts; with GPUMEM_MODE=trace nothing is staged. The first large copy finds
 * out how many threads there may be. */
void gm_stage_start(void);

/* When the slots, long unused, are due to go back to the system; UINT64_MAX: never. */
uint64_t gm_stage_trim_next(void);
/* Give them back if they are due at `now`; returns their bytes. By the trim thread. */
uint64_t gm_stage_trim(uint64_t now);

/* For atexit: no copy is staged from now on. */
void gm_stage_exit(void);

/* The ring, for other copies of ours; NULL: there is none. Calls no driver but to decide that. */
struct gm_ring *gm_stage_ring(void);

/* modules.h */
void gm_stage_forget(void);

#endif
