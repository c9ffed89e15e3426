/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The blocks alive at a moment of a log, by number. Memory use: the peak of live blocks.
 * Single-threaded.
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
	GM_BLOCKS_SAME,	   /* the record changes no block */
	GM_BLOCKS_BORN,	   /* *block: a copy of the new block */
	GM_BLOCKS_GONE,	   /* *block: a copy of the removed block */
	GM_BLOCKS_UNBORN,  /* a free of a block without an allocation in the log */
	GM_BLOCKS_UNNAMED, /* an allocation without a number: not tracked */
};

/* Apply a record of `device` (-1: any device). Ends the program when memory is short. */
enum gm_blocks_change gm_blocks_follow(struct gm_blocks *blocks, const struct gm_record *record,
				       int device, struct gm_blocks_one *block);
void gm_blocks_free(struct gm_blocks *blocks);

#endif
