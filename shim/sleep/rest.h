/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The answer to shim/sleep/turns.h: another process lacks memory; may this one sleep for it? It may
 * if
 *
 *     it has submitted nothing for 50 ms, and no submission is inside the door;
 *     no capture is open, and the fences of all contexts have passed, asked with the door open;
 *     five times the duration of its last wake have passed since that wake;
 *     nothing refuses a sleep (shim/sleep/refusal.h), and it shares nothing with other processes.
 *
 * The thread gpumem-node answers at once by the figures that cost little; the thread gpumem-sleep
 * (shim/sleep/sleep.c) asks the fences and searches for refusals. Any thread, no lock held.
 */
#ifndef GM_SHIM_SLEEP_REST_H
#define GM_SHIM_SLEEP_REST_H

#include <stdbool.h>
#include <stdint.h>

#include "residency/move.h"

#define GM_REST_IDLE UINT64_C(50000000) /* ns without a submission */
#define GM_REST_STAY 5			/* a process that woke stays so many times its move */

/* At the start of a process that can sleep. `sleep`: gm_rest_may_sleep, and the sleep, on another
 * thread; 0 or an errno. */
void gm_rest_start(int (*sleep)(void));

/* No capture is open, and all fences passed. With the gate of driver calls entered. */
bool gm_rest_is(void);

/* --- on the thread gpumem-sleep, after an order for a turn --- */

/* May the process sleep now? With the gate entered. False: the order is over. */
bool gm_rest_may_sleep(void);
/* The result of its sleep. */
void gm_rest_slept(enum gm_refusal refusal);

/* The process woke; its memory moved for `ns`. */
void gm_rest_woke(uint64_t ns);

/* It shares memory or events with other processes: from now on it sleeps for none of them. */
void gm_rest_share(void);

/* --- waits of this process (shim/sleep/turns.c) --- */

#define GM_REST_ANY (-1) /* each device */

/* In a list from begin to end. */
struct gm_rest_wait {
	struct gm_rest_wait *next;
	uint64_t since;
	uint64_t bytes; /* that are lacking; 0: unknown */
	int ordinal;	/* of the device; GM_REST_ANY: a wake */
};
void gm_rest_wait_begin(struct gm_rest_wait *wait);
/* What was waited for is used first: the process counts as busy until then. */
void gm_rest_wait_end(struct gm_rest_wait *wait);
/* The waits for a device; a wake waits for those where memory is away. */
struct gm_rest_waits {
	uint64_t since; /* of the oldest; 0: none */
	uint64_t bytes; /* that they lack together, what is away included; 0: unknown */
};
struct gm_rest_waits gm_rest_waits(unsigned ordinal);

/* modules.h */
void gm_rest_forget(void);

#endif
