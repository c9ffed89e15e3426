/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Python frames of the calling thread, of the interpreter that the process has loaded, if any:
 * CPython 3.9 to 3.14. They are read from its memory (released.h). Where that is refused, they come
 * from its public calls (public.h), which need its lock; then a thread without the lock has none.
 *
 * A thread holds the lock if the running thread state is this thread's own. PyGILState_Check
 * compares these, too; but it returns true on every thread once there were sub-interpreters
 * (to 3.11), and after the end of the interpreter.
 */
#ifndef GM_STACK_PYTHON_H
#define GM_STACK_PYTHON_H

#include "log/record.h"
#include "stack/released.h"
#include "stack/unwind.h"

/* Search for the interpreter, if objects were loaded since the last search. pre:
 * gm_objects_refresh, no lock is held. */
void gm_python_find(void);

enum gm_python_state {
	GM_PYTHON_NONE,	     /* there is no interpreter */
	GM_PYTHON_ELSEWHERE, /* this thread's frames are unknown */
	GM_PYTHON_HERE
};

/*
 * The calls in progress in Python, the innermost first: at most `most`, their number in *n; *cut:
 * there are more. *guard is 0 during calls of the interpreter, and 1 afterwards; `guard` NULL: it
 * is not called (stack.h). pre: no lock is held; this thread is in no other call of this function.
 */
enum gm_python_state gm_python_frames(struct gm_released_memory *memory, struct gm_frame *out,
				      uint32_t most, unsigned *guard, uint32_t *n, bool *cut);

/* The interpreter's own object: C frames in it stand for Python's calls. */
struct gm_span gm_python_span(void);

/* In a forked child: the string numbers are the parent's. */
void gm_python_forget(void);

#endif
