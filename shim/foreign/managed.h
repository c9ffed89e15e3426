/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Managed memory of the program (cuMemAllocManaged) beside idle memory of the pools. The driver
 * moves managed pages to a device while memory is free there. It cannot take memory that a pool
 * holds idle. Any thread, no lock held.
 */
#ifndef GM_SHIM_FOREIGN_MANAGED_H
#define GM_SHIM_FOREIGN_MANAGED_H

/* There is more or less managed memory than before: pools return idle memory to the
 * driver if it takes room that managed memory needs. */
void gm_managed_changed(void);

/* modules.h */
void gm_managed_pool_ready(unsigned ordinal);

#endif
