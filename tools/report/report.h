/* SPDX-License-Identifier: BSD-3-Clause */
/* The data of `gpumemstat report`: JSON for the scripts of tools/report/. Single-threaded;
 * functions end the program when memory is short. */
#ifndef GM_TOOLS_REPORT_REPORT_H
#define GM_TOOLS_REPORT_REPORT_H

#include "tools/log/alive.h"
#include "tools/log/groups.h"
#include "tools/log/lives.h"
#include "tools/log/logs.h"
#include "tools/log/owners.h"
#include "tools/stack/symbols.h"

enum { GM_REPORT_PEAK, GM_REPORT_OOM, GM_REPORT_EXIT, GM_REPORT_MOMENTS };

/* The live blocks of a device at a moment. */
struct gm_report_moment {
	bool known;
	uint64_t time;				/* CLOCK_MONOTONIC, ns */
	struct gm_groups_part all;		/* sums; `at` is NULL */
	GM_ARRAY(struct gm_groups_one) stacks;	/* those with most bytes */
	GM_ARRAY(struct gm_alive_block) blocks; /* the largest ones */
	struct gm_owners owners;		/* of a log with tensors */
};

/* The blocks at each moment, with their stacks. */
struct gm_report_blocks {
	const struct gm_figures *figures;
	enum gm_level level;
	struct gm_report_moment moments[GM_REPORT_MOMENTS][GM_COUNTER_DEVICES];
	struct gm_lives_devices lives;
	struct gm_symbols symbols;
	GM_ARRAY(uint32_t) stacks;	  /* numbers of stacks, sorted */
	GM_ARRAY(struct gm_frame) frames; /* distinct frames of these stacks, sorted */
};

/* `most`: the limit of lives.h; a lower one than LIVES_LEAST has no effect. Ends the program when
 * memory is short. The caller frees. */
void gm_report_blocks_read(struct gm_report_blocks *out, const struct gm_figures *figures,
			   size_t most);
void gm_report_blocks_free(struct gm_report_blocks *blocks);

/* "moments" of a device; "frames", "stacks" and "objects" of the log. */
void gm_report_moments_show(struct gm_emit *emit, const struct gm_report_blocks *blocks,
			    unsigned device);
void gm_report_stacks_show(struct gm_emit *emit, const struct gm_report_blocks *blocks);

/* The number of a stack; null: no stack, or the log lacks it. */
struct gm_value gm_report_stack_value(const struct gm_report_blocks *blocks, uint32_t number);

/* How many stacks of a device are in "call_sites"; the smaller ones are one more element. */
size_t gm_report_sites(const struct gm_lives *lives);

/* "call_sites", "lives", "areas", "chunks" and "frag" of a device. */
void gm_report_lives_show(struct gm_emit *emit, const struct gm_report_blocks *blocks,
			  unsigned device);

/* Write a log as members of the caller's open object. `points`: limit of a timeline. */
void gm_report_log_show(struct gm_emit *emit, struct gm_logs_one *log, size_t points);

/* "counters": name, scope, unit and help of each. */
void gm_report_counters_show(struct gm_emit *emit);

#endif
