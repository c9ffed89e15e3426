/* SPDX-License-Identifier: BSD-3-Clause */
/* The outcome of the last move, and the memory of the process, for replies to `gpumemstat sleep`,
 * `wake` and `top`; and the records of moves. Any thread. */
#ifndef GM_SHIM_SLEEP_SLEEP_FIGURES_H
#define GM_SHIM_SLEEP_SLEEP_FIGURES_H

#include <stdbool.h>

#include "log/record.h"
#include "residency/control.h"
#include "residency/move.h"

/* The outcome of an order that moved nothing. `name`: detail of the refusal; "": none. */
void gm_sleep_outcome(enum gm_refusal refusal, const char *name);

/* The same for a move that began at `begin` (ns) and moved `bytes`, with counters, a record, and a
 * message if it was refused. `kind`: SLEEP or WAKE. */
void gm_sleep_record(enum gm_record_kind kind, enum gm_refusal refusal, const char *name,
		     uint64_t begin, uint64_t bytes);

/* Set the outcome in *control, and add the bytes of all pools and of memory beside them. `filed`:
 * contents off the devices are in a file. */
void gm_sleep_figures(struct gm_control *control, bool filed);

/* In a forked child. */
void gm_sleep_figures_forget(void);

#endif
