/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The used memory of a device by the driver, beside the memory that the process accounts for at
 * that moment. The difference is used by driver, contexts and other processes (gpumem-log(5),
 * OVERHEAD). Any thread, no lock held.
 */
#ifndef GM_SHIM_MEMORY_OVERHEAD_H
#define GM_SHIM_MEMORY_OVERHEAD_H

#include "context/context.h"

/* Bytes of a device that the process has: mapped, less lent-out parts of PyTorch's cache, lent to
 * heaps, and foreign. */
uint64_t gm_overhead_accounted(unsigned ordinal);
/* Count the used bytes of a device, just read from the driver. */
void gm_overhead_record(unsigned ordinal, uint64_t used);
/* Ask the driver for the free bytes of a device, in any of the process's contexts on it. `current`:
 * the current one, or NULL. False: unknown. */
bool gm_overhead_read(unsigned ordinal, const struct gm_context *current, uint64_t *available);
/* Query the device of the current context, once between two samples (GPUMEM_LOG). */
void gm_overhead_sample(uint64_t now);

/* modules.h */
void gm_overhead_leave(uint64_t now);
void gm_overhead_forget(void);

#endif
