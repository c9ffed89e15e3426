/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools of stream-ordered memory. Any thread, no lock held. */
#ifndef GM_SHIM_FOREIGN_ASYNC_H
#define GM_SHIM_FOREIGN_ASYNC_H

#include <stdint.h>

#include "driver/driver.h"

/* Bytes that the device's pools have of the driver, as it says; of a destroyed pool, its
 * allocations. The device's default pool counts from its first use on. */
uint64_t gm_async_reserved(unsigned ordinal);

/* Of these, bytes of the pool (NULL: the device's current one) that no allocation has; 0: not
 * known, or another thread uses the pool just now. */
uint64_t gm_async_slack(unsigned ordinal, CUmemoryPool pool);

/* The pools return what is not allocated to the driver. */
void gm_async_trim(unsigned ordinal);

/* modules.h */
void gm_async_forget_all(void);

#endif
