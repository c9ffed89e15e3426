/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chunks: physical handles, and where they are mapped. The first group calls the driver and is
 * called with no lock held, on chunks that nobody else knows; the second keeps the books, under the
 * pool's lock.
 */
#ifndef GM_POOL_CHUNK_H
#define GM_POOL_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#include "driver/driver.h"
#include "pool/pool.h"
#include "pool/range.h"

#define GM_PEERS 63

enum gm_chunk_extra { GM_CHUNK_RDMA = 1, GM_CHUNK_EXPORTABLE = 2 };

struct gm_chunk {
	CUdeviceptr base; /* where it is mapped */
	uint64_t size;
	uint64_t used; /* bytes in live and retired blocks */
	uint64_t serial;
	CUmemGenericAllocationHandle handle; /* 0: none */
	unsigned pins;			     /* pins of live blocks on it */
	unsigned busy;			     /* threads that are changing its access */
	bool picked;			     /* to be detached */
	uint64_t access;		     /* generation of the peers that it was opened to */
	uint64_t seen_used, seen_pins;	     /* scratch of gm_pool_check */
	uint64_t idle_since;		     /* by config.clock, if used is 0: last used then */
	struct gm_run *run;		     /* its addresses in the range */
	struct gm_run *to;		     /* where it is being moved, or NULL */
	struct gm_chunk *before, *after;     /* in the pool's list, or in a caller's (after) */
	struct gm_chunk *idle_before, *idle_after; /* among those of used 0, longest idle first */
};

/* A chunk's access, as cuMemSetAccess takes it, at one moment. */
struct gm_access {
	CUmemAccessDesc list[GM_PEERS + 1];
	size_t n;
	uint64_t generation;
};

/* --- driver calls, no lock held --- */

/*
 * Make the physical memory, and, unless `access` is NULL, map it at chunk->base. Exportable and
 * RDMA-capable where the device allows it: what it says it can do and then refuses, here or when
 * access is given, is not asked for again. On failure there is no handle.
 */
CUresult gm_chunk_create(struct gm_pool *pool, struct gm_chunk *chunk,
			 const struct gm_access *access);
/* Map it at `at` and give access; unmapped again when that fails. chunk->base becomes `at`. */
CUresult gm_chunk_map(struct gm_pool *pool, struct gm_chunk *chunk, CUdeviceptr at,
		      const struct gm_access *access);
CUresult gm_chunk_unmap(struct gm_pool *pool, struct gm_chunk *chunk);
/* Give the physical memory back; whatever the driver answers, the handle is gone. */
void gm_chunk_release(struct gm_pool *pool, struct gm_chunk *chunk);

/* --- books, under the pool's lock --- */

/* The chunk mapped at an address of the range, or NULL. */
struct gm_chunk *gm_chunk_at(const struct gm_pool *pool, CUdeviceptr address);

/* A pending chunk that is mapped becomes part of the pool, wholly idle. Keeps its promise. */
void gm_chunk_publish(struct gm_pool *pool, struct gm_chunk *chunk);

/* A chunk of `size` bytes, counted as pending, with an extent promised, and neither handle nor
 * addresses yet; NULL: no host memory. */
struct gm_chunk *gm_chunk_new(struct gm_pool *pool, uint64_t size);

/* Is there a chunk that gm_chunks_pick could pick, as things are? */
bool gm_chunks_any(const struct gm_pool *pool, uint64_t bytes, CUdeviceptr apart);

/*
 * Pick wholly idle chunks, neither pinned nor busy, of at most `bytes` in all, the largest that fit
 * first, so that they are few, and no more than `most` of them; none below an idle extent that ends
 * at `apart` (0: any). Returns their bytes. gm_chunks_detach must follow before the lock is
 * dropped.
 */
uint64_t gm_chunks_pick(struct gm_pool *pool, uint64_t bytes, unsigned most, CUdeviceptr apart);

/*
 * Take wholly idle chunks, neither pinned nor busy, out of the pool: those that were picked, or at
 * least `bytes` in all if there are as many. They are linked through `after`, counted as pending,
 * each has an extent promised, and is still mapped. Without host memory they may be fewer.
 */
struct gm_chunk *gm_chunks_detach_picked(struct gm_pool *pool);
struct gm_chunk *gm_chunks_detach(struct gm_pool *pool, uint64_t bytes);

/* Likewise take one wholly idle chunk out, neither pinned nor busy; false: no host memory. */
bool gm_chunk_detach(struct gm_pool *pool, struct gm_chunk *chunk);

/* The chunks under [base, +length) hold that much more, or less, of used memory, which was in use
 * until `since`. */
void gm_chunk_use(struct gm_pool *pool, CUdeviceptr base, uint64_t length);
void gm_chunk_unuse(struct gm_pool *pool, CUdeviceptr base, uint64_t length, uint64_t since);

/* A detached or never published chunk is no more: it is not pending any longer, and its addresses,
 * its promise and its host memory are given back. */
void gm_chunk_forget(struct gm_pool *pool, struct gm_chunk *chunk);

/* Access for a chunk that is mapped now: the pool's device, and its granted peers if `peers`. */
void gm_access_now(const struct gm_pool *pool, bool peers, struct gm_access *access);
/* What to change on a chunk mapped earlier: every peer ever named, granted or not. */
void gm_access_changes(const struct gm_pool *pool, struct gm_access *access);
/* Bring all chunks up to date; the lock is dropped around driver calls. */
CUresult gm_access_refresh(struct gm_pool *pool);

#endif
