/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Call stacks of allocations, for the log of events (GPUMEM_STACKS). A stack is C and C++ frames up
 * to the Python interpreter, then the frames of Python (python.h). Any thread.
 */
#ifndef GM_STACK_STACK_H
#define GM_STACK_STACK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/debug.h"

#define GM_STACK_LARGE ((size_t)64 << 10) /* GPUMEM_STACKS=large: from this size on */

/* The least size of an allocation with a stack; SIZE_MAX: no stacks. */
extern GM_HIDDEN _Atomic size_t gm_stack_least;
static inline bool gm_stack_wanted(size_t size)
{
	return GM_UNLIKELY(size >= atomic_load_explicit(&gm_stack_least, memory_order_acquire));
}

static inline bool gm_stacks_are_on(void)
{
	return atomic_load_explicit(&gm_stack_least, memory_order_acquire) != SIZE_MAX;
}

/* Allocations of `least` bytes and more have a stack from now on. The innermost frames in the
 * object of `own` are left out; NULL: none are. One thread at a time. False: no unwinder, so that
 * stacks have Python frames only. */
bool gm_stack_open(size_t least, const void *own);

/* No allocation has a stack from now on, and no live block. */
void gm_stack_close(void);

/* The program's call being served: its return address, and the begin of its callee's frame.
 * GM_STACK_FROM: use it in the function that the program called. */
struct gm_stack_from {
	uintptr_t address, frame;
};
#define GM_STACK_FROM                                                   \
	((struct gm_stack_from){(uintptr_t)__builtin_return_address(0), \
				(uintptr_t)__builtin_dwarf_cfa()})

/*
 * The number of the calling thread's stack, which the log has from now on; 0: there is no room for
 * another one, or this call is from a finalizer that runs within one. *guard is the caller's: 0
 * during calls of the interpreter, which run code of the program, else 1. `from`: the program's
 * call, or {0}, which takes longer. pre: *guard is 1, no lock is held. Preserves errno.
 */
uint32_t gm_stack_capture(unsigned *guard, struct gm_stack_from from);

/* The same for a call whose caller holds a lock that code of the program may wait for: the
 * interpreter is not called (released.h). `forward`: the number of the stack in which the operator
 * was called whose backward runs now, the last frame then (GM_FRAME_FORWARD); 0: none. */
uint32_t gm_stack_capture_locked(struct gm_stack_from from, uint32_t forward);

/* The number of a stack of the calling thread's Python frames alone; 0: it has none. The
 * interpreter is not called. */
uint32_t gm_stack_capture_python(void);

/* In a forked child: start empty, without stacks. */
void gm_stack_forget(void);

#endif
