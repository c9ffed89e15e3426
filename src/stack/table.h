/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Distinct stacks. Each has a number, and a STACK record in every segment that refers to it. Any
 * thread. Bounded by GM_TABLE_STACKS and GM_TABLE_FRAMES; the counters `stacks` and `stacks_lost`
 * have the number of stacks, and of calls that found no room for another one.
 */
#ifndef GM_STACK_TABLE_H
#define GM_STACK_TABLE_H

#include "log/record.h"

#define GM_TABLE_STACKS 65536u
#define GM_TABLE_FRAMES (1u << 21) /* of all stacks: 32 MiB */

struct gm_trace {
	uint32_t n, flags; /* enum gm_stack_flag */
	struct gm_frame frames[GM_FRAMES_MOST];
};

/* The number of a stack, from 1; 0: no room. Takes GM_LOCK_RANK_STACK. */
uint32_t gm_table_number(const struct gm_trace *trace);

/* Write the STACK record, and its OBJECT records, unless the current segment has them. The caller
 * may hold the pool's locks. */
void gm_table_write(uint32_t number);

/* The first `n` frames of a trace, if they came from the cache (recent.h), with their serial; 0:
 * none. */
struct gm_table_hint {
	uint64_t serial;
	uint32_t n;
};

/* Get the number of a stack, and write it. With a hint, its serial and the other frames identify
 * the stack. */
uint32_t gm_table_put(const struct gm_trace *trace, struct gm_table_hint hint);

/* The *n frames of a stack, valid until the process ends; NULL: no such stack. */
const struct gm_frame *gm_table_frames(uint32_t number, uint32_t *n);

/* In a forked child: start empty. */
void gm_table_forget(void);

#endif
