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

/* The name of the running kernels, if they have one name; NULL: they have several, or it is
 * unknown. */
const char *gm_heap_kernel(const struct gm_heap_host *heap);

#endif
