/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks that were freed on a stream, kept for the next allocation there.
 *
 *     freed on a stream --> kept --> reused on the same stream: at once, without a driver call
 *                             |----> reused on another stream of its context: an event has passed
 *                             '----> oldest, when too much is kept, or drained: to the pool
 *
 * A free never waits. Kept blocks are cut for smaller requests from 1 MiB on, and joined again
 * (cut.h).
 *
 * Work on one stream is in order, so reuse there needs no fence. Events are recorded for
 * GM_STREAMS_BATCH blocks or GM_STREAMS_BYTES at a time, in a free, when the caller guarantees that
 * the stream exists; a stream's handle is never kept. cuStreamGetId identifies streams, because the
 * driver reuses handles. Without that function (before 12.0) nothing is kept.
 *
 * To the pool a kept block is live. One struct a pool; any thread; no lock is held across a call of
 * the driver or of the pool. Calls are made with the capture mode RELAXED. Calls on objects of a
 * context that may not be the caller's are made inside gm_context_enter.
 */
#ifndef GM_LIBRARY_STREAM_H
#define GM_LIBRARY_STREAM_H

#include "context/context.h"
#include "pool/pool.h"

#define GM_STREAMS_BATCH 16u
#define GM_STREAMS_BYTES ((uint64_t)32 << 20)
/* Kept bytes beyond 1 / SHARE of the bytes in use, and beyond LEAST bytes, go to the pool as soon
 * as their work has ended, oldest first; so do parts beyond MOST. */
#define GM_STREAMS_SHARE 8u
#define GM_STREAMS_LEAST ((uint64_t)128 << 20)
#define GM_STREAMS_MOST_SHARE 8u /* kept: at most this part of a device's memory */
#define GM_STREAMS_MOST 1024u

struct gm_streams;

struct gm_streams_config {
	const struct gm_driver *driver;
	struct gm_pool *pool;
	uint64_t most; /* bytes kept at most, however many are in use */
	/* A fresh block of the pool, as gm_pool_alloc. */
	CUresult (*take)(void *arg, size_t size, struct gm_context *context, struct gm_block *out);
	/* A block went back to the pool; the free began at `start` of gm_tick. May be NULL. */
	void (*freed)(void *arg, const struct gm_block *block, uint64_t start);
	void *arg;
};

/* NULL: no host memory. The caller owns it until gm_streams_destroy, which forgets kept blocks. */
struct gm_streams *gm_streams_create(const struct gm_streams_config *config);
void gm_streams_destroy(struct gm_streams *streams);

/* The number of a stream in the current context, which is never reused; 0: unknown. */
uint64_t gm_streams_number(const struct gm_driver *driver, CUstream stream);

/*
 * Memory of at least `size` bytes (at least 1) for the stream of `number` (0: for any stream) of
 * `context`: a kept part, else memory from config.take. *out is its block, with base, size and held
 * of the program's part. If more is kept than the bound, and the pool would have to grow, this
 * waits 10 ms at most for work to end. If memory lacks, all kept blocks go to the pool, and
 * config.take is called again.
 */
CUresult gm_streams_alloc(struct gm_streams *streams, size_t size, struct gm_context *context,
			  uint64_t number, struct gm_block *out);

/*
 * Free memory. Its only user is work queued before on `stream`. With number 0 the memory goes to
 * the pool, which waits as for cudaFree. `context`, that of the stream, is current.
 * CUDA_ERROR_INVALID_VALUE: no memory in use begins at `address`.
 */
CUresult gm_streams_free(struct gm_streams *streams, CUdeviceptr address,
			 struct gm_context *context, CUstream stream, uint64_t number);

/* Wait for the streams and free all kept blocks, except those that cannot be freed now, as in a
 * context that is ending. Waits also for kept blocks that other threads are freeing. Returns the
 * bytes, as held, freed meanwhile. */
uint64_t gm_streams_drain(struct gm_streams *streams);

/* The context is destroyed or reset: forget its kept blocks, before the pool makes them idle. */
void gm_streams_context_gone(struct gm_streams *streams, uint64_t key);

/* Bytes of kept blocks, as held. */
uint64_t gm_streams_kept(struct gm_streams *streams);

#endif
