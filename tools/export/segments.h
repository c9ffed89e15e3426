/* SPDX-License-Identifier: BSD-3-Clause */
/* The mapped addresses of a device at the end of a log, and the blocks in them; or the segments of
 * PyTorch's cache, and the tensors in them. Memory use: chunks and live blocks. Single-threaded;
 * functions end the program when memory is short. */
#ifndef GM_TOOLS_EXPORT_SEGMENTS_H
#define GM_TOOLS_EXPORT_SEGMENTS_H

#include "base/array.h"
#include "tools/log/blocks.h"

/* Mapped addresses without a gap: several chunks, or one block of the driver, or a segment. */
struct gm_segment {
	uint64_t address, size;
	uint64_t used, requested; /* sums of its blocks */
	const struct gm_blocks_one *blocks;
	size_t n_blocks; /* sorted by address */
	uint32_t stack;	 /* of a segment of the cache */
	bool driver;	 /* not made of chunks */
};

struct gm_segments_chunk {
	uint64_t address, size, serial;
	uint32_t stack;
	bool separate; /* a segment of the cache: not joined to its neighbours */
};

struct gm_segments {
	GM_ARRAY(struct gm_segments_chunk) chunks;
	GM_ARRAY(struct gm_blocks_one) blocks;
	GM_ARRAY(struct gm_segment) at; /* set by gm_segments_finish */
};

/* Follow a record of the device. */
void gm_segments_follow(struct gm_segments *segments, const struct gm_record *record);

/* Add a segment of the cache, a live block. */
void gm_segments_add_block(struct gm_segments *segments, const struct gm_blocks_one *block);

/* Make the segments with the live blocks. A block outside all chunks becomes a segment. Overlapping
 * blocks of a damaged log are dropped. */
void gm_segments_finish(struct gm_segments *segments, const struct gm_blocks *alive);

/* Call `each` with the parts of a segment without gaps: a block, or NULL for idle memory. */
void gm_segment_walk(const struct gm_segment *segment,
		     void (*each)(void *arg, uint64_t address, uint64_t size,
				  const struct gm_blocks_one *block),
		     void *arg);

void gm_segments_free(struct gm_segments *segments);

#endif
