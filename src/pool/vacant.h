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
 * An access to it faults, and its contents are lost. A free of the block waits for its work, as
 * natively, and ends the places with it.
 *
 * Who vacates a block knows what of it is in use, and makes one call at a time for a block. Source:
 * none; the driver's part is measured by tests/gpu/mapping.cu.
 */
#ifndef GM_POOL_VACANT_H
#define GM_POOL_VACANT_H

#include "pool/pool.h"

struct gm_piece;

/* --- no lock is held --- */

/*
 * Take the memory of all chunks that lie wholly in [base, base + size) of one live block, which is
 * not pinned, and make it idle. The caller has waited for all work that uses them. Returns the
 * bytes; fewer if a driver call fails or host memory runs out, and 0 if there is no such block. A
 * chunk whose call failed is as it was; or vacant, with its memory returned to the driver, if that
 * failed, too.
 */
uint64_t gm_pool_vacate(struct gm_pool *pool, CUdeviceptr base, uint64_t size);

/*
 * Map memory at all vacant places that overlap [base, base + size): an idle chunk of the same size,
 * else new memory, if need be after other idle chunks were returned. Their contents are undefined.
 * CUDA_ERROR_OUT_OF_MEMORY, or the driver's error: the remaining places are vacant.
 */
CUresult gm_pool_occupy(struct gm_pool *pool, CUdeviceptr base, uint64_t size);

/* For gm_pool_free: has the block vacant places? Takes the pool's lock if any block has. */
bool gm_vacant_has(struct gm_pool *pool, const struct gm_block *block);

/* End the vacant places of a block that the caller has claimed and waited for, and make the rest of
 * it idle. False: no host memory; the block stays claimed. */
bool gm_vacant_end(struct gm_pool *pool, struct gm_piece *piece);

#endif
