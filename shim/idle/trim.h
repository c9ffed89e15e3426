/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that was idle for GPUMEM_TRIM_AFTER returns to the driver. Any thread. */
#ifndef GM_SHIM_IDLE_TRIM_H
#define GM_SHIM_IDLE_TRIM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/debug.h"
#include "pool/pool.h"

/* There is idle memory, and no trim thread; or memory that the thread has to return now. */
extern GM_HIDDEN atomic_bool gm_trim_wanted;
static inline bool gm_trim_due(void)
{
	return atomic_load_explicit(&gm_trim_wanted, memory_order_relaxed);
}

/* The `idle` of struct gm_heap_config: starts the thread. No handler ends there, and the heap's own
 * thread, which serves kernels, must not trim. */
void gm_trim_heap_idle(void *unused);
/* There are slots of copies, which are freed some time later, for any GPUMEM_TRIM_AFTER: starts the
 * thread unless it runs. No lock held. */
void gm_trim_slots_idle(void);

/* A stream waits for another one (context/order.h): the thread reports a long wait. */
void gm_trim_order_waits(void);

/* modules.h. exit: a thread started later could end last, and would then end the process. */
void gm_trim_pool_config(unsigned ordinal, struct gm_pool_config *config);
void gm_trim_leave(uint64_t now);
void gm_trim_exit(void);
void gm_trim_forget(void);

#endif
