/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stand-in for libc10_cuda.so: PyTorch's caching allocator, with the order of its calls (torch
 * 2.11, native backend). Loaded at run time; `lend_cache` is the one name that programs look up.
 *
 *     blocks.c     segments, blocks, events
 *     cache.c      the table below, and the object whose allocate() throws OutOfMemoryError
 */
#ifndef GM_TESTS_PRELOAD_LEND_CACHE_H
#define GM_TESTS_PRELOAD_LEND_CACHE_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lend_pool;  /* the private pool of a graph */
struct lend_block; /* a tensor's memory */

/* Reports that PyTorch never makes: one each. */
enum lend_wrong {
	LEND_RIGHT,
	LEND_WRONG_SUM,	 /* the next report has another sum of all tensors */
	LEND_WRONG_FREE, /* a tensor that nobody has is taken back, inside of a block */
	LEND_WRONG_TWICE /* a block is handed out again */
};

struct lend_counts {
	uint64_t tensors;  /* handed out */
	uint64_t segments; /* from the driver */
	uint64_t retries;  /* refused segments; unused ones were freed before another attempt */
	uint64_t refused;  /* tensors, for lack of a segment */
	uint64_t thrown;   /* tensors, by OutOfMemoryError out of the report */
	uint64_t waiting;  /* blocks that waited for events of other streams */
	uint64_t allocated, reserved;
};

struct lend_cache {
	/* NULL: out of memory. */
	struct lend_block *(*take)(size_t size, CUstream stream);
	void (*give)(struct lend_block *block);
	CUdeviceptr (*address)(const struct lend_block *block);
	/* The block is used in this stream, too (recordStream). */
	void (*record)(struct lend_block *block, CUstream stream);
	/* False: a capture is under way. */
	bool (*empty)(void);
	/* From now on, tensors of this thread come from the pool of another graph, or, NULL, a new
	 * one; until capture_end. */
	struct lend_pool *(*capture_begin)(struct lend_pool *pool);
	void (*capture_end)(void);
	/* One of the pool's graphs is no more. */
	void (*pool_release)(struct lend_pool *pool);
	void (*wrong)(enum lend_wrong what, struct lend_block *block);
	/* Get segments by cudaMalloc of this library. False: there is none. */
	bool (*runtime)(const char *library);
	/* Never free a segment: neither at a lack of memory, nor in `empty`. */
	void (*keep)(void);
	/* Wrong on purpose: calls of `record` are forgotten. */
	void (*forget)(void);
	void (*counts)(struct lend_counts *out);
};

const struct lend_cache *lend_cache(void);

#endif
