/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the contents are during a sleep, as GPUMEM_SLEEP_STORE says. */
#ifndef GM_SHIM_SLEEP_SLEEP_STORE_H
#define GM_SHIM_SLEEP_SLEEP_STORE_H

#include "residency/move.h"

/* At the start: the store and the folder of the mover. Reports a folder that is not writable. */
void gm_sleep_store_begin(struct gm_move *mover);

/* Before a sleep: as much may be registered as the machine can spare now. */
void gm_sleep_store_bound(struct gm_move *mover);

/* In a forked child. */
void gm_sleep_store_forget(struct gm_move *mover);

#endif
