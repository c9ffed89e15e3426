/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks of a log of events by size and by lifetime, in powers of two. Memory use: the peak of live
 * blocks. Single-threaded. */
#ifndef GM_TOOLS_LOG_BINS_H
#define GM_TOOLS_LOG_BINS_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/log/level.h"

/* Bin 0: value 0. Bin b: values from 2^(b-1) to below 2^b. */
enum { GM_BINS = 65 };

struct gm_bin {
	uint64_t blocks, bytes;
};

struct gm_bins {
	struct gm_bin sizes[GM_BINS], lives[GM_BINS]; /* lives: ns */
	struct gm_bin kept;			      /* never freed */
	struct gm_bin
		unknown; /* freed, but allocated before the log's first record; or not numbered */
};

/* Add the blocks, or tensors, of `device` (-1: all devices). Rewinds the log. Ends the program when
 * memory is short. */
void gm_bins_read(struct gm_bins *bins, struct gm_log_file *file, int device, enum gm_level level);

/* The lowest value of a bin. */
uint64_t gm_bins_least(unsigned bin);

struct gm_bin gm_bins_sum(const struct gm_bin bins[GM_BINS]);

/* The first and the last bin with blocks. False: no blocks. */
bool gm_bins_span(const struct gm_bin bins[GM_BINS], unsigned *first, unsigned *last);

#endif
