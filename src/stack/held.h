/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stacks of live blocks, by id, for the LIVE records of a new segment. Any thread. Takes
 * GM_LOCK_RANK_STACK, so the caller may hold the pool's locks. Keeps at most GM_HELD_MOST blocks;
 * other live blocks have no stack.
 */
#ifndef GM_STACK_HELD_H
#define GM_STACK_HELD_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/debug.h"
#include "stack/stack.h"

#define GM_HELD_MOST ((uint32_t)1 << 20)

/* Store the stack of block `id`, which is not 0. */
void gm_held_add(uint64_t id, uint32_t stack);
void gm_held_drop(uint64_t id);
/* 0: unknown. */
uint32_t gm_held_stack(uint64_t id);

/* During a recording small blocks are held, too: GM_STACK_BEFORE in place of a stack. From the
 * first gm_held_add_before to gm_held_clear, every free must drop its block. */
extern GM_HIDDEN atomic_bool gm_held_any_size;
void gm_held_add_before(uint64_t id);

/* May a block of this size be held? */
static inline bool gm_held_may(size_t size)
{
	return gm_stack_wanted(size) ||
	       GM_UNLIKELY(atomic_load_explicit(&gm_held_any_size, memory_order_relaxed));
}

/* Drop all. */
void gm_held_clear(void);

/* In a forked child: start empty. */
void gm_held_forget(void);

#endif
