/* SPDX-License-Identifier: BSD-3-Clause */
/* Managed memory of the program in a sleep: its pages go to the host, and return at their next use.
 */
#ifndef GM_SHIM_FOREIGN_PREFETCH_H
#define GM_SHIM_FOREIGN_PREFETCH_H

#include "residency/move.h"

/* Prefetch the managed memory that was allocated on a device to the host, as far as host memory has
 * room; what the driver refuses stays. The caller uses `move`. The result is SUCCESS: the rest of
 * the sleep does not depend on it. No bytes are counted, for how much was on the device is unknown.
 */
struct gm_moved gm_prefetch_send(struct gm_move *move, unsigned ordinal);

/* The process wakes: where its managed pages are is unknown again. */
void gm_prefetch_woke(unsigned ordinal);

/* Bytes of managed memory of a device that the last sleep sent to the host; 0: awake. Any thread.
 */
uint64_t gm_prefetch_sent(unsigned ordinal);

/* modules.h */
void gm_prefetch_forget(void);

#endif
