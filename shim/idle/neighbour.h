/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that other processes hold on a device. Processes that cannot ask for idle memory
 * (shim/idle/demand.h) show themselves only by it: while they hold more than at the first context
 * of this process, the trim thread returns memory that was idle for GM_NEIGHBOUR_AFTER. That holds
 * for the default of GPUMEM_TRIM_AFTER only: another value is the user's decision.
 *
 * What the driver holds for this process without a count, such as modules and its reserves, looks
 * like that of others, so small differences do not count. No lock held.
 */
#ifndef GM_SHIM_IDLE_NEIGHBOUR_H
#define GM_SHIM_IDLE_NEIGHBOUR_H

#include <stdbool.h>
#include <stdint.h>

#define GM_NEIGHBOUR_AFTER UINT64_C(1000000000) /* ns */
#define GM_NEIGHBOUR_EVERY UINT64_C(500000000)	/* ns between two looks */

/* Is it of interest what others hold? */
bool gm_neighbour_matters(void);

/* The first context of a device was made; a context of the device is current. Any thread. */
void gm_neighbour_begin(unsigned ordinal);

/* Ask the driver. True: at this look and the one before, others held clearly more than at the
 * first context. The trim thread only; inside of its gate. */
bool gm_neighbour_came(unsigned ordinal);

/* modules.h */
void gm_neighbour_forget(void);

#endif
