/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Physical memory that the program creates (cuMemCreate): its handles and mappings. The memory
 * lives while a handle has an owner or a mapping exists, so both are counted.
 *
 * With GPUMEM_SLEEP the program's handles of device memory are ours. Behind a handle of ours the
 * driver's can be released while the process sleeps, and be another one afterwards:
 *
 *     program            here                               driver
 *     handle (ours) ---> memory: owners, mappings, access   real handle; none while it is away
 *     address      ---> mapping (of the program)            mapping; none while the memory is away
 *
 * create.c has the program's calls, physical_move.c the moves.
 */
#ifndef GM_SHIM_FOREIGN_PHYSICAL_H
#define GM_SHIM_FOREIGN_PHYSICAL_H

#include <stdbool.h>

#include "base/hash.h"
#include "base/lock.h"
#include "shim/foreign/foreign.h"
#include "shim/memory/device.h"

struct gm_mapping;

struct gm_physical {
	enum gm_foreign_kind kind; /* GM_FOREIGN_VIEW: not from cuMemCreate, size unknown */
	unsigned ordinal;
	size_t size;
	unsigned owners;
	unsigned refs; /* owners, mappings, and calls in progress that end one; a move */
	/* the rest is of memory behind a handle of ours */
	uint64_t handle;		   /* 0: the program has the driver's */
	CUmemGenericAllocationHandle real; /* the driver's; 0: none */
	CUmemAllocationProp prop;
	bool stays;  /* others know it physically, or it has access that is not known here */
	bool moving; /* its mappings do not change meanwhile */
	unsigned
		ending; /* calls of the program that end its mappings; it does not move meanwhile */
	bool away; /* its contents are in `store`; without references: they are no longer needed */
	void *store;
	CUdeviceptr window; /* through which its contents are copied; 0: closed */
	struct gm_mapping *mappings;
	struct gm_physical *prev, *next; /* in gm_physical_list */
};

/* A mapping of the program. */
struct gm_mapping {
	uint64_t at;
	size_t size;
	struct gm_physical *memory;
	bool gone; /* the driver does not have it, as the memory is away */
	unsigned char access[GM_COUNTER_DEVICES]; /* CUmemAccess_flags of each device */
	struct gm_mapping *prev, *next;		  /* of the memory */
	UT_hash_handle hh;
};

extern GM_HIDDEN struct gm_lock gm_physical_lock;      /* guards everything here */
extern GM_HIDDEN struct gm_physical *gm_physical_list; /* all behind a handle of ours */

/* --- under the lock --- */

/* Add a memory with one owner. The name is a handle of ours or the driver's. NULL: no host memory.
 */
struct gm_physical *gm_physical_make(uint64_t handle, const struct gm_physical *like);

/* The memory of a handle that has an owner; NULL: unknown. */
struct gm_physical *gm_physical_find(uint64_t handle);

/* A handle has one owner more, or one less. Adding: false: no host memory. Without owners a handle
 * is unknown; the references stay as they are. */
bool gm_physical_own(struct gm_physical *memory, uint64_t handle);
void gm_physical_disown(struct gm_physical *memory, uint64_t handle);

/* The mapping that begins at an address, or that has the address; NULL: unknown. */
struct gm_mapping *gm_mapping_at(CUdeviceptr at);
struct gm_mapping *gm_mapping_over(CUdeviceptr address);

/* Add a mapping, which is a reference of its memory; take it out of the table, and put it back
 * there. False: no host memory. What is out belongs to the caller. */
bool gm_mapping_make(CUdeviceptr at, size_t size, struct gm_physical *memory);
void gm_mapping_out(struct gm_mapping *mapping);
bool gm_mapping_back(struct gm_mapping *mapping);

/* Drop a reference. The result is a handle for gm_physical_end; 0: none. */
CUmemGenericAllocationHandle gm_physical_drop(struct gm_physical *memory);

/* --- without the lock --- */

/* Release a handle of the driver that the program does not know. */
CUresult gm_physical_end(CUmemGenericAllocationHandle real);

/* A number that no handle of the driver has. */
uint64_t gm_physical_handle(void);
bool gm_physical_is_ours(uint64_t handle);

/* True: `address` is in a mapping whose memory may be away while the process sleeps. */
bool gm_physical_may_leave(CUdeviceptr address);

/* True: it is in such a mapping, and the memory is away; *flags: the access of the device. */
bool gm_physical_access(CUdeviceptr address, int device, unsigned long long *flags);

/* The memory mapped in [at, +size) is known to others physically, so it stays. */
void gm_physical_keep(CUdeviceptr at, size_t size);

/* True: there is memory behind a handle of ours. */
bool gm_physical_any(void);

/* Bytes of a device behind handles of ours: those that a sleep moves, and those that are away. */
struct gm_physical_bytes {
	uint64_t moves, away;
};
struct gm_physical_bytes gm_physical_bytes(unsigned ordinal);

/* As gm_pool_send and gm_pool_fetch, for memory of the device behind handles of ours. */
struct gm_moved gm_physical_send(unsigned ordinal, const struct gm_mover *mover);
struct gm_moved gm_physical_fetch(unsigned ordinal, const struct gm_mover *mover);

/* modules.h */
void gm_physical_forget_all(void);

#endif
