/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Idle memory for other processes: the answer to shim/idle/demand.h. Another preloaded process of
 * this user lacks device memory and asks; the thread gpumem-give returns all idle memory of the
 * pools to the driver, for any GPUMEM_TRIM_AFTER. It starts for the request, and ends afterwards.
 * Any thread may call these functions, with no lock held.
 */
#ifndef GM_SHIM_IDLE_GIVE_H
#define GM_SHIM_IDLE_GIVE_H

#include <stdint.h>

/* At the start: obeys the knobs. */
void gm_give_start(void);

/* A pool was made on this device. If the trim thread may not start although memory is idle, this
 * process can be asked from now on. */
void gm_give_pool_ready(unsigned ordinal);

/* Memory is idle: this process can be asked from now on, on each device with a pool. Makes sockets
 * and a thread; a few system calls if they exist. */
void gm_give_join(void);

/* Total bytes returned at others' request. */
uint64_t gm_give_total(void);

/* The process exits: the thread makes no further call of the driver. */
void gm_give_exit(void);

/* modules.h */
void gm_give_forget(void);

#endif
