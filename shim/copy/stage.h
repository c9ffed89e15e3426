/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies between pageable host memory and the device, through pinned slots (copy/ring.h) where
 * that is faster than the driver's call (GPUMEM_COPY). Any thread, inside of gm_shim_enter, no
 * lock held.
 *
 * An asynchronous copy of a line is staged, too: with pageable memory the driver's call waits for
 * its stream and returns when the copy is complete, from the device at every size, to the device
 * from 4 MiB (measured: doc/performance.md); smaller copies are not staged. For batches this is not
 * known: their copies are staged only if their stream is idle, so that there is no wait, and each
 * order of access to a source is kept. The driver copies asynchronous rectangles, and copies with
 * attributes.
 */
#ifndef GM_SHIM_COPY_STAGE_H
#define GM_SHIM_COPY_STAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/debug.h"
#include "driver/driver.h"

struct gm_transfer;

/* The least size of a copy that may be staged; SIZE_MAX: no copy is staged. */
extern GM_HIDDEN _Atomic size_t gm_stage_least;

/* May a copy of so many bytes be staged? One relaxed load. */
static inline bool gm_stage_wants(size_t bytes)
{
	return GM_UNLIKELY(bytes >= atomic_load_explicit(&gm_stage_least, memory_order_relaxed));
}

/* True: the copy is done, as by the driver's call. False: make that call. After
 * gm_transfer_begin. */
bool gm_stage_copy(struct gm_transfer *t);

/* For a batch, before any copy of it is submitted. True: all earlier work of its stream has ended,
 * and of the legacy stream if its stream waits for that. A copy with `come` set does not wait:
 * copies of a batch have no order. False for the legacy stream, which batches may not use. */
bool gm_stage_has_come(CUstream stream);

/* Do slots exist, so that copies of other threads may be staged now? */
bool gm_stage_is_used(void);

/* Is this host memory unknown to the driver, so neither pinned, registered, managed nor a device's?
 * Calls the driver; legal during captures. */
bool gm_stage_is_pageable(uint64_t host);

/* Once, at the start of the shim; with GPUMEM_MODE=trace no copy is staged. The first large copy
 * determines the number of threads. */
void gm_stage_start(void);

/* The time at which unused slots are due to be freed; UINT64_MAX: never. */
uint64_t gm_stage_trim_next(void);
/* Free the slots if they are due at `now`; returns their bytes. By the trim thread. */
uint64_t gm_stage_trim(uint64_t now);

/* For atexit: no copy is staged from now on. */
void gm_stage_exit(void);

/* The ring, for other copies of ours; NULL: none. Calls the driver only to decide that. */
struct gm_ring *gm_stage_ring(void);

/* modules.h */
void gm_stage_forget(void);

#endif
