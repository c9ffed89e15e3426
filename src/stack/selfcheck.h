/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Is the interpreter's memory laid out as released.h has it? A little Python code of our own runs
 * in the main thread, between two instructions of the program: a method with a name beyond ASCII, a
 * generator, calls through C. Its innermost call compares all frames with those of the public
 * calls. Only if they are equal are frames of other threads read. Also registers with the module
 * atexit, for the interpreter's end.
 */
#ifndef GM_STACK_SELFCHECK_H
#define GM_STACK_SELFCHECK_H

#include <stdbool.h>

/* Have the check run soon; it calls gm_released_decide. False: the interpreter cannot. pre:
 * frames are WAITING. Takes no lock that a thread keeps. */
bool gm_selfcheck_start(void);

#endif
