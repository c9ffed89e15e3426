/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Python frames of a thread that has released the interpreter's lock for a call, as PyTorch,
 * CuPy and ctypes do. The interpreter must not be called then, but the frames are the thread's own:
 * it runs no Python until our call returns, so no frame changes or ends, and no code object that a
 * frame refers to. Other threads only make objects of frames, and move no member that is read here.
 * The layout is that of the release (the table of released.c), of builds with the lock. Other
 * builds have no frames here. Frames of a sub-interpreter are missing: the thread's state is that
 * of the main interpreter.
 *
 * No read faults: the first walk reads through the kernel, which refuses an unmapped address, and
 * compares the types of all objects. After a wrong type no frame is read again. A walk without a
 * wrong type has confirmed the layout; later walks compare the types of code objects. Only the main
 * thread's frames are read: the interpreter's end frees other threads' states, and runs on the main
 * thread.
 */
#ifndef GM_STACK_RELEASED_H
#define GM_STACK_RELEASED_H

#include <stdbool.h>

#include "log/record.h"

/* Find the data of the layout, for an interpreter that was found; unless `allowed`, no frame is
 * ever read. One thread. */
void gm_released_find(bool allowed);

/*
 * The calls in progress in Python, by the calling thread's state (PyGILState_GetThisThreadState),
 * the innermost first: at most `most`; *cut: there are more. Returns their number; 0: unknown
 * layout, or not the main thread. Takes no lock but those of gm_log_string.
 */
uint32_t gm_released_frames(const void *state, struct gm_frame *out, uint32_t most, bool *cut);

/* In a forked child: the string numbers are the parent's. */
void gm_released_forget(void);

#endif
