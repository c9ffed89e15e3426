/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of a run at a moment by call site, the line of the program that asked for it, and the
 * differences of two runs. Sites have names, not addresses or numbers of stacks, so those of two
 * builds, or of two runs with other addresses, match. Ends the program when memory is short.
 * Single-threaded.
 */
#ifndef GM_TOOLS_STACK_SITES_H
#define GM_TOOLS_STACK_SITES_H

#include "base/array.h"
#include "log/read.h"
#include "tools/log/moment.h"

struct gm_site {
	const char *name; /* "train (project/train.py:7)", as gm_frames_place */
	const char *file; /* the name without the folder of the file; "": it has no line */
	const char *stem; /* also without the line; "" likewise */
	unsigned line;
	uint64_t bytes, blocks;
};

struct gm_sites {
	GM_ARRAY(struct gm_site) all; /* of distinct names, by name */
	GM_ARRAY(char *) texts;	      /* memory of the strings */
	uint64_t bytes, blocks;	      /* the sums */
	size_t nameless;	      /* sites of C whose function is not known */
};

/* Add the sites of a log, of all its devices at the moment that each has. `wish->level`: blocks or
 * tensors. NULL, or the reason for which the blocks are not known. Rewinds the log. */
const char *gm_sites_add(struct gm_sites *sites, struct gm_log_file *file,
			 const struct gm_moment_wish *wish);
void gm_sites_free(struct gm_sites *sites);

/* A site of two runs; NULL: only the other run has it. */
struct gm_site_diff {
	const struct gm_site *old, *new;
};

struct gm_site_diffs {
	GM_ARRAY(struct gm_site_diff)
	all;		/* the largest difference of bytes first, then of blocks */
	size_t changed; /* so many are at the begin; the others are equal */
};

/*
 * Sites of one name match. So do two whose folder differs, and two whose line differs, too, if each
 * run has one site of that function, file and line, or of that function and file: the project has
 * another place, or the line moved. Refers to `old` and `new`. The caller frees.
 */
void gm_site_diffs_make(struct gm_site_diffs *diffs, const struct gm_sites *old,
			const struct gm_sites *new);
void gm_site_diffs_free(struct gm_site_diffs *diffs);

/* The new value less the old one. */
int64_t gm_site_diff_bytes(const struct gm_site_diff *diff);
int64_t gm_site_diff_blocks(const struct gm_site_diff *diff);

#endif
