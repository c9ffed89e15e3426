/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The blocks that are alive at a moment of a log, by their numbers. Memory is that of the most
 * blocks alive at a time. Single-threaded.
 */
#ifndef GM_TOOLS_LOG_BLOCKS_H
#define GM_TOOLS_LOG_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log/record.h"

struct gm_blocks_one {
	uint64_t id; /* 0: a free place of the table */
	uint64_t address, size, held;
	uint64_t born;	/* CLOCK_MONOTONIC; 0: before the log's first record */
	uint32_t stack; /* number; 0: none */
	uint8_t device;
	bool driver; /* served by the driver */
};

struct gm_blocks {
	struct gm_blocks_one *at;
	size_t room, n; /* room: places, a power of two or 0 */
};

enum gm_blocks_change {
	GM_BLOCKS_SAME,	   /* the record is about no block, or the block is known already */
	GM_BLOCKS_BORN,	   /* *block is the new one, which stays in the table */
	GM_BLOCKS_GONE,	   /* *block is a copy of the one that left */
	GM_BLOCKS_UNBORN,  /* a free of a block that the log never saw */
	GM_BLOCKS_UNNAMED, /* an allocation without a number: it cannot be followed */
};

/* Follow a record. `device`: of this device only; -1: of all. Ends the program when memory is
 * short. */
enum gm_blocks_change gm_blocks_follow(struct gm_blocks *blocks, const struct gm_record *record,
				       int device, struct gm_blocks_one *block);
void gm_blocks_free(struct gm_blocks *blocks);

#endif
