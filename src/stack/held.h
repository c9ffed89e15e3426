/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stacks of live blocks, by id, for the LIVE records of a new segment. Any thread. Takes
 * GM_LOCK_RANK_STACK, so the caller may hold the pool's locks. Keeps at most GM_HELD_MOST blocks;
 * other live blocks have no stack.
 */
#ifndef GM_STACK_HELD_H
#define GM_STACK_HELD_H

#include <stdint.h>

#define GM_HELD_MOST ((uint32_t)1 << 20)

/* Store the stack of block `id`, which is not 0. */
void gm_held_add(uint64_t id, uint32_t stack);
void gm_held_drop(uint64_t id);
/* 0: unknown. */
uint32_t gm_held_stack(uint64_t id);

/* In a forked child: start empty. */
void gm_held_forget(void);

#endif
