/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Distinct stacks, each with a number and, in every segment that refers to it, a STACK record. Any
 * thread. Bounded by GM_TABLE_STACKS and GM_TABLE_FRAMES; the counters `stacks` and `stacks_lost`
 * say how many there are, and how often there was no room for another one.
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

/* The number of a stack, from 1; 0: there is no room. Takes GM_LOCK_RANK_STACK. */
uint32_t gm_table_number(const struct gm_trace *trace);

/* Write the STACK record, and the OBJECT records that it refers to, unless the current segment has
 * them. The caller may hold the pool's locks. */
void gm_table_write(uint32_t number);

/* The frames of a stack, *n of them, for good; NULL: there is no stack of this number. Takes
 * GM_LOCK_RANK_STACK. */
const struct gm_frame *gm_table_frames(uint32_t number, uint32_t *n);

/* In a forked child: start empty. */
void gm_table_forget(void);

#endif
