/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks that were freed on a stream, kept for the next allocation there. Work on one stream is in
 * order, so what was freed on it is reused on it at once, without a fence and without a call of the
 * driver; by another stream only once an event of the first has passed. Events are recorded for
 * GM_STREAMS_BATCH blocks or GM_STREAMS_BYTES at a time, while the caller vouches for the stream; a
 * stream's handle is never kept. Streams are told apart by cuStreamGetId, for a handle comes back;
 * where the driver has none (before 12.0) nothing is kept.
 *
 * A kept block is a live one to the pool. One struct a pool; any thread; no lock is held across a
 * call of the driver or of the pool. Calls are made with the capture mode RELAXED.
 */
#ifndef GM_POOL_STREAM_H
#define GM_POOL_STREAM_H

#include "pool/context.h"
#include "pool/pool.h"

#define GM_STREAMS_BATCH 16u
#define GM_STREAMS_BYTES ((uint64_t)32 << 20)
#define GM_STREAMS_MOST 256u /* blocks kept: beyond, the oldest go to the pool */

struct gm_streams;

struct gm_streams_config {
	const struct gm_driver *driver;
	struct gm_pool *pool;
	uint64_t most; /* bytes kept */
	/* A fresh block of the pool, as gm_pool_alloc. */
	CUresult (*take)(void *arg, size_t size, struct gm_context *context, struct gm_block *out);
	/* A block went back to the pool. `start`: when that began, gm_tick. NULL: nobody asks.
	 */
	void (*freed)(void *arg, const struct gm_block *block, uint64_t start);
	void *arg;
};

/* NULL: no host memory. The caller's until gm_streams_destroy, which forgets what is kept. */
struct gm_streams *gm_streams_create(const struct gm_streams_config *config);
void gm_streams_destroy(struct gm_streams *streams);

/* The number of a stream in the current context that is never used again; 0: it cannot be known. */
uint64_t gm_streams_number(const struct gm_driver *driver, CUstream stream);

/*
 * A block of at least `size` bytes (at least 1) for the stream of `number` (0: for any), which is
 * of `context`: a kept one, else `take`n; when that lacks memory all kept ones go to the pool
 * first.
 */
CUresult gm_streams_alloc(struct gm_streams *streams, size_t size, struct gm_context *context,
			  uint64_t number, struct gm_block *out);

/*
 * Free a block that from now on is not used but by what was queued on `stream` before. With number
 * 0 it goes to the pool, which waits as for cudaFree. CUDA_ERROR_INVALID_VALUE: no block that is in
 * use begins at `address`. `context`, which the stream is of, is current.
 */
CUresult gm_streams_free(struct gm_streams *streams, CUdeviceptr address,
			 struct gm_context *context, CUstream stream, uint64_t number);

/* Wait for the streams and free what is kept; returns bytes, as held. */
uint64_t gm_streams_settle(struct gm_streams *streams);

/* The context is destroyed or reset: what is kept of it is forgotten, before the pool takes its
 * blocks. */
void gm_streams_context_gone(struct gm_streams *streams, uint64_t key);

/* Bytes kept, as held. */
uint64_t gm_streams_kept(struct gm_streams *streams);

#endif
