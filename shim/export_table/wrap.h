/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A copy of a table of functions with unknown parameters. Each function of the copy is a stub: it
 * enters the door (residency/door.h) and submits work to an unknown stream (shim/context/submit.h),
 * calls the driver's function with the same registers and the same 256 bytes of arguments on the
 * stack, and leaves.
 *
 *     stub i -> gm_wrap_call -> gm_wrap_peek   general registers only: is there anything to do?
 *                            -> gm_wrap_begin  vector registers are saved around it
 *                            -> the driver's function
 *                            -> gm_wrap_end    if gm_wrap_begin has entered
 *
 * Only the outermost call of a thread enters. A call that ends without a return (longjmp, an
 * exception) leaves at the thread's end, or when the thread next begins a call, or submits work, at
 * a depth that is not below the stub's own frame. Until then it is inside: that is the safe side.
 */
#ifndef GM_SHIM_EXPORT_TABLE_WRAP_H
#define GM_SHIM_EXPORT_TABLE_WRAP_H

#define GM_WRAP_STUBS 2048 /* functions of all copies */

/* Bytes of a stub's frame: saved registers, and the copied arguments. */
#define GM_WRAP_REGISTERS 576
#define GM_WRAP_COPIED 256

#ifndef __ASSEMBLER__

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/debug.h"

/* Of tables that begin with their size. */
#define GM_WRAP_LEAST 16u
#define GM_WRAP_MOST 4096u

/* Can gm_wrap_table copy a table with this first word, on this processor? */
static inline bool gm_wrap_possible(uint64_t bytes)
{
#ifdef __x86_64__
	return bytes >= GM_WRAP_LEAST && bytes <= GM_WRAP_MOST && bytes % 8 == 0;
#else
	(void)bytes;
	return false;
#endif
}

/* What calls of functions of copies do. */
struct gm_wrap_events {
	/* Function `entry` of table `number` is called, for the first time or the first time after
	 * gm_wrap_alarm. `quiet`: the thread may hold a lock. True: no further call is told. */
	bool (*called)(unsigned number, unsigned entry, bool quiet);
	void (*submits)(void); /* work to an unknown stream; gm_order_leave follows the call */
};

/* A copy of `table`, of gm_wrap_possible bytes, that lives for ever; NULL: there is no room.
 * `number` and `entry` are of `events`, the same in all calls. pre: the caller is alone. Allocates
 * nothing. */
const void *gm_wrap_table(const void *table, size_t bytes, unsigned number,
			  const struct gm_wrap_events *events);

/* The next call of each function of a copy is told to events->called, as its first one was. */
void gm_wrap_alarm(void);

/* Call `each` for each function of a copy that was called. */
void gm_wrap_walk(void (*each)(unsigned number, unsigned entry, uint64_t calls));

/* In a forked child. */
void gm_wrap_forget(void);

/* --- calls --- */

/* This thread's outermost call: where its return address lies, plus the bits below; 0: none. */
extern GM_TLS uintptr_t gm_wrap_in;
enum { GM_WRAP_DOOR = 1, GM_WRAP_ORDER = 2, GM_WRAP_BITS = 7 };

/* The thread submits work of its own. Only in a mode in which calls are counted. */
void gm_wrap_pass_in(void);
static inline void gm_wrap_pass(void)
{
	if (GM_UNLIKELY(gm_wrap_in))
		gm_wrap_pass_in();
}

#endif
#endif
