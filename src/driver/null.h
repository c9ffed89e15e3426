/* SPDX-License-Identifier: BSD-3-Clause */
/* A driver that only counts: addresses and sizes, no memory, no GPU. For replay and fast unit
 * tests. Thread-safe (GM_LOCK_RANK_SIM), except for the current context, which is per thread. */
#ifndef GM_DRIVER_NULL_H
#define GM_DRIVER_NULL_H

#include <stdint.h>

#include "driver/driver.h"

struct gm_null_totals {
	uint64_t create_calls, map_calls, access_calls, unmap_calls, release_calls;
	uint64_t created, created_peak, mapped, mapped_peak; /* bytes */
	uint64_t reserved;				     /* bytes of addresses */
};

/* Fill *driver with one device of `memory` bytes. One a process; loading again starts empty. */
void gm_null_load(struct gm_driver *driver, uint64_t memory);
void gm_null_totals(struct gm_null_totals *out);

#endif
