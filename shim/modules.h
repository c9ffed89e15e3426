/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The events of the process that concern several modules of the shim. modules.def has the modules
 * and their order. Any thread, no lock held.
 */
#ifndef GM_SHIM_MODULES_H
#define GM_SHIM_MODULES_H

#include <stdbool.h>
#include <stdint.h>

#include "log/recording.h"
#include "shim/idle/trim.h"
#include "shim/kernel/inkernel_log.h"

/* In a forked child: the parent's pools, log and contexts are not the child's. Only resets memory:
 * another thread of the parent may hold any lock. */
void gm_modules_forget(void);

/* Is work other than samples due at the end of a handler? A few loads. */
static inline bool gm_modules_due(void)
{
	return GM_UNLIKELY(gm_trim_due() || gm_inkernel_has_news() || gm_recording_is_due());
}

/* At the end of a handler, with the guard up: do due work. `now`, of the clock, is the time of
 * samples; 0: no sample can be due. */
void gm_modules_leave(uint64_t now);

/*
 * Modules return unused memory of a device's pool to that pool. `next` begins at module *row, at
 * first 0, and stops after the first module that returned some, so that the caller can retry before
 * it asks the others. `bytes`: of the allocation that lacks memory; UINT64_MAX: unknown; 0: only
 * what nobody needs. Returns bytes; 0: no module had any. May wait for the GPU.
 */
uint64_t gm_modules_reclaim_next(unsigned ordinal, uint64_t bytes, unsigned *row);
void gm_modules_reclaim(unsigned ordinal, uint64_t bytes);

/* The context of this key was destroyed or reset, and its work is over: its memory returns to the
 * pools. */
void gm_modules_context_gone(uint64_t key);

#endif
