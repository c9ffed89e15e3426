/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The devices that may access the pool's chunks. Each grant and revocation advances a generation,
 * pool->access. A chunk remembers the generation for which its access was set; any thread that
 * finds a chunk of an older generation updates it.
 */
#ifndef GM_POOL_PEER_H
#define GM_POOL_PEER_H

#include "pool/pool.h"

#define GM_PEERS 63

/* A chunk's access at one moment. Short, for a signal handler that allocates may have little
 * stack. */
struct gm_access {
	uint16_t device[GM_PEERS + 1];
	uint64_t granted; /* a bit a device; else it has none */
	unsigned n;
	uint64_t generation;
};

_Static_assert(GM_PEERS < 64, "a bit a device");

/* Set the access of [at, +size) by one call of the driver. Any lock may be held. */
CUresult gm_access_set(const struct gm_driver *driver, CUdeviceptr at, uint64_t size,
		       const struct gm_access *access);

/* --- the pool's lock is held --- */

/* Access for a chunk being mapped: the pool's device, and its granted peers if `peers`. */
void gm_access_now(const struct gm_pool *pool, bool peers, struct gm_access *access);

/* Changes for a chunk that is mapped: every peer ever named, granted or not. */
void gm_access_changes(const struct gm_pool *pool, struct gm_access *access);

/* Update the access of all chunks that are on the device. The lock is released around driver calls.
 * A move of contents ends with this call, so that no grant is lost. */
CUresult gm_access_refresh(struct gm_pool *pool);

#endif
