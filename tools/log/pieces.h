/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of a device's pool by addresses: chunks, blocks, and the idle pieces between them.
 * From the events of a log. A block takes O(log n) in n blocks, a chunk O(chunks). Single-threaded.
 *
 *     chunk    |-----------------------------------------||--------------- ...
 *     blocks      [large  ]      [s][s] [s]                    [large ]
 *     slabs                    |-----------|  128 KiB each
 *     holes    |--|        |---|           |-------------------|       |-- ...
 */
#ifndef GM_TOOLS_LOG_PIECES_H
#define GM_TOOLS_LOG_PIECES_H

#include "base/array.h"
#include "log/read.h"
#include "tools/log/blocks.h"
#include "tools/log/holes.h"

#define GM_PIECES_SMALL_MOST ((uint64_t)64 << 10) /* the largest block in a slab */

struct gm_pieces_chunk {
	uint64_t address, size, serial;
	uint64_t used; /* bytes of blocks */
	bool lent;     /* to a device heap */
};

/* Begins zeroed. */
struct gm_pieces {
	struct gm_blocks blocks;		 /* the driver's too */
	GM_ARRAY(struct gm_pieces_chunk) chunks; /* by address */
	struct gm_holes holes;	      /* idle runs: mapped, not lent, and in no block and no slab */
	struct gm_holes large, small; /* addresses of the pool's blocks */
	uint64_t overlaps; /* blocks that began where others were: the free of those came later */
	/* Sums in bytes: of the pool's blocks; and of chunks that are not lent. */
	uint64_t live, requested, handed_out, inside, mapped, lent, unreclaimable, whole, n_lent;
};

/* Apply a record of `device`. True: chunks or blocks may have changed. Ends the program when memory
 * is short. */
bool gm_pieces_follow(struct gm_pieces *pieces, const struct gm_log_entry *entry, unsigned device);

/*
 * What a sample of the pool has now: sums, runs, unreclaimable. Freed memory is idle even if the
 * GPU still uses it. A slab is known by its blocks: the 128 KiB around a block of a slab are in no
 * run. False: blocks lie outside of the chunks, so the events do not tell.
 */
bool gm_pieces_sample(const struct gm_pieces *pieces, struct gm_sample *out);
void gm_pieces_free(struct gm_pieces *pieces);

#endif
