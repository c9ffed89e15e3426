/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools of stream-ordered memory. Any thread, no lock held. */
#ifndef GM_SHIM_FOREIGN_ASYNC_H
#define GM_SHIM_FOREIGN_ASYNC_H

#include <stdint.h>

#include "log/sample.h"

/* modules.h. reserved: bytes that the device's pools have of the driver, as it says; of a destroyed
 * pool, its allocations. The device's default pool counts from its first use on. reclaim: with
 * GPUMEM_LIMIT the pools return what is not allocated to the driver. */
void gm_async_reserved(unsigned ordinal, struct gm_sample *sample);
uint64_t gm_async_reclaim(unsigned ordinal, uint64_t bytes);
void gm_async_forget_all(void);

#endif
