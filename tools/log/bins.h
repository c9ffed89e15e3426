/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks of a log of events by size, and by how long they lived, in powers of two. Memory is that
 * of the most blocks alive at a time. Single-threaded. */
#ifndef GM_TOOLS_LOG_BINS_H
#define GM_TOOLS_LOG_BINS_H

#include <stdbool.h>
#include <stdint.h>

struct gm_log_file;

/* Bin 0 is for 0; bin b for 2^(b-1) and more, below 2^b. */
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

/* Add the blocks of a device, or of all for -1. Rewinds the log. Ends the program when memory is
 * short. */
void gm_bins_read(struct gm_bins *bins, struct gm_log_file *file, int device);

/* The least value of a bin. */
uint64_t gm_bins_least(unsigned bin);

struct gm_bin gm_bins_sum(const struct gm_bin bins[GM_BINS]);

/* The first and the last bin in use. False: none is. */
bool gm_bins_span(const struct gm_bin bins[GM_BINS], unsigned *first, unsigned *last);

#endif
