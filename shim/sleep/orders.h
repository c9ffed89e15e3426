/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Orders to the thread gpumem-sleep (shim/sleep/sleep.c), by this process and by others
 * (residency/control.h).
 *
 *     gpumem-node, or a thread of the program        gpumem-sleep
 *     gm_orders_add: an order is pending             gm_orders_take: all that are pending
 *     a tool polls `done`               <---------   gm_orders_complete
 *
 * The processes of a job sleep together, so that none moves unless all can:
 *
 *     gpumemstat            process a                      process b
 *     HOLD, to each  ---->  its door shuts; its work ends  its door shuts; its work ends
 *     polls          <----  done, HELD: submissions wait   done, HELD
 *     GO, to each    ---->  moves; done                    moves; done
 *
 * If b has shut its door, but its kernel waits for one that a has yet to submit, STEP lets a go on:
 *
 *     STEP, to a     ---->  opens for a moment, shuts      (its work ends)
 *     polls          <----  done, HELD                     done, HELD
 *
 * If one cannot shut, LET opens the doors of the others; so does any other order. A held process
 * opens by itself if it hears nothing for twice the time that each has to shut.
 *
 * Any thread, unless said otherwise, with no lock held.
 */
#ifndef GM_SHIM_SLEEP_ORDERS_H
#define GM_SHIM_SLEEP_ORDERS_H

#include <stdbool.h>
#include <stdint.h>

#include "residency/control.h"

enum gm_order {
	GM_ORDER_SLEEP = 1,
	GM_ORDER_WAKE = 2,
	GM_ORDER_TURN = 4,   /* sleep for another process, if idle */
	GM_ORDER_SHRINK = 8, /* return what the store keeps beyond GPUMEM_SLEEP_STORE */
	GM_ORDER_OPEN = 16,  /* wake for an open of an exported block */
	GM_ORDER_HOLD = 32,
	GM_ORDER_STEP = 64,
	GM_ORDER_GO = 128,
	GM_ORDER_LET = 256 /* there is no HOLD any more */
};
#define GM_ORDERS_OF_HOLD ((unsigned)GM_ORDER_HOLD | GM_ORDER_STEP | GM_ORDER_GO)

/* At the start: answer the requests of other processes. `start` starts the thread, or wakes it; 0
 * or an errno. `fill` sets the members of *control that describe memory and the last move. */
void gm_orders_begin(int (*start)(void), void (*fill)(struct gm_control *control));

/* An order that no tool waits for. 0, or an errno: there is no thread, and no order. */
int gm_orders_add(enum gm_order order);
bool gm_orders_pending(void);

/* --- on the thread --- */

/* The set of pending orders, which are pending no more. */
unsigned gm_orders_take(void);
/* The orders of tools taken so far are done; the outcome is set (sleep_figures.h). */
void gm_orders_complete(void);

/* The times, in ns: that the last HOLD grants for shutting the door, and that the last STEP leaves
 * the door open after the first submission. */
uint64_t gm_orders_hold_ns(void);
uint64_t gm_orders_step_ns(void);
/* pre: the door is shut, for a HOLD or STEP that was taken, which is done now. Waits until `end`
 * (ns of CLOCK_MONOTONIC) for GO or STEP, takes it, and returns it; 0: another order came, `end`,
 * or `is_over`. */
unsigned gm_orders_await(uint64_t end, bool (*is_over)(void));

/* An order came that ends a hold. */
bool gm_orders_end_hold(void);

/* modules.h */
void gm_orders_forget(void);

#endif
