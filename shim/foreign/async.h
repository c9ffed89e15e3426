/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools of stream-ordered memory. Any thread, no lock held. */
#ifndef GM_SHIM_FOREIGN_ASYNC_H
#define GM_SHIM_FOREIGN_ASYNC_H

#include <stdint.h>

/* Bytes that the device's pools have of the driver; *used: those that are allocated. By the driver;
 * of a destroyed pool, by the allocations. The device's default pool counts from its first use on.
 */
uint64_t gm_async_reserved(unsigned ordinal, uint64_t *used);

/* The pools return what is not allocated to the driver. */
void gm_async_trim(unsigned ordinal);

/* modules.h */
void gm_async_forget_all(void);

#endif
