/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sleep and wake of the process (GPUMEM_SLEEP). The contents of all pools move to host memory on
 * request of `gpumemstat sleep`, or after the knob's time without a submission, on the thread
 * gpumem-sleep. They return on request of `gpumemstat wake`, on that thread, or at the next
 * submission, on its thread. The program's own requests are on its thread. Any thread may call
 * these functions, with no lock held.
 */
#ifndef GM_SHIM_SLEEP_SLEEP_H
#define GM_SHIM_SLEEP_SLEEP_H

#include "driver/driver.h"

/* At the start, before any submission: obeys the knobs. */
void gm_sleep_start(void);

/* A pool was made on this device: the process accepts requests from now on. */
void gm_sleep_pool_ready(unsigned ordinal);

/* gpumem_sleep and gpumem_wake, on the program's thread, inside (call.h). 0, or an error of theirs.
 */
CUresult gm_sleep_now(void);
CUresult gm_sleep_wake_now(void);

/* Another process wants memory that may be away: the thread gpumem-sleep wakes the process, after a
 * sleep that is in progress. Does not wait. */
void gm_sleep_wake_later(void);

/* The process exits: its sleep thread makes no further call of the driver. */
void gm_sleep_exit(void);

/* modules.h */
void gm_sleep_forget(void);

#endif
