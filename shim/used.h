/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The used memory of a device, as the driver says, beside the memory that we can account for at
 * that moment: driver, contexts and other processes take the difference (gpumem-log(5), OVERHEAD).
 * Any thread, no lock held.
 */
#ifndef GM_SHIM_USED_H
#define GM_SHIM_USED_H

#include "context/context.h"

/* Count the used bytes of a device that the driver has just told. */
void gm_used_record(unsigned ordinal, uint64_t used);
/* Ask the driver about the device of `context`, which is current, and count its answer. Returns the
 * free bytes; 0: the driver does not say. */
uint64_t gm_used_query(const struct gm_context *context);
/* Ask about the current context's device if it was not asked for GPUMEM_SAMPLE. */
void gm_used_sample(uint64_t now);

/* modules.h */
void gm_used_leave(uint64_t now);
void gm_used_forget(void);

#endif
