/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Python frames of the calling thread, by public calls of the interpreter that the process has
 * loaded, if any: CPython 3.9 to 3.14, also without a global lock. A thread that does not hold the
 * interpreter makes only the calls that show this: released.h.
 *
 * A thread holds the interpreter if the running thread state is this thread's own. PyGILState_Check
 * compares these, too; but it returns true on every thread once there were sub-interpreters (to
 * 3.11), and after the end of the interpreter.
 *
 * The calls make objects, so a garbage collection may begin, run finalizers of the program, and let
 * other threads run meanwhile. So no lock of ours is held, and the caller's guard is down: calls of
 * the finalizers are served like all others.
 *
 * A code object and an offset in it determine a frame. A cache keeps both, with a weak reference to
 * the code object, which shows whether the object at the address is still the same. The cache
 * belongs to the main interpreter, whose lock guards it.
 */
#ifndef GM_STACK_PYTHON_H
#define GM_STACK_PYTHON_H

#include "log/record.h"
#include "stack/unwind.h"

/* Search for the interpreter, if objects were loaded since the last search. pre:
 * gm_objects_refresh, no lock is held. */
void gm_python_find(void);

enum gm_python_state {
	GM_PYTHON_NONE,	     /* there is no interpreter */
	GM_PYTHON_ELSEWHERE, /* this thread does not hold it; its frames are unreadable */
	GM_PYTHON_HERE
};

/*
 * The calls in progress in Python, the innermost first: at most `most`, their number in *n; *cut:
 * there are more. *guard is 0 during calls of the interpreter, and 1 afterwards; `guard` NULL: it
 * is not called (stack.h). pre: no lock is held; this thread is in no other call of this function.
 */
enum gm_python_state gm_python_frames(struct gm_frame *out, uint32_t most, unsigned *guard,
				      uint32_t *n, bool *cut);

/* The interpreter's own object: C frames in it stand for Python's calls. */
struct gm_span gm_python_span(void);

/* In a forked child: the string numbers are the parent's. */
void gm_python_forget(void);

#endif
