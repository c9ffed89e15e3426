/* SPDX-License-Identifier: BSD-3-Clause */
/* Which kernels that may allocate are in flight. The heap's lock is held; any thread. */
#ifndef GM_HEAP_FLIGHT_H
#define GM_HEAP_FLIGHT_H

#include "heap/host.h"

/* One that is being launched, or whose write has not come, or that no write stands behind. */
bool gm_heap_is_in_flight(const struct gm_heap_host *heap);

/* One of the first two kinds: its end will be seen without a call of the driver. */
bool gm_heap_is_tracked(const struct gm_heap_host *heap);

#endif
