/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounds of a sleep: the host memory registered for it, and the time until it begins. */
#ifndef GM_SHIM_SLEEP_BOUNDS_H
#define GM_SHIM_SLEEP_BOUNDS_H

#include <stdint.h>

#define GM_SLEEP_SHARE 2 /* at most 1/2 of the process's share of host memory */
#define GM_SLEEP_TABLES \
	UINT64_C(62914560) /* bytes of the device, for page tables of pinned memory */
#define GM_SLEEP_ENTRY 8   /* bytes, for each page */
#define GM_SLEEP_CHECKS 8  /* checks for an idle process, in the time of GPUMEM_SLEEP */
#define GM_SLEEP_LEAST UINT64_C(1000000) /* ns between two checks, at least */

/* Most bytes to register, of the process's share `memory` of host memory in pages of `page` bytes.
 * A sleeping process has nothing on devices but the page tables of registered memory. */
static inline uint64_t gm_sleep_pinned(uint64_t memory, uint64_t page)
{
	uint64_t share = memory / GM_SLEEP_SHARE;
	uint64_t mapped = GM_SLEEP_TABLES / GM_SLEEP_ENTRY * page;
	return share < mapped ? share : mapped;
}

/* Nanoseconds between two checks for a process that was idle for `after`. The process falls asleep
 * at most so much later. */
static inline uint64_t gm_sleep_pause(uint64_t after)
{
	uint64_t pause = after / GM_SLEEP_CHECKS;
	return pause > GM_SLEEP_LEAST ? pause : GM_SLEEP_LEAST;
}

#endif
