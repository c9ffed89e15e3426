/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host memory for contents that have left a device: each parcel has pages of its own, absent from
 * core dumps and forked children. Returned parcels are kept, with their pages, up to `warm` bytes:
 * new pages cost more than the copy.
 *
 * Kept parcels are registered with the driver once, so that DMA accesses their pages directly,
 * without slots in between (CUDA Driver API, cuMemHostRegister). A registration costs more than a
 * copy, so parcels that will not be kept have none. It also costs device memory, for page tables.
 * So if not all may be registered, each parcel is registered in part: its remainder goes through
 * slots while DMA moves the front.
 *
 *     at                    at + front             at + size
 *     |  registered: DMA    |  through slots       |
 *
 * One user at a time.
 */
#ifndef GM_RESIDENCY_STORE_H
#define GM_RESIDENCY_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "context/context.h"

/* Stored behind the parcel's bytes, so a forked child has neither. */
struct gm_parcel {
	char *at;
	uint64_t size;
	uint64_t front;		      /* registered bytes */
	struct gm_context *registrar; /* context of the registration; NULL: all is pageable */
	struct gm_parcel *older;      /* in the list of kept parcels */
};

/* Starts zeroed, except for the user's members. */
struct gm_store {
	const struct gm_driver *driver; /* the user's; NULL: nothing is registered */
	uint64_t warm;			/* the user's: most bytes of kept parcels */
	uint64_t pinnable;		/* the user's: most registered bytes */
	uint64_t expected;		/* the user's: bytes to be taken soon */
	uint64_t kept;			/* bytes of kept parcels */
	uint64_t taken;			/* bytes of parcels in use */
	uint64_t pinned;		/* bytes of registered parcels, kept or taken */
	uint64_t fronts;		/* registered bytes of these parcels */
	uint64_t plain;			/* bytes of kept, unregistered parcels */
	uint64_t promised;		/* bytes of new parcels for which there was room */
	struct gm_parcel *newest;	/* newest kept parcel */
	unsigned refusals;		/* registrations that the driver refused */
};

/* Take a parcel of `size` bytes, a kept one of that size if there is any. Otherwise kept parcels,
 * oldest first, end as far as `warm` demands, and a new one is made. NULL: no memory, or not enough
 * room, which is looked up again after each 64 MiB of new parcels: other processes use it, too. */
struct gm_parcel *gm_store_take(struct gm_store *store, uint64_t size);
void gm_store_give(struct gm_store *store, struct gm_parcel *parcel);

/* Should the parcel be registered, and is not, or its registrar is gone? */
bool gm_store_wants_pin(const struct gm_store *store, const struct gm_parcel *parcel);

/* Register the front of a parcel in `context`, which is current and entered. If the driver refuses,
 * the parcel stays pageable; after three refusals gm_store_wants_pin is always false. If the parcel
 * has no pages yet, the driver makes them, on this thread. */
void gm_store_pin(struct gm_store *store, struct gm_parcel *parcel, struct gm_context *context);

/* Bytes of host memory available without swapping (/proc/meminfo), and left to the process's cgroup
 * and those above it, kept parcels included, less 64 MiB that stay free. UINT64_MAX: unknown. */
uint64_t gm_store_room(const struct gm_store *store);

/* Return kept parcels to the system. */
void gm_store_trim(struct gm_store *store);

/* In a forked child, which has none of the parcels. */
void gm_store_forget(struct gm_store *store);

#endif
