/* SPDX-License-Identifier: BSD-3-Clause */
#include "pool/peer.h"

#include "pool/internal.h"

CUresult gm_access_set(const struct gm_driver *driver, CUdeviceptr at, uint64_t size,
		       const struct gm_access *access)
{
	CUmemAccessDesc list[access->n ? access->n : 1];
	for (unsigned i = 0; i < access->n; i++)
		list[i] = (CUmemAccessDesc){
			.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = access->device[i]},
			.flags = access->granted >> i & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
							  : CU_MEM_ACCESS_FLAGS_PROT_NONE,
		};
	return driver->cuMemSetAccess(at, size, list, access->n);
}

static void access_begin(const struct gm_pool *pool, struct gm_access *access)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	access->n = 0;
	access->granted = 0;
	access->generation = pool->access;
}

static void access_add(struct gm_access *access, CUdevice device, bool granted)
{
	access->granted |= (uint64_t)granted << access->n;
	access->device[access->n++] = (uint16_t)device;
}

void gm_access_now(const struct gm_pool *pool, bool peers, struct gm_access *access)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	access_begin(pool, access);
	access_add(access, pool->config.device, true);
	for (unsigned i = 0; peers && i < pool->n_peers; i++)
		if (pool->peers[i].granted)
			access_add(access, pool->peers[i].device, true);
}

void gm_access_changes(const struct gm_pool *pool, struct gm_access *access)
{
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	access_begin(pool, access);
	for (unsigned i = 0; i < pool->n_peers; i++)
		access_add(access, pool->peers[i].device, pool->peers[i].granted);
}

/* Update the access of one busy chunk. The pool's lock is released around the driver call. */
static CUresult chunk_update_access(struct gm_pool *pool, struct gm_chunk *chunk)
{
	struct gm_access access;
	gm_access_changes(pool, &access);
	gm_pool_unlock(pool);
	CUstreamCaptureMode mode = gm_driver_quiet_begin(pool->driver);
	CUresult result = gm_access_set(pool->driver, chunk->base, chunk->size, &access);
	gm_driver_quiet_end(pool->driver, mode);
	gm_pool_lock(pool);
	if (result == CUDA_SUCCESS && chunk->access < access.generation)
		chunk->access = access.generation;
	return result;
}

/* A busy chunk stays in the list, so the walk continues from it after the lock was released. Chunks
 * published meanwhile have their access already. */
CUresult gm_access_refresh(struct gm_pool *pool)
{
	CUresult result = CUDA_SUCCESS;
	gm_lock_assert_held(GM_LOCK_RANK_POOL);
	for (struct gm_chunk *chunk = pool->chunks; chunk && result == CUDA_SUCCESS;
	     chunk = chunk->after) {
		chunk->busy++;
		/* The mover sets the access of a chunk that it has, and of one that is away. */
		while (result == CUDA_SUCCESS && !chunk->away && !chunk->moving &&
		       (!chunk->vacant || chunk->handle) && chunk->access != pool->access)
			result = chunk_update_access(pool, chunk);
		chunk->busy--;
	}
	return result;
}

static struct gm_peer *peer_find(struct gm_pool *pool, CUdevice device)
{
	for (unsigned i = 0; i < pool->n_peers; i++)
		if (pool->peers[i].device == device)
			return &pool->peers[i];
	return NULL;
}

static CUresult peer_change(struct gm_pool *pool, struct gm_peer *peer, bool granted)
{
	peer->granted = granted;
	pool->access++;
	return gm_access_refresh(pool);
}

CUresult gm_pool_grant(struct gm_pool *pool, CUdevice device)
{
	CUresult result = CUDA_SUCCESS;
	if (device == pool->config.device)
		return CUDA_SUCCESS;
	gm_pool_lock(pool);
	struct gm_peer *peer = peer_find(pool, device);
	if (!peer && pool->n_peers == GM_PEERS) {
		result = CUDA_ERROR_NOT_SUPPORTED;
	} else if (!peer || !peer->granted) {
		if (!peer) {
			peer = &pool->peers[pool->n_peers++];
			peer->device = device;
		}
		result = peer_change(pool, peer, true);
		if (result != CUDA_SUCCESS) /* all chunks or none */
			peer_change(pool, peer, false);
	} else {
		result = gm_access_refresh(pool); /* another thread may still be updating */
	}
	gm_pool_unlock(pool);
	return result;
}

CUresult gm_pool_revoke(struct gm_pool *pool, CUdevice device)
{
	CUresult result = CUDA_SUCCESS;
	gm_pool_lock(pool);
	struct gm_peer *peer = peer_find(pool, device);
	if (peer)
		result = peer->granted ? peer_change(pool, peer, false) : gm_access_refresh(pool);
	gm_pool_unlock(pool);
	return result;
}
