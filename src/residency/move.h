/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All pools of a process leave their devices, and return: each chunk goes through the ring of
 * copies, or where that cannot be, by the driver's own copy of pageable memory, into a store.
 *
 * One thread at a time, with no lock held. The caller keeps submissions away (door.h) from before
 * gm_move_drain until all is on the device again.
 */
#ifndef GM_RESIDENCY_MOVE_H
#define GM_RESIDENCY_MOVE_H

#include "copy/ring.h"
#include "pool/pool.h"
#include "residency/store.h"

/* Why a process does not sleep, or does not wake: the rows of refusal.def. */
enum gm_refusal {
#define GM_REFUSAL(name, text) GM_REFUSAL_##name,
#include "residency/refusal.def"
#undef GM_REFUSAL
	GM_REFUSALS
};

/* Its sentence, without a full stop. */
const char *gm_refusal_text(enum gm_refusal refusal);

struct gm_move {
	const struct gm_driver *driver;
	struct gm_ring *(*ring)(void); /* a ring that can be taken; its result, or the member: NULL,
					  there is none */
	bool (*is_over)(void); /* nothing more is to leave, as the process ends; NULL: never */
	struct gm_store store;
	struct gm_context *context; /* while chunks of its device move; NULL: there is none */
};

/* Wait for all work that was submitted to any context, until `end` (ns of CLOCK_MONOTONIC).
 * NONE: no work is pending. */
enum gm_refusal gm_move_drain(const struct gm_driver *driver, uint64_t end);

/* What the contents of a pool's chunks need of host memory, and what of it does not move. */
struct gm_move_need {
	uint64_t moves, pinned, lent;
};
struct gm_move_need gm_move_need(const struct gm_pool *pool);

/* Send or fetch one pool's chunks, in a context of its device; `device`: its ordinal. Bytes and
 * result as gm_pool_send has them. Where the device has no context, no chunk has a block. */
struct gm_moved gm_move_out(struct gm_move *move, struct gm_pool *pool, unsigned device);
struct gm_moved gm_move_in(struct gm_move *move, struct gm_pool *pool, unsigned device);

#endif
