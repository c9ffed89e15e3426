/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vacant places: addresses of a live block whose memory serves others for a while.
 *
 *     block    [ chunk | chunk | chunk ]             vacate: no work uses the middle one
 *     block    [ chunk |       | chunk ]  + [ idle ] its memory is idle, at other addresses
 *     block    [ chunk | chunk | chunk ]             occupy: idle or new memory is mapped there
 *
 * A vacant place stays a chunk in the pool's books, without a handle, and busy, so that addresses,
 * blocks and sums are as before; gm_pool_stats.vacant has its bytes, which count against no limit.
 * An access to it faults, and its contents are lost. If the device has no memory for it, memory of
 * the host can be mapped there: it is vacant still, but no access faults. A free of the block waits
 * for its work, as natively, and ends the places with it.
 *
 * Who vacates a block knows what of it is in use, and makes one call at a time for a block. Source:
 * none; the driver's part is measured by tests/gpu/mapping.cu.
 */
#ifndef GM_POOL_VACANT_H
#define GM_POOL_VACANT_H

#include "pool/pool.h"

struct gm_chunk;
struct gm_piece;

/* --- no lock is held --- */

/*
 * Take the memory of all chunks that lie wholly in [base, base + size) of one live block, which is
 * not pinned, and make it idle; memory of the host is released. The caller has waited for all work
 * that uses them. Returns the bytes; fewer if a driver call fails or host memory runs out, and 0 if
 * there is no such block. A chunk whose call failed is as it was; or vacant, with its memory
 * returned to the driver, if that failed, too.
 */
uint64_t gm_pool_vacate(struct gm_pool *pool, CUdeviceptr base, uint64_t size);

/* The bytes that must be vacated before the pool can serve `bytes`: what exceeds its limit; without
 * one all, for memory of others lacks, too. */
uint64_t gm_pool_lack(struct gm_pool *pool, uint64_t bytes);

/* The chunk with the address: its base and size; 0: there is none. Under a live block it stays as
 * it is. */
uint64_t gm_pool_place(struct gm_pool *pool, CUdeviceptr at, CUdeviceptr *base);

/* Does an access to `base` fault, for its place is vacant and has no memory of the host? */
bool gm_pool_is_vacant(struct gm_pool *pool, CUdeviceptr base);

/*
 * Map memory at all vacant places that overlap [base, base + size): an idle chunk of the same size,
 * else new memory, if need be after other idle chunks were returned. Their contents are undefined.
 * CUDA_ERROR_OUT_OF_MEMORY, or the driver's error: the remaining places are vacant.
 */
CUresult gm_pool_occupy(struct gm_pool *pool, CUdeviceptr base, uint64_t size);

/* The same with memory of the host, which gm_pool_vacate, or the end of the block, releases. Needs
 * driver 12.2. */
CUresult gm_pool_occupy_host(struct gm_pool *pool, CUdeviceptr base, uint64_t size);

/*
 * Map the memory of the chunks at from[i] at the vacant places to[i], of the same sizes, without a
 * stay elsewhere: the chunks are vacant then. As in gm_pool_vacate the caller has waited for their
 * work. Places that are side by side in `to` get their access by one call. moved[i]: was it done?
 * If not, both are as before; or both vacant, if the driver mapped the memory at neither.
 */
void gm_pool_shift(struct gm_pool *pool, const CUdeviceptr *from, const CUdeviceptr *to, size_t n,
		   bool *moved);

/* Under the pool's lock: show the bytes of vacant places in the counters. */
void gm_vacant_count(const struct gm_pool *pool);

/* Under the pool's lock: has the block a vacant place? */
bool gm_vacant_in(const struct gm_pool *pool, const struct gm_piece *piece);

/* Is a place in [base, +size) vacant, with memory of the host or without? */
bool gm_vacant_any(struct gm_pool *pool, CUdeviceptr base, uint64_t size);

/* Wait until no other thread moves memory from or to a place in [base, +size). */
void gm_vacant_await(struct gm_pool *pool, CUdeviceptr base, uint64_t size);

/* Under the pool's lock: may the chunk be vacated, for one block alone has it, and nobody else
 * knows its physical address? */
bool gm_vacant_may_begin(struct gm_pool *pool, const struct gm_chunk *chunk);

/* For gm_pool_destroy: release the host memory of a place. */
void gm_vacant_unhost(struct gm_pool *pool, struct gm_chunk *place);

/* For gm_pool_free: has the block vacant places? Takes the pool's lock if any block has. */
bool gm_vacant_has(struct gm_pool *pool, const struct gm_block *block);

/* End the vacant places of a block that the caller has claimed and waited for, and make the rest of
 * it idle. False: no host memory; the block stays claimed. */
bool gm_vacant_end(struct gm_pool *pool, struct gm_piece *piece);

#endif
