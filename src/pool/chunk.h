/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chunks: physical handles, and the addresses where they are mapped.
 *
 *     new --create, map--> mapped --publish--> in the pool --detach--> detached
 *      |                                            ^                   |    |
 *    forget                                         +----- publish -----+    unmap, release, forget
 *
 * In the pool a chunk's memory consists of extents. In all other states the chunk is pending: one
 * thread owns it, and an extent is promised for it.
 */
#ifndef GM_POOL_CHUNK_H
#define GM_POOL_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/driver.h"
#include "log/record.h"
#include "pool/hot.h"
#include "pool/pool.h"
#include "pool/range.h"

struct gm_access;

/* Properties of cuMemAlloc's memory, if the device has them; physical memory has them on request
 * only. */
enum gm_chunk_extra { GM_CHUNK_RDMA = 1, GM_CHUNK_EXPORTABLE = 2, GM_CHUNK_DECOMPRESS = 4 };

struct gm_chunk {
	CUdeviceptr base; /* where it is mapped */
	uint64_t size;
	uint64_t used; /* bytes in live, retired and shelved blocks */
	uint64_t serial;
	CUmemGenericAllocationHandle handle; /* 0: none */
	unsigned pins;			     /* pins of live blocks on it */
	unsigned busy;			     /* threads that change its access or export it */
	bool remappable;		     /* scratch of gm_chunks_pick */
	bool picked;			     /* gm_chunks_pick chose it for detaching */
	bool exportable;		     /* the driver can export a descriptor of it */
	bool away;		       /* its contents are in `store` (away.c), and it is busy */
	bool moving;		       /* a mover may have unmapped it */
	bool vacant;		       /* its place has no memory of the device, and is busy; with a
					* handle: it has memory of the host (vacant.h) */
	void *store;		       /* the mover's; NULL: none */
	uint64_t access;	       /* generation of its access; see peer.h */
	uint64_t seen_used, seen_pins; /* scratch of gm_pool_check */
	uint64_t idle_since;	       /* time of the last use, if `used` is 0 */
	struct gm_run *run;	       /* its addresses in the range, or NULL */
	struct gm_run *to;	       /* target of a move in progress, or NULL */
	struct gm_heat heat;	       /* while it is detached; stamp 0: it was idle, not hot */
	struct gm_chunk *before, *after; /* in the pool's list; after: also in a caller's list */
	struct gm_chunk *idle_before, *idle_after; /* among wholly idle chunks, oldest first */
};

/* --- driver calls: no lock is held, and the calling thread owns the chunk --- */

/*
 * Create the physical memory and, unless `access` is NULL, map it at chunk->base. It is exportable
 * and RDMA-capable if the device supports that. A claimed property of the device that makes a call
 * here fail is not requested again; of a chunk whose contents were away only if two calls fail. On
 * failure there is no handle.
 */
CUresult gm_chunk_create(struct gm_pool *pool, struct gm_chunk *chunk,
			 const struct gm_access *access);

/* Map the chunk at `at`, which becomes chunk->base, and set its access. On failure it is unmapped.
 */
CUresult gm_chunk_map(struct gm_pool *pool, struct gm_chunk *chunk, CUdeviceptr at,
		      const struct gm_access *access);
CUresult gm_chunk_unmap(struct gm_pool *pool, struct gm_chunk *chunk);

/* End the stand-in of a pool (pool.h) that nobody uses any more. */
void gm_stand_in_close(struct gm_pool *pool);

/* Return the physical memory to the driver. The handle is gone even if the driver reports an
 * error. */
void gm_chunk_release(struct gm_pool *pool, struct gm_chunk *chunk);

/* Count and log that a chunk was mapped, moved (from `old`) or returned to the driver. Any lock may
 * be held. */
void gm_chunk_record(struct gm_pool *pool, const struct gm_chunk *chunk, enum gm_record_kind kind,
		     uint64_t ns, CUdeviceptr old);

/* The same for a chunk that is lent, or was: with GM_RECORD_LENT or _RETURNED. */
void gm_chunk_record_loan(struct gm_pool *pool, const struct gm_chunk *chunk,
			  enum gm_record_kind kind, uint64_t ns, CUdeviceptr old,
			  enum gm_record_flag flag);

/* --- the pool's lock is held --- */

/* The chunk that is mapped at an address of the range, or NULL. */
struct gm_chunk *gm_chunk_at(const struct gm_pool *pool, CUdeviceptr address);

/* A new chunk of `size` bytes, without a handle and addresses. NULL: no host memory. */
struct gm_chunk *gm_chunk_new(struct gm_pool *pool, uint64_t size);

/* A mapped, pending chunk becomes part of the pool, wholly idle. Uses its promised extent. */
void gm_chunk_publish(struct gm_pool *pool, struct gm_chunk *chunk);

/* A pending chunk ends: frees its addresses, its promise and its host memory. */
void gm_chunk_forget(struct gm_pool *pool, struct gm_chunk *chunk);

/* Count [base, +length) as used in the chunks under it; or as unused, with its last use at
 * `since`. */
void gm_chunk_use(struct gm_pool *pool, CUdeviceptr base, uint64_t length);
void gm_chunk_unuse(struct gm_pool *pool, CUdeviceptr base, uint64_t length, uint64_t since);

/* --- likewise; the caller has emptied the shelves: shelved blocks keep chunks in use --- */

/* Would gm_chunks_pick find a chunk now? Blocks may be on the shelves. */
bool gm_chunks_any(const struct gm_pool *pool, uint64_t bytes, CUdeviceptr below, uint64_t context);

/*
 * Pick wholly idle chunks, neither pinned nor busy: at most `most` of them and at most `bytes` in
 * total, the largest first, so that they are few. None lies in the idle extent that ends at `below`
 * (0: there is none). Hot ones are among them if they are for a block of this context (0: of none)
 * and may have aliases. Returns their bytes. gm_chunks_detach_picked must follow before the lock is
 * released.
 */
uint64_t gm_chunks_pick(struct gm_pool *pool, uint64_t bytes, unsigned most, CUdeviceptr below,
			uint64_t context);

/*
 * Detach wholly idle chunks, neither pinned nor busy: the picked ones, or a total of at least
 * `bytes`, or all if that is less. They are still mapped, and linked through `after`. Fewer if host
 * memory runs out.
 */
struct gm_chunk *gm_chunks_detach_picked(struct gm_pool *pool);
struct gm_chunk *gm_chunks_detach(struct gm_pool *pool, uint64_t bytes);

/* May the wholly idle chunk leave the pool? It is neither pinned, busy nor hot. */
bool gm_chunk_is_movable(const struct gm_pool *pool, const struct gm_chunk *chunk);

/* Detach one wholly idle chunk, neither pinned nor busy. False: no host memory. */
bool gm_chunk_detach(struct gm_pool *pool, struct gm_chunk *chunk);

#endif
