/* SPDX-License-Identifier: BSD-3-Clause */
/* The live blocks at the first refusal of each device, from HELD records. A log without events has
 * these records, too. Single-threaded. */
#ifndef GM_TOOLS_LOG_OOM_H
#define GM_TOOLS_LOG_OOM_H

#include "base/array.h"
#include "log/counters.h"
#include "log/read.h"

struct gm_oom_group {
	uint64_t bytes, blocks, largest;
	uint32_t stack; /* 0: none; then all blocks have the size `largest`, except in the rest */
	unsigned device;
	bool rest;
};

struct gm_oom {
	GM_ARRAY(struct gm_oom_group) groups;
	uint64_t failure[GM_COUNTER_DEVICES]; /* number of the refusal; 0: unknown */
	uint64_t time[GM_COUNTER_DEVICES];
	bool stacks; /* some groups have one */
};

/* Fill in *out; the caller frees. Ends the program when memory is short. Rewinds the log. */
void gm_oom_read(struct gm_log_file *file, struct gm_oom *out);
void gm_oom_free(struct gm_oom *oom);

#endif
