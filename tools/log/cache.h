/* SPDX-License-Identifier: BSD-3-Clause */
/* The blocks that are segments of PyTorch's cache: those in which a tensor ever lay.
 * Single-threaded.
 */
#ifndef GM_TOOLS_LOG_CACHE_H
#define GM_TOOLS_LOG_CACHE_H

#include "base/array.h"
#include "log/counters.h"
#include "log/read.h"

struct gm_cache_block {
	uint64_t address, end, id;
	bool segment;
};

struct gm_cache_device {
	GM_ARRAY(struct gm_cache_block) alive; /* by address; empty after gm_cache_find */
	GM_ARRAY(uint64_t) segments;	       /* numbers of blocks, sorted by gm_cache_find */
};

struct gm_cache {
	struct gm_cache_device devices[GM_COUNTER_DEVICES];
};

/* Find the segments of a log of events. Rewinds the log; ends the program when memory is short. The
 * caller frees. */
void gm_cache_find(struct gm_cache *cache, struct gm_log_file *file);
/* Is the block of this number a segment? */
bool gm_cache_has(const struct gm_cache *cache, unsigned device, uint64_t id);
void gm_cache_free(struct gm_cache *cache);

#endif
