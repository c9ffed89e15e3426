/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounds of a sleep: the host memory registered for it, and the time until it begins. */
#ifndef GM_SHIM_SLEEP_SLEEP_BOUNDS_H
#define GM_SHIM_SLEEP_SLEEP_BOUNDS_H

#include <stdint.h>

#define GM_SLEEP_SHARE 2   /* at most 1/2 of the process's share of host memory */
#define GM_SLEEP_REST 8	   /* 1/8 of it stays unregistered */
#define GM_SLEEP_THREADS 8 /* make pages, at most: more wait for the kernel's locks */
#define GM_SLEEP_CHECKS 8  /* checks for an idle process, in the time of GPUMEM_SLEEP */
#define GM_SLEEP_LEAST UINT64_C(1000000) /* ns between two checks, at least */

/* Most bytes to register: half of the process's share `memory` of host memory, and as much as
 * leaves an eighth of it for the machine to swap. `pinned`: registered bytes; `room`: available
 * ones. The page tables of registered memory take 1/512 of it on the device, with pages of 4 KiB.
 */
static inline uint64_t gm_sleep_pinned(uint64_t memory, uint64_t pinned, uint64_t room)
{
	uint64_t most = memory / GM_SLEEP_SHARE, rest = memory / GM_SLEEP_REST;
	uint64_t more = room > rest ? room - rest : 0;
	return pinned < most && more < most - pinned ? pinned + more : most;
}

/* Threads that make pages for the store, of the process's cores: half of them, for the driver works
 * at the same time. 0: none. */
static inline unsigned gm_sleep_threads(unsigned cores)
{
	return cores / 2 < GM_SLEEP_THREADS ? cores / 2 : GM_SLEEP_THREADS;
}

/* Nanoseconds between two checks for a process that was idle for `after`. The process falls asleep
 * at most so much later. */
static inline uint64_t gm_sleep_pause(uint64_t after)
{
	uint64_t pause = after / GM_SLEEP_CHECKS;
	return pause > GM_SLEEP_LEAST ? pause : GM_SLEEP_LEAST;
}

#endif
