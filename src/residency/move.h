/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All pools of a process leave their devices, and return. Each chunk is copied to a store: by DMA
 * where the store is registered, else through the ring of copies, or else by the driver's own copy
 * of pageable memory. Or it goes into a folder (window.h). The DMA of a chunk runs while the driver
 * unmaps the one before, or maps the one behind (pool/away.c), by two streams in turn.
 *
 * One thread at a time, with no lock held. The caller keeps submissions out (door.h) from before
 * gm_move_drain until all contents are on the device again.
 */
#ifndef GM_RESIDENCY_MOVE_H
#define GM_RESIDENCY_MOVE_H

#include "copy/ring.h"
#include "pool/pool.h"
#include "residency/folder.h"
#include "residency/store.h"

/* Reasons not to sleep or not to wake: the rows of refusal.def. */
enum gm_refusal {
#define GM_REFUSAL(name, text) GM_REFUSAL_##name,
#include "residency/refusal.def"
#undef GM_REFUSAL
	GM_REFUSALS
};

/* The sentence of a refusal, without a full stop. */
const char *gm_refusal_text(enum gm_refusal refusal);

struct gm_move {
	const struct gm_driver *driver;
	struct gm_ring *(*ring)(void); /* finds a ring for copies; NULL, as result or member: no
					  ring */
	bool (*is_over)(void);	       /* true: the process ends, nothing may leave; NULL: never */
	struct gm_store store;
	struct gm_folder folder;    /* with a path: in place of the store, which has the window */
	struct gm_context *context; /* while chunks of its device move; NULL: none */
	CUstream streams[2];	    /* likewise, for DMA */
	unsigned turn;		    /* of the streams */
	struct gm_parcel *window;   /* likewise; from the store */
	enum gm_refusal refusal;    /* of the last move with the result UNKNOWN; NONE: a call of the
				     * driver failed */
	char refused_for[GM_FOLDER_WHY]; /* detail of the refusal; "": none */
};

/* Wait for all work that was submitted to any context, until `end` (ns of CLOCK_MONOTONIC).
 * NONE: no work is pending. */
enum gm_refusal gm_move_drain(const struct gm_driver *driver, uint64_t end);

/* Bytes of a pool that need host memory when they move, and bytes that do not move. */
struct gm_move_need {
	uint64_t moves, pinned;
};
struct gm_move_need gm_move_need(const struct gm_pool *pool);

/* Call `run`, which sends memory of a device or fetches it, in a context of the device (its
 * ordinal), with the mover for its copies. The result is that of `run`; UNKNOWN: no host memory, or
 * no context can be made current. Without a context on the device copies fail. */
struct gm_moved gm_move_run(struct gm_move *move, unsigned device, bool out,
			    struct gm_moved (*run)(void *arg, const struct gm_mover *mover),
			    void *arg);

/* Send or fetch one pool's chunks. If the device has no context, no chunk has a block. */
struct gm_moved gm_move_out(struct gm_move *move, struct gm_pool *pool, unsigned device);
struct gm_moved gm_move_in(struct gm_move *move, struct gm_pool *pool, unsigned device);

/* Is there room for `bytes` in host memory or in the folder? NONE: yes, or unknown; else
 * refused_for is set. */
enum gm_refusal gm_move_find_room(struct gm_move *move, uint64_t bytes);

/* --- for window.c --- */

/* Copy between [host, +size), registered or pageable, and the device, and wait. False: failure. */
bool gm_move_copy(const struct gm_move *move, bool to_device, char *host, CUdeviceptr device,
		  uint64_t size);

/* Set the refusal from the folder's fault. */
void gm_move_refuse_folder(struct gm_move *move);

#endif
