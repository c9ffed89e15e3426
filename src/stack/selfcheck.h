/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Is the interpreter's memory laid out as released.h has it? A thread of ours takes the
 * interpreter's lock and compares the frames of all threads, as they stand, with those of the
 * public calls, and texts of its own of each width. Only if all are equal, and there were enough of
 * them, are frames read without trying each address. It runs no code of Python, so the program's
 * signal handlers, tracers, profilers and audit hooks see nothing of it. Also registers with the
 * module atexit, for the interpreter's end.
 */
#ifndef GM_STACK_SELFCHECK_H
#define GM_STACK_SELFCHECK_H

#include <stdbool.h>

/* Start the thread, which calls gm_released_decide when it can, and ends. False: there is no thread
 * to be had. pre: frames are WAITING. Takes no lock. */
bool gm_selfcheck_start(void);

#endif
