/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slack: the next chunk, mapped while kernels use the last, so that the next growth calls no
 * driver. The device does not know of it. So it goes back at any time, also under a running kernel:
 * at once where the pool lacks memory (gm_pool_recall), when it was not used for
 * GPUMEM_TRIM_AFTER, and with the heap. No lock is held.
 */
#ifndef GM_HEAP_SLACK_H
#define GM_HEAP_SLACK_H

#include "heap/host.h"

/* Where the heap grew since the last call, and a kernel is in flight: map as much as the next
 * growth will need, if there is memory to spare. True: it was mapped. The service thread's. */
bool gm_heap_map_ahead(struct gm_heap_host *heap);

/* Grant the slack to the device, which needs `need` granules, or a few fewer (GM_HEAP_LOW). False:
 * there is none, or too little. The service thread's. */
bool gm_heap_use_slack(struct gm_heap_host *heap, uint32_t need);

/* Give the slack back to the pool. Returns bytes. Any thread. */
uint64_t gm_heap_drop_slack(struct gm_heap_host *heap);

#endif
