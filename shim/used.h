/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The used memory of a device by the driver, beside the memory that the process accounts for at
 * that moment. The difference is used by driver, contexts and other processes (gpumem-log(5),
 * OVERHEAD). Any thread, no lock held.
 */
#ifndef GM_SHIM_USED_H
#define GM_SHIM_USED_H

#include "context/context.h"

/* Count the used bytes of a device, just read from the driver. */
void gm_used_record(unsigned ordinal, uint64_t used);
/* Query the device of `context`, which is current, and count the reply. True: *available is the
 * free bytes. */
bool gm_used_query(const struct gm_context *context, uint64_t *available);
/* The same of a device, in any of the process's contexts on it. `current`: the current one, or
 * NULL. */
bool gm_used_query_device(unsigned ordinal, const struct gm_context *current, uint64_t *available);
/* Query the device of the current context, once between two samples (GPUMEM_LOG). */
void gm_used_sample(uint64_t now);

/* modules.h */
void gm_used_leave(uint64_t now);
void gm_used_forget(void);

#endif
