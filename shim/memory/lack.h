/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of the program that fail for lack of memory. Each is counted, has a record with the state
 * of the device at that moment (OUT_OF_MEMORY), and some have a line on standard error: the first
 * of a device, the second, the fourth and so on. The figures of the line are those of the record,
 * and add up to the device:
 *
 *     total = free + the process's own, by owner (log/owner.def) + others
 *
 * No library is loaded, and no call waits for the GPU. Inside of gm_shim_enter, no lock held.
 */
#ifndef GM_SHIM_MEMORY_LACK_H
#define GM_SHIM_MEMORY_LACK_H

#include <stdint.h>

#include "context/context.h"
#include "shim/entry/hooks.h"

/* Whose memory was short: an ordinal, or one of these. */
#define GM_LACK_HERE (-1) /* the current context's device; without a context, the first one */
#define GM_LACK_HOST (-2)

/* Whose memory is at a location of the driver. */
static inline int gm_lack_where(const CUmemLocation *location)
{
	const bool device = location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id >= 0;
	return device ? location->id : GM_LACK_HOST;
}

/* A call other than the cuMemAlloc family. `bytes`: asked for; 0: not known. */
void gm_lack(enum gm_hook_id hook, int where, uint64_t bytes);

/* The same of the cuMemAlloc family, which block/alloc.c counts. `stack`: of a STACK record. */
void gm_lack_allocation(enum gm_hook_id hook, const struct gm_context *context, uint64_t bytes,
			uint32_t stack);

/* The call of `hook` lacked memory; the same as gm_lack(hook, GM_LACK_HERE, 0), unless its handler
 * has reported that. */
void gm_lack_rest(enum gm_hook_id hook);

/* In a forked child: no failure was reported. */
void gm_lack_forget(void);

#endif
