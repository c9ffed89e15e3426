/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Call stacks of allocations, for the log of events (GPUMEM_STACKS). A stack is C and C++ frames up
 * to the Python interpreter, then the frames of Python; of a thread that does not hold the
 * interpreter, C frames only. Any thread.
 */
#ifndef GM_STACK_STACK_H
#define GM_STACK_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/debug.h"

#define GM_STACK_LARGE ((size_t)64 << 10) /* GPUMEM_STACKS=large: from this size on */

/* The least size of an allocation with a stack; SIZE_MAX: none has one. */
extern size_t gm_stack_least;
static inline bool gm_stack_wanted(size_t size)
{
	return GM_UNLIKELY(size >= gm_stack_least);
}

/* Allocations of `least` bytes and more have a stack from now on. The innermost frames that lie in
 * the object of `own` are left out; NULL: none are. One thread, before any other call. False: there
 * is no unwinder, and frames are Python's alone. */
bool gm_stack_open(size_t least, const void *own);

/*
 * The number of the calling thread's stack, which the log has from now on; 0: there is no room for
 * another one, or this call is from a finalizer that runs within one. *guard is the caller's: 0
 * while calls of the interpreter are made, which run code of the program, else 1. pre: *guard is
 * 1, no lock is held. errno stays.
 */
uint32_t gm_stack_capture(unsigned *guard);

/* In a forked child: start empty, without stacks. */
void gm_stack_forget(void);

#endif
