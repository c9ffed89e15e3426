/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When each block of a device was alive, in bounded memory: what was alive at any time, by call
 * stack and by address, without the log. Single-threaded.
 *
 *     ns     0.......t.......2t.......3t.......4t
 *     life          |--------------------|          born at tick 1, gone at tick 4
 *     life             |--|                         between two ticks: only in `passed`
 *
 * A tick is 1 ns as long as the lives fit. Of more lives the tick is doubled until they do: then
 * what was alive is exact at each tick, and lives between two ticks are left out. If that is not
 * enough, lives of one stack with the same ticks are added up.
 */
#ifndef GM_TOOLS_LOG_LIVES_H
#define GM_TOOLS_LOG_LIVES_H

#include "base/array.h"
#include "tools/log/figures.h"
#include "tools/log/level.h"

#define GM_LIVES_END UINT64_MAX /* alive after all events */

/* Blocks of one stack, alive at the ticks [birth, death). */
struct gm_life {
	uint64_t birth, death;
	uint64_t bytes, n, largest;
	uint32_t stack; /* number; 0: none, or the log lacks it */
};

/* One block. */
struct gm_lives_block {
	uint64_t birth, death; /* ns since the start of the log */
	uint64_t address, size;
	uint32_t stack;
};

enum gm_lives_kind {
	GM_LIVES_POOL,	  /* a chunk of the pool */
	GM_LIVES_LENT,	  /* a chunk of a heap of kernels, or of a buffer; in older logs POOL */
	GM_LIVES_SEGMENT, /* at GM_LEVEL_TENSORS: a block, in which tensors may be */
};

/* Memory at one address, in which blocks, or else tensors, lie. */
struct gm_lives_chunk {
	uint64_t birth, death, address, size;
	uint64_t id; /* of a chunk its serial */
	enum gm_lives_kind kind;
};

/* All blocks of one stack. */
struct gm_lives_stack {
	uint32_t stack;
	uint64_t calls, bytes; /* allocated in the run */
	uint64_t brief;	       /* calls whose block was freed before the next allocation */
	uint64_t live, live_blocks;
	uint64_t peak, peak_time; /* the highest `live`; ns since the start */
};

struct gm_lives {
	uint64_t tick;				/* ns */
	GM_ARRAY(struct gm_life) all;		/* by birth */
	uint64_t passed;			/* blocks that lived between two ticks */
	GM_ARRAY(struct gm_lives_stack) stacks; /* those with the highest peak first */
	/* Those with the largest product of size and time, by birth; and how many are left out. */
	GM_ARRAY(struct gm_lives_block) blocks;
	uint64_t blocks_omitted;
	/* As many at most, in no order: all chunks before any SEGMENT, then by the same product. */
	GM_ARRAY(struct gm_lives_chunk) chunks;
	uint64_t chunks_omitted;
};

struct gm_lives_devices {
	struct gm_lives devices[GM_COUNTER_DEVICES];
};

/* Read a log with events: at most `most` lives, and half as many blocks, a device. Rewinds the log.
 * Ends the program when memory is short. The caller frees. */
void gm_lives_read(struct gm_lives_devices *out, const struct gm_figures *figures,
		   enum gm_level level, size_t most);
void gm_lives_free(struct gm_lives_devices *lives);

#endif
