/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slack: the next chunk, mapped while kernels use the last, so that the next growth makes no driver
 * call. The device does not know it, so it can be returned at any time, even under a running
 * kernel: at once if the pool lacks memory (gm_pool_recall), after GPUMEM_TRIM_AFTER without use,
 * and with the heap. No lock is held.
 */
#ifndef GM_HEAP_SLACK_H
#define GM_HEAP_SLACK_H

#include "heap/host.h"

/* If the heap grew since the last call, and a kernel is in flight: map the memory of the next
 * growth ahead, if there is memory to spare. True: it was mapped. By the service thread. */
bool gm_heap_map_ahead(struct gm_heap_host *heap);

/* Grant the slack to the device, which needs `need` granules, or a few fewer (GM_HEAP_LOW). False:
 * there is none, or too little. By the service thread. */
bool gm_heap_use_slack(struct gm_heap_host *heap, uint32_t need);

/* Return the slack to the pool. Returns bytes. Any thread. */
uint64_t gm_heap_drop_slack(struct gm_heap_host *heap);

#endif
