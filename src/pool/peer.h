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

/* A chunk's access, in the form of cuMemSetAccess, at one moment. */
struct gm_access {
	CUmemAccessDesc list[GM_PEERS + 1];
	size_t n;
	uint64_t generation;
};

/* --- the pool's lock is held --- */

/* Access for a chunk being mapped: the pool's device, and its granted peers if `peers`. */
void gm_access_now(const struct gm_pool *pool, bool peers, struct gm_access *access);

/* Changes for a chunk that is mapped: every peer ever named, granted or not. */
void gm_access_changes(const struct gm_pool *pool, struct gm_access *access);

/* Update the access of all chunks that are on the device. The lock is released around driver calls.
 * A move of contents ends with this call, so that no grant is lost. */
CUresult gm_access_refresh(struct gm_pool *pool);

#endif
