/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The Python frames of the calling thread by public calls of the interpreter. They make objects, so
 * a garbage collection may begin, run finalizers of the program, and let other threads run
 * meanwhile. So no lock of ours is held, and the caller's guard is down: calls of the finalizers
 * are served like all others.
 */
#ifndef GM_STACK_PUBLIC_H
#define GM_STACK_PUBLIC_H

#include <stdbool.h>

#include "log/record.h"

/*
 * The calls in progress in Python, the innermost first: at most `most`, their number is returned;
 * *cut: there are more. *guard is 0 during calls of the interpreter, and 1 afterwards. Preserves a
 * pending exception. pre: the thread holds the interpreter, and no lock; `state` is its own
 * (PyGILState_GetThisThreadState).
 */
uint32_t gm_public_frames(void *state, struct gm_frame *out, uint32_t most, unsigned *guard,
			  bool *cut);

#endif
