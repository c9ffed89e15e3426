/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The events of the process that concern several modules of the shim. modules.def has the modules
 * and their order. Any thread, no lock held.
 */
#ifndef GM_SHIM_MODULES_H
#define GM_SHIM_MODULES_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/kernel/inkernel_log.h"
#include "shim/trim.h"

/* In a forked child: the parent's pools, log and contexts are not the child's. Only resets memory:
 * any lock may have been held by another thread of the parent. */
void gm_modules_forget(void);

/* Work other than samples is due at the end of a handler. Two relaxed loads. */
static inline bool gm_modules_due(void)
{
	return GM_UNLIKELY(gm_trim_due()) || gm_inkernel_has_news();
}

/* At the end of a handler, with the guard up: do the work that is due. `now`, of the clock, is the
 * time of samples; 0: none can be due. */
void gm_modules_leave(uint64_t now);

/*
 * Give the memory that modules have from the pool of a device, and do not use, back to that pool.
 * `next` begins at module *row, at first 0, and stops after the first module that gave some, for
 * the caller to try again before the others are asked. Returns bytes; 0: no module had any. May
 * wait for the GPU.
 */
uint64_t gm_modules_reclaim_next(unsigned ordinal, unsigned *row);
void gm_modules_reclaim(unsigned ordinal);

/* The context of this key has been destroyed or reset, its work is over: its memory goes back to
 * the pools. */
void gm_modules_context_gone(uint64_t key);

#endif
