/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Host memory for contents that have left a device, absent from core dumps and forked children. It
 * consists of banks. Parcels are cut from them one behind the other, across their borders:
 *
 *     | bank, 64 MiB             | bank                     | bank                     |
 *     | parcel | parcel | parcel : parcel      |            |                          |
 *       registered: DMA            being registered           being populated, by a crew
 *
 * New pages cost more than the copy, so a crew makes them ahead of the user. A bank is registered
 * with the driver before its first copy, so that DMA accesses its pages directly (CUDA Driver API,
 * cuMemHostRegister), without slots in between. That costs less than a copy through slots.
 *
 * A bank without parcels is kept, with its pages and registration, for the next parcels.
 * gm_store_shrink ends what is kept beyond `warm`.
 *
 * One user at a time.
 */
#ifndef GM_RESIDENCY_STORE_H
#define GM_RESIDENCY_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "context/context.h"
#include "copy/crew.h"

#define GM_BANK ((uint64_t)64 << 20)	 /* bytes of a bank, at most */
#define GM_BANK_UNIT ((uint64_t)2 << 20) /* sizes and offsets are multiples of it: a huge page */

struct gm_bank;

/* Part of its first bank. */
struct gm_parcel {
	struct gm_bank *bank; /* the first one */
	uint64_t begin, size; /* in the bank, and in total */
	CUstream stream;      /* the user's: of DMA in flight; NULL: none */
};

struct gm_bank {
	char *at;
	uint64_t size;
	uint64_t used;		      /* bytes cut off; only the newest bank has more */
	unsigned parcels;	      /* with bytes in it */
	unsigned flights;	      /* the user's: DMA that may be in flight */
	struct gm_context *registrar; /* context of the registration; NULL: it is pageable */
	bool decided;		      /* whether it is registered, since it was taken into use */
	struct gm_bank *kept;	      /* next of the kept banks */
	struct gm_bank *_Atomic next; /* the bank behind it */
	_Atomic uint64_t next_page, populated;		 /* bytes: begun, and done */
	struct gm_parcel parcel[GM_BANK / GM_BANK_UNIT]; /* by their offset */
};

/* Starts zeroed, except for the user's members. */
struct gm_store {
	const struct gm_driver *driver; /* the user's; NULL: nothing is registered */
	struct gm_crew *crew;		/* the user's; NULL: the user's thread makes the pages */
	unsigned threads;		/* the user's: most threads of the crew */
	uint64_t warm;			/* the user's: most bytes of banks after gm_store_shrink */
	uint64_t pinnable;		/* the user's: most registered bytes */
	uint64_t expected;		/* the user's: bytes to be taken soon */
	uint64_t kept;			/* bytes of banks without parcels */
	uint64_t taken;			/* bytes of parcels */
	uint64_t banks;			/* bytes of all banks */
	uint64_t pinned;		/* registered bytes */
	uint64_t promised;		/* bytes of new banks for which there was room */
	struct gm_bank *newest;		/* the bank that parcels are cut from */
	struct gm_bank *ahead, *last;	/* banks behind it: the first, and the last one made */
	uint64_t ahead_bytes;
	struct gm_bank *kept_first;
	char *spare; /* addresses for new banks */
	uint64_t spare_size;
	unsigned refusals; /* registrations that the driver refused */
	bool populating;   /* the crew is at work */
	struct gm_bank *_Atomic populate_from;
	atomic_bool populate_end;
};

/* From now on parcels of `expected` bytes are taken: the crew makes their pages ahead. Ends with
 * gm_store_stop. */
void gm_store_begin(struct gm_store *store);

/* No more parcels are taken for now: the crew ends, and unused banks are kept. */
void gm_store_stop(struct gm_store *store);

/* Take a parcel of `size` bytes. NULL: no memory, or not enough room, which is looked up again
 * after each 256 MiB of new banks: other processes use it, too. */
struct gm_parcel *gm_store_take(struct gm_store *store, uint64_t size);
void gm_store_give(struct gm_store *store, struct gm_parcel *parcel);

/* --- the bytes of a parcel: a part of each of its banks --- */

struct gm_stored {
	struct gm_bank *bank;
	char *host;
	uint64_t begin, size; /* in the parcel */
};

/* The part behind *part, which begins zeroed. False: there is none. */
bool gm_store_part(const struct gm_parcel *parcel, struct gm_stored *part);

/* Populate the bank, wait for the crew's part of that, and register it in `context`, which is
 * current and entered (NULL: it is not registered). Without effect on a bank that is ready. A bank
 * stays pageable if the driver refuses, or beyond `pinnable`; after three refusals none is
 * registered. */
void gm_store_ready(struct gm_store *store, struct gm_bank *bank, struct gm_context *context);

/* --- host memory --- */

/* Bytes of host memory available without swapping (/proc/meminfo), and left to the process's cgroup
 * and those above it, kept banks included, less 64 MiB that stay free. UINT64_MAX: unknown. */
uint64_t gm_store_room(const struct gm_store *store);

/* What of that another user of host memory may take: without kept banks, and without those made
 * ahead, which may have no pages yet. */
uint64_t gm_store_room_beside(const struct gm_store *store);

/* Return a kept bank to the system if banks have more than `warm` bytes. False: none was. */
bool gm_store_shrink(struct gm_store *store);

/* Return all kept banks to the system. */
void gm_store_trim(struct gm_store *store);

/* In a forked child, which has none of the banks. */
void gm_store_forget(struct gm_store *store);

#endif
