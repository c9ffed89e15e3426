/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Idle memory of other preloaded processes of this user. Before a call fails for lack of memory,
 * each is asked to return its idle memory to the driver (shim/idle/give.h). A process that did not
 * answer in time, as a stopped one, is not asked again for a while. Any thread, with no lock held.
 */
#ifndef GM_SHIM_IDLE_DEMAND_H
#define GM_SHIM_IDLE_DEMAND_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the bytes that others returned. Waits GM_DEMAND_PATIENCE at most for all. */
uint64_t gm_demand_reclaim(unsigned ordinal);
#define GM_DEMAND_PATIENCE 1000000000u	      /* ns */
#define GM_DEMAND_PAUSE UINT64_C(60000000000) /* ns without a request to such a process */

/* Total bytes that others returned at this process's request. */
uint64_t gm_demand_total(void);

/* Processes that did not answer a request in time: by the nonce of their nodes. */
bool gm_demand_is_overdue(uint64_t nonce, uint64_t now);
void gm_demand_add_overdue(uint64_t nonce, uint64_t now);

/* In a forked child: no process is left out. */
void gm_demand_forget(void);

#endif
