/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kinds of memory that leave the devices in a sleep, by device: the pool, memory of cuMemCreate
 * (foreign/physical.h), and managed memory (foreign/prefetch.h). One mover at a time, as for
 * residency/move.h.
 */
#ifndef GM_SHIM_SLEEP_MOVES_H
#define GM_SHIM_SLEEP_MOVES_H

#include "residency/move.h"

/* Bytes of a device that a sleep moves, that are away, and that stay although they are of a kind
 * that moves: others know them physically. Any thread, no lock held. */
struct gm_moves_bytes {
	uint64_t moves, away, stays;
};
struct gm_moves_bytes gm_moves_bytes(unsigned ordinal);

/* Of all devices: bytes that a sleep moves. */
uint64_t gm_moves_need(void);

/* Send (`out`) or fetch the memory of all devices. *bytes: what this call moved. `name`: of
 * GM_CONTROL_NAME bytes; set only by a refusal, which is the result. */
enum gm_refusal gm_moves_run(struct gm_move *mover, bool out, uint64_t *bytes, char *name);

#endif
