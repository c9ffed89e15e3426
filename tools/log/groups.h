/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks added up by their call stack, size or context. Single-threaded. */
#ifndef GM_TOOLS_LOG_GROUPS_H
#define GM_TOOLS_LOG_GROUPS_H

#include "log/counters.h"
#include "tools/log/alive.h"
#include "tools/options.h"

/* Blocks of one device that have the same stack, size or context. */
struct gm_groups_one {
	uint64_t key, bytes, blocks, largest;
	unsigned device;
};

struct gm_groups {
	GM_ARRAY(struct gm_groups_one) all;	       /* by device, those with most bytes first */
	struct gm_groups_one rest[GM_COUNTER_DEVICES]; /* blocks in no group */
};

/* The groups of a device; the sums include the rest. */
struct gm_groups_part {
	const struct gm_groups_one *at;
	size_t n;
	uint64_t bytes, blocks;
};

/* Add up the blocks; sorts them. Ends the program when memory is short. The caller frees. */
void gm_groups_make(struct gm_groups *groups, struct gm_alive *alive, enum gm_group by);
/* Groups of the blocks recorded at the first refusal of each device, by stack, or by size if there
 * are no stacks; sets *by. `moments`: one a device, set here. Else like gm_groups_make. False: the
 * log has no such blocks. */
bool gm_groups_of_refusal(struct gm_groups *groups, struct gm_log_file *file,
			  struct gm_alive_moment *moments, enum gm_group *by);

struct gm_groups_part gm_groups_part(const struct gm_groups *groups, unsigned device);
void gm_groups_free(struct gm_groups *groups);

#endif
